"""Compares hemiola with liblinear through scikit-learn; see linear.sh. benchmarks/results/*/linear-classifiers.md describes the method."""
import argparse, io, json, os, pathlib, sys, tempfile, time
import numpy, zstandard
import results
from sklearn.datasets import load_svmlight_file
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC
from mf_run import HEMIOLA, run

# What is reached is within this factor of what liblinear reaches.
CLOSE = 1.01
# Seconds of training after which it is given up.
LONGEST = 60
FILES = {"a9a": "a9a/a9a.zst", "w8a": "w8a/w8a.zst", "IMDB": "imdb/train.libsvm.zst"}
# Of IMDB first the C, of 0.0003, 0.001, ..., 0.03, with the best accuracy on its test part, then the default.
CASES = [
    ("a9a", "squared-hinge", 1), ("a9a", "hinge", 1), ("a9a", "logistic", 1),
    ("w8a", "squared-hinge", 1), ("w8a", "hinge", 1), ("w8a", "logistic", 1),
    ("IMDB", "squared-hinge", 0.003), ("IMDB", "hinge", 0.01), ("IMDB", "logistic", 0.03),
    ("IMDB", "squared-hinge", 1), ("IMDB", "hinge", 1), ("IMDB", "logistic", 1),
]


def load(path):
    text = zstandard.ZstdDecompressor().stream_reader(path.read_bytes()).read()
    features, labels = load_svmlight_file(io.BytesIO(text))
    # liblinear takes 32-bit indices alone.
    features.indices, features.indptr = features.indices.astype(numpy.int32), features.indptr.astype(numpy.int32)
    return features, labels


def objective(loss, c, features, labels, model):
    """Objective: half the squared norm of all weights including the bias, plus C times the sum of losses."""
    weights, intercept = model.coef_[0], model.intercept_[0]
    margins = numpy.where(labels == model.classes_[1], 1.0, -1.0) * (features @ weights + intercept)
    costs = {
        "hinge": lambda: numpy.maximum(0, 1 - margins),
        "squared-hinge": lambda: numpy.maximum(0, 1 - margins) ** 2,
        "logistic": lambda: numpy.logaddexp(0, -margins),
    }[loss]()
    return 0.5 * (weights @ weights + intercept * intercept) + c * costs.sum()


def liblinear(loss, c, features, labels):
    model = (LogisticRegression(solver="liblinear", C=c) if loss == "logistic"
             else LinearSVC(loss=loss.replace("-", "_"), C=c))
    start = time.perf_counter()
    model.fit(features, labels)
    return time.perf_counter() - start, objective(loss, c, features, labels, model)


def hemiola(loss, c, path, target, folder):
    report = folder / "report.json"
    command = ["logistic"] if loss == "logistic" else ["svm", "--loss", loss]
    run([HEMIOLA, "train", *command, "--data", path, "-c", str(c), "--validation", "0", "--workers", "2", "--epochs", "100000",
         "--seconds", str(LONGEST), "--tolerance", "0", "--target", str(float(target)), "--report", report, "--quiet"])
    result = json.loads(report.read_text())["result"]
    return result["seconds"], result["objective"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="put the table into benchmarks/results")
    arguments = parser.parse_args()
    data = os.environ.get("HEMIOLA_DATA") or sys.exit("set HEMIOLA_DATA to the folder with a9a, w8a and imdb")
    load_before = os.getloadavg()[0]
    rows, sets = [], {}
    with tempfile.TemporaryDirectory() as folder:
        for name, loss, c in CASES:
            path = pathlib.Path(data) / FILES[name]
            features, labels = sets.setdefault(name, load(path))
            theirs, ours, reached = [], [], []
            for _ in range(arguments.rounds):
                seconds, least = liblinear(loss, c, features, labels)
                theirs.append(seconds)
                seconds, found = hemiola(loss, c, path, least * CLOSE, pathlib.Path(folder))
                ours.append(seconds)
                reached.append(found / least)
            all_reached = max(reached) <= CLOSE + 1e-9
            seconds, ratio = (f"{min(ours):.3f}", f"{min(ours) / min(theirs):.2f}") if all_reached else (f"not reached in {LONGEST}", "")
            rows.append(f"| {name} | {loss} | {c} | {least:.4f} | {max(reached):.4f} | {seconds} | {min(theirs):.3f} | {ratio} |")
            print(rows[-1], flush=True)
    lines = ["| data | loss | C | liblinear's objective | ours / theirs | hemiola, s | liblinear, s | ratio of seconds |", "|---|---|---|---|---|---|---|---|", *rows]
    rounds = "one round" if arguments.rounds == 1 else f"best of {arguments.rounds} rounds"
    table = "\n".join(lines) + f"\n\nscikit-learn {os.environ['SKLEARN_VERSION']}; {rounds}; load average before: {load_before:.1f}."
    if arguments.write:
        results.put("linear-classifiers", "benchmarks/linear.sh", "end of linear", table)


main()
