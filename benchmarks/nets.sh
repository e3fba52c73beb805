#!/usr/bin/env bash
# Measures neural networks on peers with limited links: the strategies, and the overlap of communication with
# computation. Then measures PyTorch DistributedDataParallel with Gloo, with the same number of processes of
# one thread each, and PyTorch in one process with one thread and with two. Prints tables for benchmarks/results/*/nets.md. Needs root, `ip` and `tc`; without
# root only the parts without link limits run. `--traces` instead writes nets-before.svg and nets-after.svg in
# docs/pictures, a step without and with overlap. `--report FILE` writes the ratios of one process as JSON, and
# `--only-alone` measures nothing else.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ -z "${HEMIOLA_BUILT:-}" ]; then
    cargo build --release --locked --features bench,nets --bin hemiola
    cargo build --release --locked -p hemiola-nn --example net_speed
fi
venv=target/benchmarks/nets
if [ -z "${NETS_PYTHON:-}" ] && [ "${1:-}" != --traces ]; then
    [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet numpy "torch==${TORCH_VERSION:-2.15.0}"
fi
exec python3 benchmarks/nets.py --python "${NETS_PYTHON:-$venv/bin/python}" "$@"
