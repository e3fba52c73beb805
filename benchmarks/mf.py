"""Compares hemiola with LIBMF, and with implicit (mf_events.py); see mf.sh. benchmarks/results/*/matrix-factorization.md describes the method."""
import argparse, io, json, os, pathlib, sys, tempfile
import numpy
import mf_events, results
from mf_run import HEMIOLA, HERE, hemiola, epoch_seconds, run

LIBMF_ITERATIONS = 20


def libmf(files, threads, rank, iterations, l2, step_size):
    arguments = [files / "train.npy", files / "test.npy", threads, rank, iterations, l2, step_size]
    return json.loads(run([sys.executable, "-W", "ignore", HERE / "mf_libmf.py", *map(str, arguments)]))


def test_rmse(report):
    return report["result"]["validation"]["rmse"]


def write(folder, ratings, seed):
    """Writes nine tenths as training set and one tenth as test set, in the formats of both sides."""
    order = numpy.random.RandomState(seed).permutation(len(ratings))
    cut = len(ratings) // 10
    for name, rows in (("test", order[:cut]), ("train", order[cut:])):
        numpy.save(folder / f"{name}.npy", ratings[rows])
        with open(folder / f"{name}.csv", "w") as file:
            file.writelines("%d,%d,%.9g\n" % tuple(row) for row in ratings[rows])


def synthetic(folder):
    file = folder / "synthetic.csv"
    run([HEMIOLA, "data", "make", "mf", "--output", file, "--users", "50000", "--items", "10000", "--ratings", "5000000",
         "--rank", "16", "--noise", "0.5"])
    ratings = numpy.loadtxt(file, delimiter=",", dtype=numpy.float32)
    ratings[:, :2] -= 1
    write(folder, ratings, 1)


def movielens(data):
    import zstandard
    packed = (data / "movielens-1m" / "ratings.tsv.zst").read_bytes()
    text = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(packed)).read().decode()
    return numpy.loadtxt(io.StringIO(text), dtype=numpy.float32, usecols=(0, 1, 2))


