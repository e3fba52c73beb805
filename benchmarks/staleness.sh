#!/usr/bin/env bash
# Repeats the runs and charts of docs/experiments/parameter-server.md: four peers with one worker each on this machine.
#
#   benchmarks/staleness.sh            runs in target/staleness, charts in docs/pictures
#
# Processes of one machine have no network limit; a run with a budget limits its own bandwidth.
set -euo pipefail
cd "$(dirname "$0")/.."
runs=target/staleness
mkdir -p "$runs"
hemiola=${HEMIOLA:-target/release/hemiola}
if [ -z "${HEMIOLA_BUILT:-}" ]; then
    cargo build --release --locked --features bench --bin hemiola
fi

# Runs the program: the name of the run, then flags, which override those given here.
mf() {
    local name=$1
    shift
    rm -f "$runs/$name.json"
    if "$hemiola" run --quiet -n 4 --workers 1 -- "$hemiola" bench staleness --update-rule adarevision --learning-rate 0.3 "$@" --report "$runs/$name.json" \
        >"$runs/$name.txt" 2>&1; then
        printf '%-28s %s\n' "$name" "$(tail -n 1 "$runs/$name.txt")"
    else
        printf '%-28s %s\n' "$name" "failed: $(grep -m 1 -o 'added NaN.*' "$runs/$name.txt" || tail -n 1 "$runs/$name.txt")"
    fi
}

# Every worker pauses as if its batch took that long, so that four peers on two cores resemble four machines.
echo '== stragglers: one worker pauses 20 ms more per clock, in turn or always the same; then none'
for staleness in 0 1 3; do
    mf "turns-$staleness" --staleness "$staleness" --pause 5 --turns 20 --epochs 20
    mf "slow-$staleness" --staleness "$staleness" --pause 5 --slow 20 --epochs 20
    mf "even-$staleness" --staleness "$staleness" --pause 5 --epochs 20
done
"$hemiola" plot "$runs"/turns-{0,1,3}.json --label BSP --label 'staleness 1' --label 'staleness 3' --y rmse --x seconds,epochs \
    -o docs/pictures/staleness-pauses.svg

echo '== bandwidth-managed communication'
managed=(--clocks 1 --batches 20 --pause 2 --staleness 1 --epochs 30)
mf unmanaged "${managed[@]}"
for megabits in 10 40 160; do
    mf "budget-$megabits" "${managed[@]}" --budget "$megabits"
done
"$hemiola" plot "$runs"/unmanaged.json "$runs"/budget-{10,40,160}.json --label 'at clocks only' --label '10 Mbit/s eagerly' \
    --label '40 Mbit/s eagerly' --label '160 Mbit/s eagerly' --y rmse --x epochs,seconds --log-y -o docs/pictures/staleness-managed.svg

echo '== prioritization policies'
# The rows sent in time depend on the load of the machine, so runs differ: five of each; the chart shows one.
for priority in round-robin random absolute relative; do
    for again in -2 -3 -4 -5 ''; do
        mf "priority-$priority$again" "${managed[@]}" --budget 10 --priority "$priority"
    done
done
"$hemiola" plot "$runs"/unmanaged.json "$runs"/priority-{round-robin,random,absolute,relative}.json --label 'nothing eagerly' --label 'round-robin' \
    --label random --label 'absolute magnitude' --label 'relative magnitude' --y rmse --x epochs --log-y -o docs/pictures/staleness-priorities.svg

echo '== learning rates over a factor of 100'
drawn=()
for rate in 0.03 0.1 0.2 0.3 0.6 1 3; do
    mf "adarevision-$rate" --staleness 2 --update-rule adarevision --learning-rate "$rate" --epochs 40
    drawn+=("AdaRevision:$rate:$runs/adarevision-$rate.json")
done
for rate in 0.0001 0.0003 0.001 0.002 0.003 0.006 0.01; do
    mf "decayed-$rate" --staleness 2 --update-rule decayed --learning-rate "$rate" --epochs 40
    drawn+=("decayed learning rate:$rate:$runs/decayed-$rate.json")
done
existing=()
for line in "${drawn[@]}"; do
    # A diverged run has no report.
    if [ -e "${line##*:}" ]; then existing+=("$line"); fi
done
cargo run --quiet --locked -p hemiola-plot --example learning_rates -- docs/pictures/staleness-steps.svg rmse "${existing[@]}"
