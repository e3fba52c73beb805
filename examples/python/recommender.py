"""Recommendations from clicks: train, recommend, add a new user, compare with the most popular items.

    python -m venv v && v/bin/pip install . && v/bin/python examples/python/recommender.py

The data are synthetic: users and items have hidden tastes, and a user clicks what fits. With data of
your own, pass a SciPy matrix of users by items, whose entries are the weights of events.
"""

import numpy as np
from scipy import sparse

import hemiola

USERS, ITEMS, TASTES = 3000, 800, 6


def clicks(generator: np.random.Generator) -> sparse.csr_array:
    """Draws clicks: likelier for popular items, and for items that fit the taste of the user."""
    users = generator.dirichlet(np.full(TASTES, 0.2), USERS)
    items = generator.dirichlet(np.full(TASTES, 0.2), ITEMS)
    popularity = generator.pareto(1.5, ITEMS) + 0.2
    chance = (users @ items.T) ** 2 * popularity
    chance *= 25 / chance.sum(axis=1, keepdims=True)
    return sparse.csr_array((generator.random((USERS, ITEMS)) < chance).astype(np.float32))


def recall(recommended: np.ndarray, hidden: sparse.csr_array) -> float:
    """Returns the mean fraction of the hidden clicks of a user that are recommended."""
    found = []
    for row, ids in enumerate(recommended):
        wanted = hidden.indices[hidden.indptr[row] : hidden.indptr[row + 1]]
        if len(wanted):
            found.append(np.isin(wanted, ids).mean())
    return float(np.mean(found))


def main() -> None:
    generator = np.random.default_rng(1)
    events = clicks(generator)
    hidden = generator.random(events.nnz) < 0.2
    coordinates = events.tocoo()

    def part(chosen: np.ndarray) -> sparse.csr_array:
        entries = (coordinates.data[chosen], (coordinates.row[chosen], coordinates.col[chosen]))
        return sparse.csr_array(entries, shape=events.shape)

    seen, test = part(~hidden), part(hidden)
    print(f"{seen.nnz} clicks of {USERS} users on {ITEMS} items, {test.nnz} hidden")

    model = hemiola.ImplicitFactorization(factors=16, iterations=10, workers=-1, random_state=1).fit(seen)
    print(model.report_)

    everyone = np.arange(USERS)
    recommended, _ = model.recommend(everyone, seen, N=20)
    popular = np.argsort(-seen.sum(axis=0))[:60]
    baseline = np.array([popular[~np.isin(popular, seen[[user]].indices)][:20] for user in everyone])
    ours, theirs = recall(recommended, test), recall(baseline, test)
    print(f"recall@20: {ours:.3f}, of the most popular items {theirs:.3f}")
    assert ours > 1.3 * theirs, "recommendations must be better than the most popular items"

    # Somebody new, who clicked what user 7 did, gets the recommendations of user 7.
    model.partial_fit_users([USERS], seen[[7]])
    new, _ = model.recommend(USERS, seen[[7]], N=5)
    known, _ = model.recommend(7, seen[[7]], N=5)
    print(f"a new user like user 7: {new.tolist()}, user 7: {known.tolist()}")
    similar, cosines = model.similar_items(int(popular[0]), N=4)
    print("like item", ", ".join(f"{item} ({cosine:.2f})" for item, cosine in zip(similar, cosines, strict=True)))


if __name__ == "__main__":
    main()
