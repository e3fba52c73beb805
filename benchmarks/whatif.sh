#!/usr/bin/env bash
# Compares predictions of `hemiola simulate` with real peers on limited links: 2 and 4 peers, 100 Mbit/s and
# 1 Gbit/s, with rotation and with tables. Prints a table for benchmarks/results/*/predictions.md. Needs root,
# `ip` and `tc`: peers run in network namespaces whose links have token buckets. Takes about seven minutes on an
# idle machine; other load disturbs it.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "$(id -u)" != 0 ]; then
    echo "whatif.sh: network namespaces need root" >&2
    exit 2
fi
if [ -z "${HEMIOLA_BUILT:-}" ]; then
    cargo build --release --locked --features bench,sim --bin hemiola
fi
exec python3 benchmarks/whatif.py "$@"
