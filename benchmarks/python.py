"""Fit times of the Python package beside other packages, in turn, and the checks of scikit-learn's contract.

Each pair of fits solves one problem to the same accuracy. A ratio is that of the best of several rounds: the time of
Hemiola divided by that of the fastest other package.
"""

import argparse
import importlib
import json
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from scipy import sparse

import hemiola

ROOT = Path(__file__).resolve().parents[1]


def package(name):
    """Returns a package, or None where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def regression(rows, columns, density):
    """Returns features and a target that few of them explain."""
    generator = np.random.default_rng(1)
    if density < 1:
        X = sparse.random_array((rows, columns), density=density, format="csc", rng=generator)
    else:
        X = np.asfortranarray(generator.normal(size=(rows, columns)))
    weights = np.zeros(columns)
    weights[generator.choice(columns, columns // 100, replace=False)] = generator.normal(size=columns // 100)
    y = X @ weights
    return X, y + 0.1 * y.std() * generator.normal(size=rows)


def lasso(X, y):
    """Returns fits of the lasso for a twentieth of the largest penalty."""
    from sklearn import linear_model

    alpha = 0.05 * float(np.max(np.abs(X.T @ (y - y.mean())))) / len(y)
    fits = {
        "hemiola": lambda: hemiola.Lasso(alpha, tol=1e-6).fit(X, y),
        "scikit-learn": lambda: linear_model.Lasso(alpha, tol=1e-6, max_iter=100_000).fit(X, y),
    }
    if celer := package("celer"):
        fits["celer"] = lambda: celer.Lasso(alpha, tol=1e-6).fit(X, y)
    if skglm := package("skglm"):
        fits["skglm"] = lambda: skglm.Lasso(alpha, tol=1e-6).fit(X, y)
    return fits


def ridge(X, y):
    from sklearn import linear_model

    rows = X.tocsr() if sparse.issparse(X) else np.ascontiguousarray(X)
    return {
        "hemiola": lambda: hemiola.Ridge(1.0).fit(rows, y),
        "scikit-learn": lambda: linear_model.Ridge(1.0).fit(rows, y),
    }


def logistic(X, y):
    from sklearn import linear_model

    rows, labels = X.tocsr(), y > np.median(y)
    return {
        "hemiola": lambda: hemiola.LogisticRegression().fit(rows, labels),
        "scikit-learn": lambda: linear_model.LogisticRegression(max_iter=1000).fit(rows, labels),
        "liblinear": lambda: linear_model.LogisticRegression(solver="liblinear").fit(rows, labels),
    }


def support_vectors(X, y):
    from sklearn import svm

    rows, labels = X.tocsr(), y > np.median(y)
    return {
        "hemiola": lambda: hemiola.LinearSVC(tol=1e-3, random_state=1).fit(rows, labels),
        "liblinear": lambda: svm.LinearSVC(random_state=1).fit(rows, labels),
    }


def kmeans():
    from sklearn import cluster
    from sklearn.datasets import make_blobs

    X, _ = make_blobs(20_000, 20, centers=30, random_state=1)
    start = X[:30]
    return {
        "hemiola": lambda: hemiola.KMeans(30, init=start, max_iter=30, tol=0).fit(X),
        "scikit-learn": lambda: cluster.KMeans(30, init=start, n_init=1, max_iter=30, tol=0).fit(X),
    }


def events():
    """Returns fits of ten epochs of implicit matrix factorization."""
    generator = np.random.default_rng(1)
    users, items = generator.integers(0, 10_000, 500_000), (generator.pareto(1.0, 500_000) * 100).astype(int) % 4000
    data = sparse.csr_matrix((np.ones(500_000, dtype=np.float32), (users, items)), shape=(10_000, 4000))
    fits = {"hemiola": lambda: hemiola.ImplicitFactorization(32, iterations=10, random_state=1).fit(data)}
    if package("implicit"):
        from implicit.als import AlternatingLeastSquares

        other = dict(iterations=10, num_threads=1, random_state=1)
        fits["implicit"] = lambda: AlternatingLeastSquares(32, **other).fit(data, show_progress=False)
    return fits


def topics():
    """Returns fits of fifty sweeps of a topic model."""
    generator = np.random.default_rng(1)
    of_words = generator.dirichlet(np.full(5000, 0.02), 20)
    shares = generator.dirichlet(np.full(20, 0.1), 3000)
    counts = sparse.csr_matrix(np.array([generator.multinomial(150, share @ of_words) for share in shares]))
    fits = {
        "hemiola": lambda: hemiola.LatentDirichletAllocation(20, max_iter=50, random_state=1).fit(counts.astype(float))
    }
    if tomotopy := package("tomotopy"):
        documents = [
            [str(word) for word, count in zip(row.indices, row.data, strict=True) for _ in range(count)]
            for row in (counts[[index]] for index in range(counts.shape[0]))
        ]

        def other():
            model = tomotopy.LDAModel(k=20, seed=1)
            for document in documents:
                model.add_doc(document)
            model.train(50, workers=1)

        fits["tomotopy"] = other
    return fits


def best_times(fits, rounds):
    """Returns the best processor time of each fit, run in turn."""
    best = dict.fromkeys(fits, float("inf"))
    for _ in range(rounds):
        for name, fit in fits.items():
            start = time.process_time()
            fit()
            best[name] = min(best[name], time.process_time() - start)
    return best


def conversion_share():
    """Returns the share of a fit that the conversion of 10 million entries of a sparse matrix takes.

    It is the time of the fit beyond the training that its report states: checks, and the copy into the
    memory of the solver.
    """
    X = sparse.random_array((200_000, 20_000), density=0.0025, format="csr", rng=np.random.default_rng(1), dtype=np.float32)
    y = np.asarray(X.sum(axis=1) > np.median(X.sum(axis=1)), dtype=int)
    shares = {}
    for name, model, rows in (
        ("LogisticRegression, CSR", hemiola.LogisticRegression(), X),
        ("Lasso, CSC", hemiola.Lasso(1e-4), X.tocsc()),
    ):
        start = time.perf_counter()
        model.fit(rows, y)
        seconds = time.perf_counter() - start
        shares[name] = max(0.0, 1 - model.report_["result"]["seconds"] / seconds)
    return shares


def import_seconds():
    """Returns the best processor time of importing the package, beyond that of starting Python."""
    code = "import time; start = time.process_time(); import hemiola; print(time.process_time() - start)"
    return min(float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(5))


def contract():
    """Returns the numbers of checks of scikit-learn's contract that pass, are declared, and fail."""
    command = [sys.executable, "-m", "pytest", "--tb=no", str(ROOT / "crates/hemiola-py/tests/test_contract.py")]
    summary = subprocess.run(command, capture_output=True, text=True, cwd=ROOT).stdout.strip().splitlines()[-1]
    count = {kind: int(number) for number, kind in re.findall(r"(\d+) (passed|xfailed|failed)", summary)}
    return {"passed": count.get("passed", 0), "declared": count.get("xfailed", 0), "failed": count.get("failed", 0)}


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--report", help="file for the figures, as JSON")
    arguments.add_argument("--rounds", type=int, default=3)
    given = arguments.parse_args()
    dense, thin = regression(2000, 2000, 1), regression(20_000, 20_000, 0.002)
    sets = {
        "lasso, dense": lasso(*dense),
        "lasso, sparse": lasso(*thin),
        "ridge, dense": ridge(dense[0][:, :500], dense[1]),
        "logistic regression, sparse": logistic(*thin),
        "support vector machine, sparse": support_vectors(*thin),
        "k-means": kmeans(),
        "implicit feedback": events(),
        "topics": topics(),
    }
    ratios, seconds = {}, {}
    for name, fits in sets.items():
        best = best_times(fits, given.rounds)
        others = {other: time for other, time in best.items() if other != "hemiola"}
        seconds[name] = best
        if others:
            fastest = min(others, key=others.__getitem__)
            ratios[name] = best["hemiola"] / others[fastest]
            print(f"{name:32} {best['hemiola']:8.3f} s, {fastest} {others[fastest]:8.3f} s: {ratios[name]:.2f}", flush=True)
    shares = conversion_share()
    for name, share in shares.items():
        print(f"conversion of 10 million entries, {name}: {share:.1%} of the fit", flush=True)
    checks, start = contract(), import_seconds()
    print(f"checks of scikit-learn: {checks}\nimport: {start:.3f} s")
    if given.report:
        report = {"sklearn_checks": checks, "fit_ratio": ratios, "fit_seconds": seconds}
        report |= {"conversion_share": shares, "import_seconds": start}
        Path(given.report).write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
