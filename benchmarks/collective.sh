#!/usr/bin/env bash
# Compares all-reduce over TCP between processes of this machine: hemiola, Gloo (through PyTorch) and
# Open MPI, in turn. Prints a table; --write puts it into benchmarks/results. Without mpirun, Open MPI is
# skipped.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=target/benchmarks/collective
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/pip" install --quiet numpy "torch==${TORCH_VERSION:-2.15.0}"
if command -v mpirun > /dev/null; then
    "$venv/bin/pip" install --quiet mpi4py
fi
cargo build --quiet --release --features bench --bin hemiola
exec "$venv/bin/python" -W ignore benchmarks/collective.py "$@"
