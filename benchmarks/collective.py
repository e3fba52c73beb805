"""Compares all-reduces of hemiola, Gloo and Open MPI; see collective.sh. benchmarks/results/*/collectives.md describes the method."""
import argparse, json, os, pathlib, shutil, subprocess, sys, tempfile
import results

HEMIOLA = "target/release/hemiola"
HERE = pathlib.Path(__file__).parent
SIZES = [1 << 10, 1 << 16, 1 << 20, 1 << 24, 1 << 26]
LEAST_CALLS, MOST_CALLS, ROUND_BYTES = 3, 200, 1 << 26


def plan():
    """Rounds and calls per size, as in `hemiola bench collective`: the best mean of a round counts."""
    return [number for size in SIZES for number in (size, 1, min(MOST_CALLS, max(LEAST_CALLS, ROUND_BYTES // size)))]


def lines(text):
    return {int(size): float(seconds) for size, seconds in (line.split() for line in text.splitlines() if line.strip())}


def run(command, **options):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\nended with {done.returncode}:\n{done.stderr}")
    return done.stdout


def hemiola(peers):
    sizes = ",".join(map(str, SIZES))
    report = json.loads(run([HEMIOLA, "bench", "collective", "--rounds", 1, "--peers", peers, "--bytes", sizes, "--report", "-"]))
    chosen = {figure["bytes"]: figure["latency_us"] / 1e6 for figure in report["results"] if figure["chosen"]}
    return chosen, report.get("overlap_extra"), report.get("overlap_extra_busy")


def gloo(peers):
    with tempfile.TemporaryDirectory() as folder:
        command = lambda rank: [sys.executable, "-W", "ignore", HERE / "collective_gloo.py", rank, peers, f"{folder}/meet", *plan()]
        others = [subprocess.Popen(list(map(str, command(rank))), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for rank in range(1, peers)]
        found = lines(run(command(0)))
        for other in others:
            other.wait()
        return found


def mpi(peers):
    command = ["mpirun", "--oversubscribe", "--mca", "pml", "ob1", "--mca", "btl", "tcp,self"]
    if os.geteuid() == 0:
        command.append("--allow-run-as-root")
    return lines(run([*command, "-n", peers, sys.executable, HERE / "collective_mpi.py", *plan()]))


def keep(best, found):
    for key, value in found.items():
        best[key] = min(best.get(key, value), value)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", action="store_true", help="put the table into benchmarks/results")
    arguments = parser.parse_args()
    with_mpi = shutil.which("mpirun") is not None
    if not with_mpi:
        print("skipped: Open MPI, because there is no mpirun", file=sys.stderr)
    rows, extra, busy = [], float("inf"), float("inf")
    for peers in (2, 4):
        ours, theirs_gloo, theirs_mpi = {}, {}, {}
        for _ in range(arguments.rounds):
            found, device, core = hemiola(peers)
            keep(ours, found)
            if peers == 2:
                extra, busy = min(extra, device), min(busy, core)
            keep(theirs_gloo, gloo(peers))
            if with_mpi:
                keep(theirs_mpi, mpi(peers))
        for size in SIZES:
            others = [found[size] for found in (theirs_gloo, theirs_mpi) if size in found]
            mine = ours[size]
            name = f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"
            cell = lambda seconds: f"{seconds * 1e6:.0f} µs, {size / seconds / 1e9:.2f} GB/s"
            target = "≥ 1.5" if size >= 1 << 20 else "≥ 1"
            rows.append((str(peers), name, cell(mine), cell(theirs_gloo[size]), cell(theirs_mpi[size]) if with_mpi else "", f"{min(others) / mine:.2f}", target))
    head = ["| peers | vector | hemiola | Gloo | Open MPI, TCP | ratio to the better | target |", "|---|---|---|---|---|---|---|"]
    table = "\n".join(head + [f"| {' | '.join(row)} |" for row in rows])
    table += f"\n\n16 MB overlapped with 50 ms on a device add {extra * 100:.1f} % (target: ≤ 10 %), with 50 ms on the same core {busy * 100:.1f} %. Best of {arguments.rounds} rounds."
    print(table)
    if arguments.write:
        results.put("collectives", "benchmarks/collective.sh", "end of collective", table)


main()
