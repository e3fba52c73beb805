#!/usr/bin/env bash
# Compares lasso solvers: hemiola, celer, skglm, scikit-learn and adelie, in turn, on a dense and a sparse
# synthetic problem. Prints a table; --write puts it into benchmarks/results. LASSO_PYTHON names a Python
# with all four packages.
set -euo pipefail
cd "$(dirname "$0")/.."

python=${LASSO_PYTHON:-}
if [ -z "$python" ]; then
    venv=target/benchmarks/lasso-venv
    [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet "numpy<2" scipy "scikit-learn==1.9.1" "celer==0.7.4" "skglm==0.5" "adelie==1.1.52"
    python=$venv/bin/python
fi
cargo build --quiet --release --features bench --bin hemiola
# All solvers run on one thread.
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 NUMBA_NUM_THREADS=1
exec "$python" -W ignore benchmarks/lasso.py "$@"
