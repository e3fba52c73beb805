"""Implicit feedback: compares hemiola's one-class loss with implicit's alternating least squares; see mf.py."""
import itertools, json, sys
import numpy
from mf_run import HERE, hemiola, epoch_seconds, run

EPOCHS = 12
RANKS = (32, 64, 128)
# Each side gets the settings, out of nine, that serve it best on events that are neither trained on nor tested with.
THEIRS = list(itertools.product((2.0, 3.0, 5.0), (10.0, 25.0, 50.0)))
OURS = list(itertools.product((0.1, 0.2, 0.3), (0.004, 0.007, 0.01)))


def write(folder, ratings, seed):
    """Writes ratings of at least 4 as events: eight tenths for training, one for validation, one for testing."""
    events = ratings[ratings[:, 2] >= 4][:, :2].astype(int)
    events = events[numpy.random.RandomState(seed).permutation(len(events))]
    tenth = len(events) // 10
    train = events[2 * tenth:]
    # Who and what nobody was trained on can be ranked by neither side.
    users, items = numpy.unique(train[:, 0]), numpy.unique(train[:, 1])
    for name, part in (("test", events[:tenth]), ("valid", events[tenth:2 * tenth]), ("train", train)):
        part = part[numpy.isin(part[:, 0], users) & numpy.isin(part[:, 1], items)]
        part = numpy.stack([numpy.searchsorted(users, part[:, 0]), numpy.searchsorted(items, part[:, 1])], axis=1)
        numpy.save(folder / f"{name}.npy", part)
        numpy.savetxt(folder / f"{name}.csv", part, fmt="%d", delimiter=",")


def implicit(files, against, threads, rank, epochs, alpha, regularization):
    arguments = [files / "train.npy", files / f"{against}.npy", threads, rank, epochs, alpha, regularization]
    return json.loads(run([sys.executable, "-W", "ignore", HERE / "mf_implicit.py", *map(str, arguments)]))


def ours(files, against, workers, rank, unobserved, l2):
    return hemiola(files, rank, "--loss", "one-class", "--workers", str(workers), "--epochs", str(EPOCHS), "--patience", "1000",
                   "--unobserved-weight", str(unobserved), "--l2", str(l2), valid=against)


def last(report):
    """Metrics after the last epoch, as for the other side."""
    return report["progress"][-1]["validation"]


def compare(name, files, rounds):
    """Returns the table of one data set."""
    rows = []
    for rank in RANKS:
        tried = {choice: implicit(files, "valid", 2, rank, EPOCHS, *choice)["ndcg@10"] for choice in THEIRS}
        theirs = max(tried, key=tried.get)
        tried = {choice: last(ours(files, "valid", 2, rank, *choice))["ndcg@10"] for choice in OURS}
        own = max(tried, key=tried.get)
        best = {}

        def keep(key, value):
            best[key] = min(best.get(key, value), value)

        for _, threads in itertools.product(range(rounds), (1, 2)):
            one = implicit(files, "test", threads, rank, 1, *theirs)
            many = implicit(files, "test", threads, rank, EPOCHS, *theirs)
            keep(("implicit", threads), (many["seconds"] - one["seconds"]) / (EPOCHS - 1))
            report = ours(files, "test", threads, rank, *own)
            keep(("hemiola", threads), epoch_seconds(report))
        metrics = last(report)
        row = [str(rank), *(f"{side[metric]:.4f}" for metric in ("ndcg@10", "recall@20") for side in (metrics, many))]
        for threads in (1, 2):
            mine, other = best["hemiola", threads], best["implicit", threads]
            row += [f"{1e3 * mine:.0f}", f"{1e3 * other:.0f}", f"{mine / other:.2f}"]
        settings = f"{own[0]} and {own[1]}; {theirs[0]:g} and {theirs[1]:g}"
        rows.append([*row, settings])
        print(f"rank {rank} is done", file=sys.stderr)
    title = f"**{name}**, {EPOCHS} epochs; times are milliseconds per epoch"
    head = ["rank", "NDCG@10, hemiola", "implicit", "recall@20, hemiola", "implicit", "one worker, hemiola", "implicit", "ratio",
            "two workers, hemiola", "implicit", "ratio", "unobserved and L2; alpha and regularization"]
    lines = [title, "", f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    return "\n".join(lines + [f"| {' | '.join(row)} |" for row in rows])
