"""Clusters, topics, factorization machines and recommendations."""

import numpy as np
import pytest
from scipy import sparse
from sklearn import cluster
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score

import hemiola


def test_kmeans_equals_scikit_learn_from_the_same_centers():
    X, _ = make_blobs(500, 4, centers=5, random_state=3)
    start = X[:5]
    expected = cluster.KMeans(5, init=start, n_init=1, tol=0, max_iter=300).fit(X)
    for data in (X, sparse.csr_matrix(X)):
        found = hemiola.KMeans(5, init=start, tol=0, max_iter=300).fit(data)
        np.testing.assert_allclose(found.cluster_centers_, expected.cluster_centers_, rtol=1e-5, atol=1e-5)
        assert found.inertia_ == pytest.approx(expected.inertia_, rel=1e-5)
        np.testing.assert_array_equal(found.labels_, expected.labels_)


def test_kmeans_finds_separate_clusters():
    X, y = make_blobs(600, 3, centers=4, cluster_std=0.3, random_state=5)
    for settings in ({}, {"init": "random"}, {"batch_size": 100, "max_iter": 20}):
        model = hemiola.KMeans(4, random_state=1, **settings).fit(X)
        assert adjusted_rand_score(y, model.labels_) > 0.99
        assert model.transform(X).shape == (600, 4)
        assert model.score(X) == pytest.approx(-model.inertia_)


def test_topics_of_documents_are_found():
    generator = np.random.default_rng(1)
    groups = generator.integers(0, 2, 200)
    counts = np.zeros((200, 20), dtype=np.int64)
    for document, group in enumerate(groups):
        words = generator.integers(0, 10, 40) + 10 * group
        np.add.at(counts[document], words, 1)
    model = hemiola.LatentDirichletAllocation(2, random_state=1).fit(sparse.csr_matrix(counts))
    assert model.components_.shape == (2, 20)
    assert model.components_.sum() == pytest.approx(counts.sum() + 40 * model.topic_word_prior_)
    shares = model.transform(counts)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    found = shares.argmax(axis=1)
    assert max((found == groups).mean(), (found != groups).mean()) == 1.0


def test_a_factorization_machine_learns_a_product():
    generator = np.random.default_rng(2)
    X = generator.choice([-1.0, 1.0], (2000, 4))
    y = 3.0 * X[:, 0] * X[:, 1] + X[:, 2] + 1.0
    model = hemiola.FactorizationMachine(4, max_iter=60, random_state=1).fit(X, y)
    assert model.score(X, y) > 0.98
    np.testing.assert_allclose(model.predict(sparse.csr_matrix(X)), model.predict(X), rtol=1e-6)
    labels = np.where(y > 1.0, "up", "down")
    classifier = hemiola.FactorizationMachine(4, loss="logistic", max_iter=60, random_state=1).fit(X, labels)
    assert classifier.score(X, labels) > 0.95
    np.testing.assert_allclose(classifier.predict_proba(X).sum(axis=1), 1.0)


@pytest.fixture
def ratings():
    """Ratings of rank 2 with noise, a third of them known."""
    generator = np.random.default_rng(3)
    users, items = generator.normal(size=(200, 2)), generator.normal(size=(100, 2))
    all_ratings = 3.0 + users @ items.T + 0.05 * generator.normal(size=(200, 100))
    known = generator.random(all_ratings.shape) < 0.33
    return all_ratings, known


def test_unknown_ratings_are_predicted(ratings):
    all_ratings, known = ratings
    rows, columns = np.nonzero(known)
    matrix = sparse.csr_matrix((all_ratings[known], (rows, columns)), shape=known.shape)
    model = hemiola.MatrixFactorization(8, l2=0.01, max_iter=60, random_state=1).fit(matrix)
    users, items = np.nonzero(~known)
    errors = model.predict_pairs(users, items) - all_ratings[~known]
    assert np.sqrt(np.mean(errors**2)) < 0.5 * all_ratings.std()
    best, scores = model.recommend(0, 5, seen=columns[rows == 0])
    assert len(best) == 5 and not set(best) & set(columns[rows == 0])
    assert list(scores) == sorted(scores, reverse=True)


@pytest.fixture
def events():
    """Events of two groups of users, each with items of its own."""
    generator = np.random.default_rng(4)
    group = np.arange(100) % 2
    chance = np.where(group[:, None] == (np.arange(40) % 2)[None, :], 0.4, 0.02)
    return sparse.csr_matrix((generator.random((100, 40)) < chance).astype(np.float32))


def test_recommendations_are_items_of_the_same_group(events):
    model = hemiola.ImplicitFactorization(2, random_state=1).fit(events)
    ids, scores = model.recommend(3, events[3], N=5)
    assert len(ids) == 5 and (ids % 2 == 1).all() and not set(ids) & set(events[3].indices)
    assert list(scores) == sorted(scores, reverse=True)
    many, _ = model.recommend([2, 3], events[[2, 3]], N=4)
    assert many.shape == (2, 4) and (many[0] % 2 == 0).all() and (many[1] % 2 == 1).all()
    similar, cosines = model.similar_items(6, N=5)
    assert similar[0] == 6 and cosines[0] == pytest.approx(1.0, abs=1e-5) and (similar % 2 == 0).all()
    only, _ = model.recommend(3, events[3], N=5, items=[1, 2, 3], filter_items=[1], filter_already_liked_items=False)
    assert set(only) == {2, 3}


def test_new_users_are_added_without_training(events):
    model = hemiola.ImplicitFactorization(2, iterations=30, random_state=1).fit(events[:90])
    before = model.item_factors.copy()
    model.partial_fit_users(np.arange(90, 100), events[90:])
    assert model.user_factors.shape == (100, 2)
    np.testing.assert_array_equal(model.item_factors, before)
    ids, _ = model.recommend(95, events[95], N=5)
    assert (ids % 2 == 1).all()
    again, _ = model.recommend(0, events[95], N=5, recalculate_user=True)
    np.testing.assert_array_equal(again, ids)


def test_a_known_user_solved_anew_keeps_the_factors(events):
    model = hemiola.ImplicitFactorization(8, iterations=200, random_state=1).fit(events)
    solved = model._user_factors_of(events)
    np.testing.assert_allclose(solved, model.user_factors, atol=2e-2)


@pytest.mark.parametrize("estimator", [hemiola.MatrixFactorization(), hemiola.ImplicitFactorization()])
def test_an_empty_matrix_is_refused(estimator):
    with pytest.raises(ValueError, match="all entries of the matrix are 0"):
        estimator.fit(sparse.csr_matrix((5, 4)))


def test_negative_weights_of_events_are_refused():
    with pytest.raises(ValueError, match="Negative values"):
        hemiola.ImplicitFactorization().fit(np.array([[1.0, -1.0], [0.0, 1.0]]))
