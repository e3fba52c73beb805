"""Measures `hemiola bench nets` over limited and free links, and PyTorch; see nets.sh."""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from whatif_net import Net

HEMIOLA = "target/release/hemiola"
NET_SPEED = "target/release/examples/net_speed"
NETS = ["mlp", "cnn", "lstm", "transformer"]


def limited(peers, mbit, rounds):
    with tempfile.TemporaryDirectory() as folder, Net(peers, mbit) as net:
        report = pathlib.Path(folder) / "nets.json"
        net.run([HEMIOLA, "bench", "nets", "--rounds", str(rounds), "--report", str(report)], seconds=1200)
        return json.loads(report.read_text())


def free(peers, rounds):
    command = [HEMIOLA, "bench", "nets", "--peers", str(peers), "--rounds", str(rounds), "--report", "-"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def show(title, report):
    print(f"\n{title}\n\n| net | strategy | ms a step | kB a step | examples/s |\n|---|---|---|---|---|")
    for row in report["rows"]:
        speed = row["examples"] / row["seconds"]
        print(f"| {row['net']} | {row['strategy']} | {row['seconds'] * 1e3:.1f} | {row['bytes'] / 1e3:.0f} | {speed:.1f} |")
    for name, value in report.items():
        if isinstance(value, float):
            print(f"{name}: {value:.3f}")


def torch(python, peers):
    """Examples per second of each net with PyTorch."""
    with tempfile.TemporaryDirectory() as folder:
        running = [
            subprocess.Popen([python, "-W", "ignore", "benchmarks/nets_torch.py", folder, str(rank), str(peers)], stdout=subprocess.PIPE, text=True)
            for rank in range(peers)
        ]
        said = [process.communicate(timeout=600)[0] for process in running]
        if any(process.returncode for process in running):
            raise SystemExit("PyTorch failed")
        # Gloo may say that it is connected before.
        return json.loads(said[0].splitlines()[-1])


def beside(python, peers, rounds):
    best = {}
    for _ in range(rounds):
        theirs = torch(python, peers)
        ours = {row["net"]: row["examples"] / row["seconds"] for row in free(peers, 1)["rows"] if row["net"] in theirs}
        for net in theirs:
            before = best.get(net, (0.0, 0.0))
            best[net] = (max(before[0], ours[net]), max(before[1], theirs[net]))
    print(f"\n{peers} processes of one thread each, no limits\n\n| net | Hemiola, examples/s | DDP with Gloo | ratio |\n|---|---|---|---|")
    for net, (ours, theirs) in best.items():
        print(f"| {net} | {ours:.1f} | {theirs:.1f} | {ours / theirs:.2f} |")


def alone(python, rounds, report):
    """One process beside PyTorch, with one thread and with two; interleaved, the best of all rounds counts.

    Ratios of one thread are ratios of examples per second of CPU time, of all threads of the process: other programs
    on the machine do not change them, and threads beside the computing one count. Those of two threads are ratios of
    examples per second.
    """
    ratios = {}
    for label, threads in [("one", 1), ("two", 2)]:
        print(f"\n{threads} threads\n\n| net | Hemiola, examples/s | PyTorch | ratio | Hemiola, examples/s of CPU time | PyTorch | ratio |\n|---|---|---|---|---|---|---|")
        for net in NETS:
            ours, theirs = [0.0, 0.0], [0.0, 0.0]
            for _ in range(rounds):
                command = [NET_SPEED, "--rounds", "3", net]
                environment = {**os.environ, "HEMIOLA_WORKERS": str(threads)}
                found = json.loads(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)
                ours = [max(pair) for pair in zip(ours, found[net])]
                command = [python, "-W", "ignore", "benchmarks/nets_torch.py", "--threads", str(threads), net]
                found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
                theirs = [max(pair) for pair in zip(theirs, found[net])]
            wall, cpu = (mine / other for mine, other in zip(ours, theirs))
            ratios.setdefault(net, {})[label] = cpu if threads == 1 else wall
            print(f"| {net} | {ours[0]:.1f} | {theirs[0]:.1f} | {wall:.2f} | {ours[1]:.1f} | {theirs[1]:.1f} | {cpu:.2f} |", flush=True)
    if report:
        pathlib.Path(report).write_text(json.dumps({"torch": ratios}, indent=1) + "\n")


def traces(mbit):
    for name, options in [("before", ["--no-overlap"]), ("after", [])]:
        with Net(2, mbit) as net:
            net.run([HEMIOLA, "bench", "nets-timeline", f"docs/pictures/nets-{name}.svg", f"target/nets-{name}.json", *options], seconds=300)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", default=sys.executable, help="one that has torch")
    parser.add_argument("--mbit", type=int, default=100)
    parser.add_argument("--peers", default="2,4")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--traces", action="store_true")
    parser.add_argument("--no-torch", action="store_true")
    parser.add_argument("--report", metavar="FILE", help="write the ratios of one process as JSON")
    parser.add_argument("--only-alone", action="store_true", help="measure one process beside PyTorch, and nothing else")
    parser.add_argument("--processes", default="1,2", help="beside PyTorch")
    arguments = parser.parse_args()
    if arguments.traces:
        return traces(arguments.mbit)
    if not arguments.no_torch:
        alone(arguments.python, arguments.rounds, arguments.report)
    if arguments.only_alone:
        return
    for peers in map(int, filter(None, arguments.peers.split(","))):
        if os.geteuid() == 0:
            show(f"{peers} peers at {arguments.mbit} Mbit/s", limited(peers, arguments.mbit, arguments.rounds))
    if not arguments.no_torch:
        for peers in map(int, arguments.processes.split(",")):
            beside(arguments.python, peers, arguments.rounds)


main()
