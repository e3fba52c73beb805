"""Compares predictions of `hemiola simulate` with real peers on links of limited bandwidth, on this machine.

A training run is profiled once on one peer without a network (`--profile`). From the profile the simulator predicts epochs
of 2 and 4 peers. The same training then runs in as many processes, each in a network namespace behind a token bucket. The
cluster specification has the bandwidth, the latency measured by `hemiola probe`, the cores that all peers share, and the CPU
time per byte at each end. That CPU time is measured on two peers with links of 10 Gbit/s: CPU time of an epoch, minus that of
the same epoch on one peer, over bytes sent and received; the median of several pairs of runs, one for rotation and one for
tables. These epochs use a tenth of the ratings of as many users and items, so that they send nearly as much and compute
little: for a full epoch the result would be a small difference of large numbers.
"""

import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import tomllib

from whatif_net import Net

FOLDER = pathlib.Path("target/whatif")
HEMIOLA = os.environ.get("HEMIOLA", "target/release/hemiola")
RANK, CLOCKS, EPOCHS = 64, 4, 12
DATA, LIGHT = FOLDER / "ratings.tsv", FOLDER / "light.tsv"


def quiet(*words):
    return subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True).stdout


def rotation(*more, epochs=3 * EPOCHS, data=DATA):
    words = ["train", "mf", "--data", data, "--validation", 0, "--rank", RANK, "--epochs", epochs, "--patience", 0, "--workers", 1]
    return [str(word) for word in [HEMIOLA, *words, *more]]


def tables(staleness, *more, epochs=EPOCHS, data=DATA):
    words = ["bench", "staleness", "--data", data, "--local-users", "--width", RANK, "--clocks", CLOCKS, "--epochs", epochs]
    step = ["--update-rule", "sgd", "--learning-rate", 0.0005, "--staleness", staleness]
    return [str(word) for word in [HEMIOLA, *words, *step, *more]]


# Name in the simulator, the real program, and which profile it is predicted from.
STRATEGIES = [
    ("rotation", rotation, "rotation.json"),
    ("bsp", lambda *more, **named: tables(0, *more, **named), "tables.json"),
    ("ssp:2", lambda *more, **named: tables(2, *more, **named), "tables.json"),
]