def compare(name, files, rank, epochs, rounds):
    """Returns the table of one data set."""
    # Each side uses the L2 and the learning rate, out of the same pairs, with the lowest test error.
    choices = [(l2, step_size) for l2 in (0.02, 0.05, 0.1, 0.2, 0.3) for step_size in (0.05, 0.1)]
    tried = {choice: libmf(files, 2, rank, LIBMF_ITERATIONS, *choice)["rmse"] for choice in choices}
    l2, step_size = min(tried, key=tried.get)
    tune = lambda l2, rate: ("--l2", str(l2), "--learning-rate", str(rate))
    tried = {choice: test_rmse(hemiola(files, rank, "--workers", "2", *tune(*choice))) for choice in choices}
    own = min(tried, key=tried.get)
    best = {}

    def keep(key, value):
        best[key] = min(best.get(key, value), value)

    for _ in range(rounds):
        for threads in (1, 2):
            one = libmf(files, threads, rank, 1, l2, step_size)
            many = libmf(files, threads, rank, LIBMF_ITERATIONS, l2, step_size)
            keep(("libmf", threads), (many["seconds"] - one["seconds"]) / (LIBMF_ITERATIONS - 1))
            keep(("libmf", "rmse"), many["rmse"])
            keep(("libmf", "peak"), many["peak_bytes"])
            report = hemiola(files, rank, "--workers", str(threads), "--epochs", str(epochs), "--patience", "1000")
            keep(("hemiola", threads), epoch_seconds(report))
            keep(("hemiola", "peak"), report["result"]["peak_rss_bytes"])
            keep(("libmf", "whole", threads), (many["seconds"] - one["seconds"]) * LIBMF_ITERATIONS / (LIBMF_ITERATIONS - 1))
        peers = hemiola(files, rank, "--peers", "2", "--workers", "1", "--epochs", str(epochs), "--patience", "1000")
        keep(("hemiola", "peers"), epoch_seconds(peers))
        target = best["libmf", "rmse"]
        reached = hemiola(files, rank, "--workers", "1", "--epochs", "60", "--target", str(target), "--patience", "1000", *tune(*own))
        if test_rmse(reached) <= target:
            keep(("hemiola", "time"), reached["result"]["seconds"])
    default = test_rmse(hemiola(files, rank, "--workers", "1"))
    ratings = len(numpy.load(files / "train.npy"))
    rate = lambda key: ratings / best[key] / 1e6
    mega = lambda side: best[side, "peak"] / 1e6
    theirs = best["libmf", "whole", 1]
    ours = best.get(("hemiola", "time"))
    rows = [
        ("M updates/s, one worker", f"{rate(('hemiola', 1)):.1f}", f"{rate(('libmf', 1)):.1f}",
         f"{rate(('hemiola', 1)) / rate(('libmf', 1)):.2f}", "≥ 1.2"),
        ("M updates/s, two workers", f"{rate(('hemiola', 2)):.1f}", f"{rate(('libmf', 2)):.1f}",
         f"{rate(('hemiola', 2)) / rate(('libmf', 2)):.2f}", "≥ 1.2"),
        ("M updates/s, two peers of one worker over TCP", f"{rate(('hemiola', 'peers')):.1f}", "",
         f"{rate(('hemiola', 'peers')) / rate(('hemiola', 1)):.2f} of one", "≥ 1.6"),
        (f"seconds of training to LIBMF's test RMSE of {best['libmf', 'rmse']:.4f}", f"{ours:.2f}" if ours else "not reached",
         f"{theirs:.2f}", f"{ours / theirs:.2f}" if ours else "", "≤ 0.8"),
        (f"test RMSE (with default L2 and learning rate: {default:.4f})", f"{tried[own]:.4f}", f"{best['libmf', 'rmse']:.4f}", "", ""),
        ("peak memory, MB", f"{mega('hemiola'):.0f}", f"{mega('libmf'):.0f}", f"{mega('hemiola') / mega('libmf'):.2f}", "≤ 1"),
    ]
    title = f"**{name}**, rank {rank}; hemiola with L2 {own[0]} and learning rate {own[1]}; LIBMF with L2 {l2} and learning rate {step_size}, {LIBMF_ITERATIONS} iterations"
    lines = [title, "", "| | hemiola | LIBMF | ratio | target |", "|---|---|---|---|---|"]
    return "\n".join(lines + [f"| {' | '.join(row)} |" for row in rows])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="put the table into benchmarks/results")
    parser.add_argument("--only", choices=["synthetic", "movielens", "events"], help="one of the three sets")
    arguments = parser.parse_args()
    data = os.environ.get("HEMIOLA_DATA")
    rounds = "one round" if arguments.rounds == 1 else f"best of {arguments.rounds} rounds"
    load = os.getloadavg()[0]
    libmf_version = f"LIBMF {os.environ['LIBMF_VERSION']}, built with AVX; {rounds}; load average before: {load:.1f}."
    implicit_version = f"implicit {os.environ['IMPLICIT_VERSION']}; {rounds}; load average before: {load:.1f}."
    for key, name in (
        ("synthetic", "5 million synthetic ratings, 50,000 × 10,000"),
        ("movielens", "MovieLens-1M, a random tenth for testing"),
        ("events", "MovieLens-1M, ratings of at least 4 as events, a random tenth for testing"),
    ):
        if arguments.only not in (None, key):
            continue
        if key != "synthetic" and not data:
            print(f"skipped: {name}, because HEMIOLA_DATA is not set", file=sys.stderr)
            continue
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            if key == "synthetic":
                synthetic(folder)
                table = f"{compare(name, folder, 64, 20, arguments.rounds)}\n\n{libmf_version}"
            elif key == "movielens":
                write(folder, movielens(pathlib.Path(data)), 1)
                table = f"{compare(name, folder, 32, 60, arguments.rounds)}\n\n{libmf_version}"
            else:
                mf_events.write(folder, movielens(pathlib.Path(data)), 1)
                table = f"{mf_events.compare(name, folder, arguments.rounds)}\n\n{implicit_version}"
        print(f"{table}\n")
        if arguments.write:
            results.put("matrix-factorization", f"benchmarks/mf.sh: {key}", f"end of {key}", table)


main()
