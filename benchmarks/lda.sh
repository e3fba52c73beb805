#!/usr/bin/env bash
# Compares topic models: hemiola and tomotopy, in turn, on synthetic documents and on NIPS, NYT and 20
# Newsgroups of HEMIOLA_DATA. Prints a table; --write puts it into benchmarks/results. `--memory` instead
# trains on 200 million synthetic tokens and prints the peak memory.
set -euo pipefail
cd "$(dirname "$0")/.."
tomotopy_version=${TOMOTOPY_VERSION:-0.14.0}

cargo build --quiet --release --bin hemiola
if [ "${1:-}" = --memory ]; then
    cargo build --quiet --release --features bench --bin hemiola
    exec target/release/hemiola bench lda-memory "${@:2}"
fi
venv=target/benchmarks/lda
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/pip" install --quiet numpy zstandard "tomotopy==$tomotopy_version"
exec "$venv/bin/python" -W ignore benchmarks/lda.py "$@"
