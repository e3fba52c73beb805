"""Compares hemiola's lasso with celer, skglm, scikit-learn and adelie; see lasso.sh. benchmarks/results/*/lasso.md describes the method."""
import argparse, json, math, os, pathlib, subprocess, time
import numpy, scipy.sparse
import results

FOLDER = pathlib.Path("target/benchmarks/lasso")
HEMIOLA = "target/release/hemiola"
# The duality gap to be reached, in shares of the objective without coefficients.
GAP = 1e-6
# Those this process may use, before a library takes some away.
CORES = os.sched_getaffinity(0)
# Time limit in seconds: smaller tolerances are not tried after a longer run.
LONGEST = 60


def dense(rows=2000, columns=20000, correlation=0.9, chosen=200, seed=0):
    """Generates a dense problem with correlated neighbouring columns."""
    random = numpy.random.default_rng(seed)
    features = numpy.empty((rows, columns), dtype=numpy.float32, order="F")
    features[:, 0] = random.standard_normal(rows)
    for column in range(1, columns):
        features[:, column] = correlation * features[:, column - 1] + math.sqrt(1 - correlation**2) * random.standard_normal(rows)
    places = random.choice(columns, chosen, replace=False)
    signal = features[:, places].astype(float) @ random.standard_normal(chosen)
    noise = random.standard_normal(rows)
    return features, (signal + noise * numpy.linalg.norm(signal) / numpy.linalg.norm(noise) / 5).astype(numpy.float32)


def sparse(rows=20000, columns=200000, per_row=200, chosen=2000, seed=0):
    """Generates a sparse problem with power-law column frequencies, as of words."""
    random = numpy.random.default_rng(seed)
    frequency = 1 / (numpy.arange(columns) + 50.0) ** 0.8
    at = random.choice(columns, size=rows * per_row, p=frequency / frequency.sum())
    values = numpy.abs(random.standard_normal(rows * per_row)) + 0.1
    features = scipy.sparse.coo_matrix((values, (numpy.repeat(numpy.arange(rows), per_row), at)), shape=(rows, columns)).tocsc()
    features.data = features.data.astype(numpy.float32)
    features = features[:, random.permutation(columns)].tocsc()
    features.sort_indices()
    frequent = numpy.argsort(-numpy.diff(features.indptr))[:5000]
    coefficients = numpy.zeros(columns)
    coefficients[random.choice(frequent, chosen, replace=False)] = random.standard_normal(chosen)
    signal, noise = features @ coefficients, random.standard_normal(rows)
    target = signal + noise * numpy.linalg.norm(signal - signal.mean()) / numpy.linalg.norm(noise)
    return features, (target - target.mean()).astype(numpy.float32)


def save(name, features, target):
    """Saves a problem for all solvers and for `hemiola bench lasso`."""
    folder = FOLDER / name
    folder.mkdir(parents=True, exist_ok=True)
    target.tofile(folder / "target.f32")
    if scipy.sparse.issparse(features):
        features.data.tofile(folder / "values.f32")
        features.indices.astype("u4").tofile(folder / "rows.u32")
        features.indptr.astype("u8").tofile(folder / "starts.u64")
    else:
        features.T.tofile(folder / "values.f32")
    (folder / "problem.json").write_text(json.dumps(dict(rows=features.shape[0], columns=features.shape[1])))


def judge(features, target, coefficients, strength):
    """Objective and duality gap of a solution, as fractions of the objective at zero coefficients."""
    rows = len(target)
    left = target - features @ coefficients
    start = target @ target / (2 * rows)
    objective = left @ left / (2 * rows) + strength * numpy.abs(coefficients).sum()
    bound = strength / (numpy.abs(features.T @ left).max() / rows)
    scale = numpy.clip(target @ left / (left @ left), -bound, bound)
    dual = (2 * scale * (target @ left) - scale**2 * (left @ left)) / (2 * rows)
    return objective, (objective - dual) / start


def fitted(model, features, target):
    return model.fit(features, target).coef_


def adelie_path(features, target, strength, tolerance):
    import adelie
    largest = numpy.abs(features.T @ target).max() / len(target)
    kind = adelie.matrix.sparse if scipy.sparse.issparse(features) else adelie.matrix.dense
    path = numpy.geomspace(largest, strength, max(2, round(20 * math.log10(largest / strength))))
    state = adelie.grpnet(X=kind(features, method="naive"), glm=adelie.glm.gaussian(target), lmda_path=path, intercept=False, tol=tolerance,
                          progress_bar=False, n_threads=1, early_exit=False)
    return numpy.asarray(state.betas[-1].todense()).ravel()


