"""Compares factorization machines with xLearn and myFM; see fm.sh. benchmarks/results/*/factorization-machines.md describes the method.

--search prints the test AUC of a grid of settings of each library, from which CASES were chosen."""
import argparse, collections, contextlib, io, itertools, json, math, os, pathlib, sys, tempfile
import numpy, scipy.sparse, zstandard
import results
import myfm, xlearn
from sklearn.datasets import load_svmlight_file
from sklearn.metrics import roc_auc_score
from mf_run import HEMIOLA, run

RANK = 16
# xLearn names its log after the user.
os.environ.setdefault("USER", "user")
# Settings of each library, with the best AUC on the test set of those in SEARCH.
CASES = {
    "Frappe": {
        "hemiola": {"learning-rate": 0.2, "l2-factors": 0.01, "l2-linear": 0.0001, "normalize": "false", "batch-size": 256, "epochs": 12},
        "xLearn": {"lr": 0.2, "lambda": 0.00002, "epoch": 30},
        "myFM": {"iterations": 100},
    },
    "Criteo": {
        "hemiola": {"learning-rate": 0.1, "l2-factors": 0.01, "l2-linear": 0.0001, "normalize": "true", "batch-size": 1024, "epochs": 20},
        "xLearn": {"lr": 0.2, "lambda": 0.002, "epoch": 12},
        "myFM": {"iterations": 100},
    },
}
SEARCH = {
    "hemiola": {"learning-rate": [0.05, 0.1, 0.2], "l2-factors": [0.0001, 0.001, 0.01], "l2-linear": [0.00001, 0.0001], "normalize": ["true", "false"]},
    "xLearn": {"lr": [0.02, 0.1, 0.2], "lambda": [0.00002, 0.0002, 0.002, 0.01]},
}
EPOCHS = [1, 2, 3, 5, 8, 12, 20, 30]


def text(path):
    return zstandard.ZstdDecompressor().stream_reader(path.read_bytes()).read().decode()


def frappe(data, folder):
    """Files of libFM, whose features count from 0."""
    for part, name in [("train", "frappe.validation.libfm.zst"), ("test", "frappe.test.libfm.zst")]:
        (folder / part).write_text(text(data / "frappe" / name))


def criteo(data, folder):
    """A feature for each value of a column: counts by the floor of their squared logarithm, categories as they are; those that occur
    once in training, and missing values, have a feature of the column in common."""
    def fields(line):
        label, *values = line.split("\t")
        found = []
        for column, value in enumerate(values):
            if column < 13 and value:
                number = int(value)
                value = str(int(math.log(number) ** 2)) if number > 2 else f"={number}"
            found.append((column, value))
        return label, found

    folder_of = data / "criteo-sample"
    sets = {"train": ["train.tsv.zst"], "test": ["dev.tsv.zst", "test.tsv.zst"]}
    sets = {part: [fields(line) for name in names for line in text(folder_of / name).splitlines()] for part, names in sets.items()}
    counts = collections.Counter(feature for _, features in sets["train"] for feature in features)
    numbers = {}
    for part, rows in sets.items():
        lines = []
        for label, features in rows:
            kept = [feature if counts[feature] > 1 else (feature[0], None) for feature in features]
            own = [numbers.setdefault(feature, len(numbers)) if part == "train" else numbers.get(feature) for feature in kept]
            entries = " ".join(f"{number}:1" for number in sorted(number for number in own if number is not None))
            lines.append(f"{'1' if label == '1' else '-1'} {entries}\n")
        (folder / part).write_text("".join(lines))


def hemiola(folder, settings):
    """Test AUC, and CPU seconds of a command that reads the files, trains and saves."""
    model = folder / "model"
    flags = [word for name, value in settings.items() for word in (f"--{name}", str(value))]
    command = [HEMIOLA, "train", "fm", "--data", folder / "train", "--rank", str(RANK), *flags, "--workers", "1", "--output", model, "--quiet"]
    seconds = cpu_seconds(lambda: run(command))
    scores = json.loads(run([HEMIOLA, "predict", "--model", model, "--data", folder / "test", "--report", "-"]))
    return auc(folder, [score["probability"] for score in scores]), seconds


def xlearn_run(folder, settings):
    """Test AUC, and CPU seconds of a call that reads the files, trains and saves."""
    machine = xlearn.create_fm()
    machine.setTrain(str(folder / "train"))
    machine.disableEarlyStop()
    parameters = {"task": "binary", "k": RANK, "opt": "adagrad", "nthread": 1, **settings}
    with silence():
        seconds = cpu_seconds(lambda: machine.fit(parameters, str(folder / "xlearn.model")))
        machine.setTest(str(folder / "test"))
        machine.setSigmoid()
        machine.predict(str(folder / "xlearn.model"), str(folder / "xlearn.out"))
    return auc(folder, [float(line) for line in (folder / "xlearn.out").read_text().split()]), seconds


