#!/usr/bin/env bash
# Compares the estimators of the Python package with what Python users would pick: scikit-learn, celer, skglm,
# implicit and tomotopy, as far as they install, in turn, on synthetic sets. Counts the checks of scikit-learn's
# contract. --report FILE writes the figures as JSON. PYTHON_BENCH_PYTHON names a Python with all packages.
set -euo pipefail
cd "$(dirname "$0")/.."

python=${PYTHON_BENCH_PYTHON:-}
if [ -z "$python" ]; then
    venv=target/benchmarks/python-venv
    [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check numpy scipy pytest pandas "scikit-learn==1.9.1"
    for package in "celer==0.7.4" "skglm==0.5" "implicit==0.7.3" "tomotopy==0.14.0"; do
        "$venv/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: "$package" ||
            echo "without $package, which does not install here" >&2
    done
    "$venv/bin/pip" install --quiet --disable-pip-version-check .
    python=$venv/bin/python
fi
# All fits run on one thread.
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 NUMBA_NUM_THREADS=1
exec "$python" -W ignore benchmarks/python.py "$@"