def solvers(strength):
    """Each solver as a function of a tolerance, with tolerances from large to small: the first that reaches the gap counts."""
    import celer, skglm, sklearn.linear_model
    options = dict(alpha=strength, fit_intercept=False)
    fine = [1e-6, 3e-7, 1e-7, 1e-8]
    yield "celer", fine, lambda x, y, tol: fitted(celer.Lasso(**options, tol=tol), x, y)
    yield "skglm", [1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8], lambda x, y, tol: fitted(skglm.Lasso(**options, tol=tol), x, y)
    yield "scikit-learn", fine, lambda x, y, tol: fitted(sklearn.linear_model.Lasso(**options, tol=tol, max_iter=10**6), x, y)
    yield "adelie", [1e-9, 1e-11, 1e-13], lambda x, y, tol: adelie_path(x, y, strength, tol)


def measured(solve, tolerances, features, target, strength, rounds):
    """Best seconds with the largest tolerance that reaches the gap; None if none does."""
    for tolerance in tolerances:
        start = time.perf_counter()
        coefficients = solve(features, target, tolerance)
        seconds = time.perf_counter() - start
        objective, gap = judge(features, target, numpy.asarray(coefficients, dtype=float), strength)
        if gap <= GAP:
            for _ in range(rounds - 1):
                start = time.perf_counter()
                solve(features, target, tolerance)
                seconds = min(seconds, time.perf_counter() - start)
            return seconds, objective, gap
        if seconds > LONGEST:
            break
    return None


def hemiola(name, share, workers):
    command = [HEMIOLA, "bench", "lasso", FOLDER / name, "--share", str(share), "--workers", str(workers), "--tolerance", str(GAP), "--report", "-"]
    # Importing adelie binds the process to one core; a child would inherit that.
    run = subprocess.run(command, check=True, capture_output=True, text=True, preexec_fn=lambda: os.sched_setaffinity(0, CORES))
    return min(json.loads(run.stdout)["runs"], key=lambda run: run["seconds"])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=2, help="of the others; ours makes three")
    parser.add_argument("--write", action="store_true", help="put the table into benchmarks/results")
    arguments = parser.parse_args()
    load_before, rows = os.getloadavg()[0], []
    # Whoever compiles on the first call does it here.
    random = numpy.random.default_rng(0)
    small = numpy.asfortranarray(random.standard_normal((50, 80)))
    for features in [small, scipy.sparse.csc_matrix(small)]:
        for _, tolerances, solve in solvers(0.05):
            solve(features, small[:, 0] + 0.1, tolerances[0])
    for name, make in [("dense", dense), ("sparse", sparse)]:
        features, target = make()
        save(name, features, target)
        features, target = features.astype(float), target.astype(float)
        largest = numpy.abs(features.T @ target).max() / len(target)
        for share in [0.1, 0.01]:
            found = {who: measured(solve, tolerances, features, target, largest * share, arguments.rounds)
                     for who, tolerances, solve in solvers(largest * share)}
            one, two = hemiola(name, share, 1), hemiola(name, share, 2)
            best = min(seconds for seconds, _, _ in filter(None, found.values()))
            least = min(objective for _, objective, _ in filter(None, found.values()))
            assert one["gap"] <= GAP and two["gap"] <= GAP and one["objective"] <= least * (1 + GAP), (one, two, found)
            theirs = " | ".join(f"{one[0]:.3f}" if one else "not reached" for one in found.values())
            rows.append(f"| {name} | {share} | {one['nonzero']} | {one['seconds']:.3f} | {two['seconds']:.3f} | {theirs} | {one['seconds'] / best:.2f} | {one['seconds'] / two['seconds']:.2f} |")
            print(rows[-1], flush=True)
    head = "| problem | λ / λ_max | coefficients | hemiola, s | two workers, s | celer, s | skglm, s | scikit-learn, s | adelie, s | ratio to the best | speed-up of two workers |"
    table = "\n".join([head, "|" + "---|" * 11, *rows]) + f"\n\nBest of {arguments.rounds} (ours 3) runs; load average before: {load_before:.1f}."
    if arguments.write:
        results.put("lasso", "benchmarks/lasso.sh", "end of lasso", table)


main()
