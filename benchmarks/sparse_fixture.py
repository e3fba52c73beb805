"""Writes crates/hemiola-models/tests/it/sparse_problems.json: small synthetic problems, and the objectives that scikit-learn finds for them.

Run it with a Python that has numpy and scikit-learn when problems are to change: python benchmarks/sparse_fixture.py. The tests make the same
data from the same seeds (`synthetic` in tests/it/sparse.rs) and need no Python.
"""
import json, pathlib, warnings
import numpy
from sklearn.linear_model import ElasticNet, LogisticRegression

TARGET = pathlib.Path(__file__).parent.parent / "crates/hemiola-models/tests/it/sparse_problems.json"
MASK = (1 << 64) - 1


def bits(state):
    """SplitMix64; the next state and a number."""
    state = (state + 0x9E3779B97F4A7C15) & MASK
    z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return state, z ^ (z >> 31)


def synthetic(seed, rows, columns, kind):
    state = seed

    def unit():
        nonlocal state
        state, value = bits(state)
        return (value >> 40) / (1 << 23) - 1.0

    features = numpy.zeros((rows, columns))
    for column in range(columns):
        for row in range(rows):
            value = unit()
            if kind == "correlated" and column > 0:
                value = 0.875 * features[row, column - 1] + 0.125 * value
            if kind == "sparse" and unit() < 0.6:
                value = 0.0
            features[row, column] = numpy.float32(value)
    if kind == "odd":
        features[:, 1], features[:, 2], features[:, 3] = 2.5, 0.0, features[:, 0]
        features[:, 4] = features[:, 4] + 100.0
        features[:, 4] = features[:, 4].astype(numpy.float32)
    target = numpy.zeros(rows)
    for row in range(rows):
        target[row] = numpy.float32(2.0 * features[row, 0] - 1.5 * features[row, columns // 2] + features[row, columns - 1] + 0.5 * unit() + 1.0)
    return features, target


def main():
    warnings.simplefilter("error")
    problems, seed = [], 0
    shapes = [(20, 50), (60, 12), (40, 40), (25, 120), (150, 20)]
    for kind in ["plain", "correlated", "odd", "sparse"]:
        for number, (rows, columns) in enumerate(shapes):
            for share, ratio in [(0.3, 1.0), (0.02, 1.0), (0.1, 0.5)][: 3 if number < 3 else 2]:
                seed += 1
                features, target = synthetic(seed, rows, columns, kind)
                intercept = seed % 3 > 0
                centred, left = (features - features.mean(0), target - target.mean()) if intercept else (features, target)
                alpha = float(share * abs(centred.T @ left).max() / rows / ratio)
                model = ElasticNet(alpha=alpha, l1_ratio=ratio, fit_intercept=intercept, tol=1e-13, max_iter=10**7)
                model.fit(numpy.asfortranarray(features), target)
                off = target - features @ model.coef_ - model.intercept_
                cost = alpha * (ratio * abs(model.coef_).sum() + (1 - ratio) / 2 * model.coef_ @ model.coef_)
                problems.append(dict(seed=seed, rows=rows, columns=columns, kind=kind, loss="squared", lambda_=alpha, ratio=ratio,
                                     intercept=intercept, objective=float(off @ off / (2 * rows) + cost)))
    for kind, (rows, columns), share in [("plain", (60, 12), 0.1), ("correlated", (40, 40), 0.1), ("sparse", (50, 80), 0.05), ("plain", (30, 60), 0.3)]:
        seed += 1
        features, target = synthetic(seed, rows, columns, kind)
        target = (target > numpy.median(target)).astype(float)
        lambda_ = float(share * abs(features.T @ (target - 0.5)).max() / rows)
        model = LogisticRegression(l1_ratio=1.0, solver="liblinear", C=1 / (rows * lambda_), fit_intercept=False, tol=1e-12, max_iter=10**6)
        model.fit(features, target)
        margins = numpy.where(target > 0.5, 1, -1) * (features @ model.coef_[0])
        objective = float(numpy.logaddexp(0, -margins).mean() + lambda_ * abs(model.coef_[0]).sum())
        problems.append(dict(seed=seed, rows=rows, columns=columns, kind=kind, loss="logistic", lambda_=lambda_, ratio=1.0,
                             intercept=False, objective=objective))
    lines = ",\n".join(json.dumps(problem).replace("lambda_", "lambda") for problem in problems)
    TARGET.write_text(f"[\n{lines}\n]\n")
    print(f"{len(problems)} problems")


if __name__ == "__main__":
    main()
