#!/usr/bin/env bash
# Repeats the runs of docs/experiments/topics.md: topics of the NIPS papers (HEMIOLA_DATA), trained by 4 processes on
# this machine with rotation and with parameter-server tables. Writes docs/pictures/topics-ways.svg and prints a table.
set -euo pipefail
cd "$(dirname "$0")/.."
[ -n "${HEMIOLA_BUILT:-}" ] || cargo build --quiet --release --bin hemiola
hemiola=$PWD/target/release/hemiola
data=${HEMIOLA_DATA:?set HEMIOLA_DATA to the folder with uci-nips}/uci-nips/docword.nips.txt.zst
epochs=${EPOCHS:-100}
# Bytes per second that a peer may send eagerly: about a quarter of its total traffic.
budget=${BUDGET:-10000000}
runs=$(mktemp -d)
trap 'rm -rf "$runs"' EXIT
train=(train lda --data "$data" --topics 100 --epochs "$epochs" --peers 4 --workers 1 --fixed-alpha --quiet)

"$hemiola" "${train[@]}" --report "$runs/rotation.json"
"$hemiola" "${train[@]}" --mode tables --staleness 0 --report "$runs/tables-0.json"
"$hemiola" "${train[@]}" --mode tables --staleness 2 --report "$runs/tables-2.json"
"$hemiola" "${train[@]}" --mode tables --staleness 2 --bandwidth-budget "$budget" --report "$runs/tables-budget.json"

"$hemiola" plot "$runs/rotation.json" "$runs/tables-0.json" "$runs/tables-2.json" "$runs/tables-budget.json" \
    --label rotation --label 'tables, staleness 0' --label 'tables, staleness 2' --label 'tables, staleness 2, 10 MB/s eagerly' \
    --y likelihood --x epochs,seconds,bytes -o docs/pictures/topics-ways.svg

python3 - "$runs" <<'PYTHON'
import json, pathlib, sys
print("| run | epochs | log-likelihood per token | seconds | MB sent by all |\n|---|---|---|---|---|")
for name in ["rotation", "tables-0", "tables-2", "tables-budget"]:
    report = json.loads((pathlib.Path(sys.argv[1]) / f"{name}.json").read_text())
    last = report["progress"][-1]
    print(f"| {name} | {last['epoch']} | {last['train']['likelihood']:.4f} | {last['seconds']:.1f} | {last['bytes_sent'] / 1e6:.0f} |")
PYTHON
