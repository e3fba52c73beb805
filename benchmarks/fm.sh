#!/usr/bin/env bash
# Compares factorization machines: hemiola, xLearn and myFM, in turn, on the samples of Frappe and Criteo in
# HEMIOLA_DATA. Prints a table; --write puts it into benchmarks/results.
set -euo pipefail
cd "$(dirname "$0")/.."
xlearn_version=${XLEARN_VERSION:-0.40a1} myfm_version=${MYFM_VERSION:-0.4.0} cmake_version=${CMAKE_VERSION:-3.31.10}

venv=target/benchmarks/fm
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
# xLearn is built from source, with a compiler and CMake 3.
"$venv/bin/pip" install --quiet "setuptools<70" wheel "cmake==$cmake_version" numpy scipy zstandard scikit-learn "myfm==$myfm_version"
PATH="$PWD/$venv/bin:$PATH" "$venv/bin/pip" install --quiet --no-build-isolation "xlearn==$xlearn_version"
cargo build --quiet --release --bin hemiola
export XLEARN_VERSION=$xlearn_version MYFM_VERSION=$myfm_version OMP_NUM_THREADS=1
exec "$venv/bin/python" -W ignore benchmarks/fm.py "$@"