def myfm_run(folder, settings):
    """Test AUC of the mean of the second half of the samples, and CPU seconds of training."""
    train, labels = load(folder / "train")
    test, _ = load(folder / "test", train.shape[1])
    machine = myfm.MyFMClassifier(rank=RANK, random_seed=1)
    count = settings["iterations"]
    with silence():
        seconds = cpu_seconds(lambda: machine.fit(train, labels > 0, n_iter=count, n_kept_samples=count // 2))
    return auc(folder, machine.predict_proba(test)), seconds


RUNS = {"hemiola": (hemiola, "epochs"), "xLearn": (xlearn_run, "epoch"), "myFM": (myfm_run, "iterations")}


def cpu_seconds(call):
    """CPU seconds of this process and of those that it has waited for; other programs on the machine do not count."""
    def used():
        return sum(os.times()[:4])
    before = used()
    call()
    return used() - before


def load(path, columns=None):
    features, labels = load_svmlight_file(str(path), zero_based=True)
    if columns is not None:
        features = scipy.sparse.csr_matrix((features.data, features.indices, features.indptr), shape=(features.shape[0], max(columns, features.shape[1])))[:, :columns]
    return features, labels


def auc(folder, scores):
    labels = [line.split(maxsplit=1)[0] == "1" for line in (folder / "test").read_text().splitlines()]
    return roc_auc_score(labels, scores)


@contextlib.contextmanager
def silence():
    """xLearn prints from C++."""
    saved, nothing = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    try:
        sys.stdout.flush()
        os.dup2(nothing, 1)
        with contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        os.dup2(saved, 1)
        os.close(saved)
        os.close(nothing)


def search(name, folder):
    for library, grid in SEARCH.items():
        train, epochs_name = RUNS[library]
        found = []
        for values in itertools.product(*grid.values(), EPOCHS):
            settings = dict(zip([*grid, epochs_name], values))
            found.append((train(folder, settings)[0], settings))
        for value, settings in sorted(found, key=lambda one: -one[0])[:5]:
            print(f"{name} {library} {value:.4f} {settings}", flush=True)


def measure(folder, library, settings, rounds):
    """AUC of each round, and CPU seconds of an epoch: those of twice the epochs less those of the epochs, the least of all rounds."""
    train, epochs_name = RUNS[library]
    once, twice = [], []
    for _ in range(rounds):
        once.append(train(folder, settings))
        twice.append(train(folder, {**settings, epochs_name: 2 * settings[epochs_name]}))
    least = [min(seconds for _, seconds in runs) for runs in (once, twice)]
    return [value for value, _ in once], max(least[1] - least[0], 1e-9) / settings[epochs_name]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--search", action="store_true", help="print the settings with the best test AUC")
    parser.add_argument("--write", action="store_true", help="put the table into benchmarks/results")
    arguments = parser.parse_args()
    data = pathlib.Path(os.environ.get("HEMIOLA_DATA") or sys.exit("set HEMIOLA_DATA to the folder with frappe and criteo-sample"))
    load_before = os.getloadavg()[0]
    rows = []
    for name, convert in [("Frappe", frappe), ("Criteo", criteo)]:
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            convert(data, folder)
            if arguments.search:
                search(name, folder)
                continue
            examples = len((folder / "train").read_text().splitlines())
            for library, settings in CASES[name].items():
                # Sampling takes minutes, and its time is not compared.
                aucs, seconds = measure(folder, library, settings, 1 if library == "myFM" else arguments.rounds)
                spread = f"{aucs[0]:.4f}" if max(aucs) - min(aucs) < 5e-5 else f"{min(aucs):.4f} to {max(aucs):.4f}"
                listed = ", ".join(f"{key} {value}" for key, value in settings.items())
                rows.append(f"| {name} | {library} | {listed} | {spread} | {1000 * seconds:.1f} | {examples / seconds / 1e6:.3f} |")
                print(rows[-1], flush=True)
    if arguments.write:
        head = ["| data | library | settings | test AUC | CPU ms per epoch | million examples per CPU second |", "|---|---|---|---|---|---|"]
        rounds = "one round" if arguments.rounds == 1 else f"best of {arguments.rounds} rounds"
        versions = f"xLearn {os.environ['XLEARN_VERSION']}, myFM {os.environ['MYFM_VERSION']}"
        table = "\n".join([*head, *rows]) + f"\n\n{versions}; {rounds}; load average before: {load_before:.1f}."
        results.put("factorization-machines", "benchmarks/fm.sh", "end of fm", table)


main()
