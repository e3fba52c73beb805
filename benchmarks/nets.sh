#!/usr/bin/env bash
# Nets on peers with limited links: what strategies are worth, and how much of sending hides behind computing. Prints tables for docs/nets.md.
# Then PyTorch's DistributedDataParallel with Gloo beside, with as many processes of one thread each. Needs root, `ip` and `tc`; without root only what needs no limits.
# `--traces` instead writes docs/nets-before.svg and docs/nets-after.svg, a step with and without overlap.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ -z "${HEMIOLA_BUILT:-}" ]; then
    cargo build --release --locked --features nets --bin hemiola
    cargo build --release --locked -p hemiola-nn --example step
fi
venv=target/benchmarks/nets
if [ -z "${NETS_PYTHON:-}" ] && [ "${1:-}" != --traces ]; then
    [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet numpy "torch==${TORCH_VERSION:-2.9.1}"
fi
exec python3 benchmarks/nets.py --python "${NETS_PYTHON:-$venv/bin/python}" "$@"
