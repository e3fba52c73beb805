#!/usr/bin/env bash
# Compares linear classifiers: hemiola and liblinear (through scikit-learn), in turn, on a9a, w8a and IMDB
# of HEMIOLA_DATA. Prints a table; --write puts it into benchmarks/results.
set -euo pipefail
cd "$(dirname "$0")/.."
sklearn_version=${SKLEARN_VERSION:-1.9.1}

venv=target/benchmarks/linear
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/pip" install --quiet numpy zstandard "scikit-learn==$sklearn_version"
cargo build --quiet --release --bin hemiola
# liblinear has one thread; scikit-learn must not start more.
export SKLEARN_VERSION=$sklearn_version OMP_NUM_THREADS=1
exec "$venv/bin/python" -W ignore benchmarks/linear.py "$@"
