#!/usr/bin/env bash
# All-reduce over TCP between processes of this machine: hemiola beside Gloo (through PyTorch) and Open MPI, in turn.
# Prints a table, and with --write puts it into docs/performance.md. Open MPI is left out where there is no mpirun.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=target/benchmarks/collective
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/pip" install --quiet numpy "torch==${TORCH_VERSION:-2.15.0}"
if command -v mpirun > /dev/null; then
    "$venv/bin/pip" install --quiet mpi4py
fi
cargo build --quiet --release --bin hemiola
exec "$venv/bin/python" -W ignore benchmarks/collective.py "$@"