def processor():
    """CPU seconds of all child processes so far, in user space and in the kernel."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def computing(profile):
    """Compute seconds per epoch of a single peer."""
    passes = json.loads((FOLDER / profile).read_text())["passes"][1:]
    return statistics.median(sum(block["compute_seconds"] for block in measured["blocks"]) for measured in passes)


def take_profile(program, profile, rounds):
    """Records several profiles and keeps the least disturbed one."""
    best, least = "", float("inf")
    for _ in range(rounds):
        quiet(*program("--profile", FOLDER / profile))
        if computing(profile) < least:
            best, least = (FOLDER / profile).read_text(), computing(profile)
    (FOLDER / profile).write_text(best)


def per_epoch(run, few=4, many=104):
    """CPU seconds and bytes per epoch: the difference of many and few epochs, divided by their difference in number."""
    report, used, sent = FOLDER / "report.json", [], []
    for epochs in (few, many):
        before = processor()
        run(epochs, report)
        used.append(processor() - before)
        sent.append(json.loads(report.read_text())["progress"][-1]["bytes_sent"])
    return (used[1] - used[0]) / (many - few), (sent[1] - sent[0]) / (many - few)


def byte_nanos(net, program, rounds):
    """CPU time per byte at each end, in nanoseconds."""
    found = []
    for _ in range(rounds):
        alone, _ = per_epoch(lambda epochs, report: quiet(*program("--report", report, epochs=epochs, data=LIGHT)))
        peers, sent = per_epoch(lambda epochs, report: net.run(program("--report", report, epochs=epochs, data=LIGHT)))
        found.append(1e9 * (peers - alone) / (2 * sent))
    return statistics.median(found)


def measured(net, program, report, rounds):
    """Seconds and bytes per epoch: the median of each run, the best of all runs. The first epochs fetch rows and warm caches."""
    seconds, sent = [], []
    for _ in range(rounds):
        report.unlink(missing_ok=True)
        net.run(program("--report", str(report)))
        passes = json.loads(report.read_text())["progress"]
        times = [after["seconds"] - before["seconds"] for before, after in zip(passes[2:], passes[3:])]
        seconds.append(statistics.median(times))
        sent.append((passes[-1]["bytes_sent"] - passes[2]["bytes_sent"]) / (len(passes) - 3) / net.peers)
    return min(seconds), statistics.median(sent), max(seconds)


def latency(net):
    """One-way latency in microseconds, measured by `hemiola probe`."""
    described = FOLDER / "probe.toml"
    described.unlink(missing_ok=True)
    net.run([HEMIOLA, "probe", "--output", str(described)])
    found = tomllib.loads(described.read_text())
    return 1e6 * found["within_host"]["latency"]


def predicted(strategy, profile, peers, mbit, microseconds, nanos, options):
    cluster = FOLDER / "cluster.toml"
    cluster.write_text(
        f'peers = {peers}\n'
        f'link = {{ bandwidth = "{mbit}mbit", latency = "{microseconds:.0f}us", sharing = "{options.sharing}" }}\n'
        f'hosts = {{ peers = {peers}, cores = {os.cpu_count()}, nanos_per_byte = {nanos:.3f} }}\n'
    )
    words = ["simulate", "train", "mf", "--profile", FOLDER / profile, "--cluster", cluster]
    report = quiet(HEMIOLA, *words, "--strategy", strategy, "--clocks-per-epoch", CLOCKS, "--epochs", 8, "--report", "-")
    return json.loads(report)["predictions"][0]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="runs of each case; the best counts, also of profiles")
    parser.add_argument("--peers", default="2,4")
    parser.add_argument("--mbit", default="100,1000")
    parser.add_argument("--sharing", default="queue", help="how messages share a simulated link: queue or fair")
    parser.add_argument("--only", help="one strategy")
    parser.add_argument("--kept", action="store_true", help="repeat the predictions for earlier measurements")
    options = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    for data, entries in ((DATA, 1_000_000), (LIGHT, 100_000)):
        if not data.exists():
            quiet(HEMIOLA, "data", "make", "mf", "--users", 6000, "--items", 4000, "--ratings", entries, "--output", data)
    kept = FOLDER / "measured.json"
    before = json.loads(kept.read_text()) if kept.exists() else {}
    if not options.kept:
        os.environ["HEMIOLA_WORKERS"] = "1"
        take_profile(rotation, "rotation.json", options.rounds)
        take_profile(lambda *more: tables(2, *more), "tables.json", options.rounds)
        with Net(2, 10_000) as net:
            # One of each program: blocks by rotation, rows by tables.
            before["byte"] = {profile: byte_nanos(net, program, options.rounds + 2) for _, program, profile in STRATEGIES[::2]}
        blocks, rows = before["byte"].values()
        print(f"ns of a core for a byte, at each end: {blocks:.2f} in a block, {rows:.2f} in a row", flush=True)
    print("| peers | link | strategy | predicted ms for a pass | measured | off by | predicted MB from a peer | measured | off by |")
    print("|---|---|---|---|---|---|---|---|---|")
    for peers in map(int, options.peers.split(",")):
        for mbit in map(int, options.mbit.split(",")):
            with Net(peers, mbit) as net:
                for strategy, program, profile in STRATEGIES:
                    if options.only not in (None, strategy):
                        continue
                    name = f"{peers} {mbit} {strategy}"
                    if not options.kept:
                        found = measured(net, program, FOLDER / "report.json", options.rounds)
                        before[name] = {"seconds": found[0], "bytes": found[1], "worst": found[2], "latency": latency(net)}
                        kept.write_text(json.dumps(before, indent=1))
                    real = before[name]
                    said = predicted(strategy, profile, peers, mbit, real["latency"], before["byte"][profile], options)
                    seconds, sent = said["epoch_seconds"], said["epoch_bytes"]
                    print(
                        f"| {peers} | {mbit} Mbit/s | {strategy} | {1e3 * seconds:.1f} | {1e3 * real['seconds']:.1f} | {seconds / real['seconds'] - 1:+.0%} "
                        f"| {1e-6 * sent:.2f} | {1e-6 * real['bytes']:.2f} | {sent / real['bytes'] - 1:+.1%} |",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
