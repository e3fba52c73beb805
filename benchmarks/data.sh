#!/usr/bin/env bash
# Reads MovieLens-1M with hemiola and with polars, on one thread and on two, in turn. Prints MB/s of the
# best round of each.
set -euo pipefail
cd "$(dirname "$0")/.."
polars_version=${POLARS_VERSION:-2.1.0}
rounds=${ROUNDS:-5}
: "${HEMIOLA_DATA:?set it to the folder with movielens-1m/ratings.tsv.zst}"

venv=target/benchmarks/venv
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/pip" install --quiet "polars==$polars_version" zstandard
cargo build --quiet --release --features bench --bin hemiola

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$venv/bin/python" -c "
import sys, zstandard
with open(sys.argv[1], 'rb') as packed, open(sys.argv[2], 'wb') as plain:
    zstandard.ZstdDecompressor().copy_stream(packed, plain)
" "$HEMIOLA_DATA/movielens-1m/ratings.tsv.zst" "$work/ratings.tsv"

for round in $(seq "$rounds"); do
    target/release/hemiola bench data --rounds 1 --report "$work/hemiola-$round.json" > /dev/null
    for threads in 1 2; do
        POLARS_MAX_THREADS=$threads "$venv/bin/python" benchmarks/data_polars.py "$work/ratings.tsv" >> "$work/polars-$threads.txt"
    done
done
"$venv/bin/python" - "$work" "$rounds" <<'PYTHON'
import json, sys
work, rounds = sys.argv[1], int(sys.argv[2])
reports = [json.load(open(f"{work}/hemiola-{number + 1}.json")) for number in range(rounds)]
print(f"csv, MB/s of text, best of {rounds} rounds")
print(f"{'':12} {'hemiola':>10} {'polars':>10} {'ratio':>7}")
for index, threads in enumerate([1, 2]):
    ours = max(report["csv_mbps"][index] for report in reports)
    theirs = max(float(line) for line in open(f"{work}/polars-{threads}.txt"))
    print(f"{threads} thread{'s' if threads > 1 else ' '}    {ours:10.0f} {theirs:10.0f} {ours / theirs:7.2f}")
PYTHON
