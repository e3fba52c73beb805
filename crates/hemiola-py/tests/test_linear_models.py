"""Linear models: coefficients are those of scikit-learn."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn import linear_model, svm
from sklearn.datasets import load_diabetes, load_iris, make_classification
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import hemiola


@pytest.fixture
def diabetes():
    return load_diabetes(return_X_y=True)


@pytest.fixture
def iris():
    X, y = load_iris(return_X_y=True)
    return StandardScaler().fit_transform(X), y


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("storage", [np.ascontiguousarray, np.asfortranarray, sparse.csr_matrix, sparse.csc_array])
def test_elastic_net_equals_scikit_learn(diabetes, storage, fit_intercept, weights):
    X, y = diabetes
    settings = {"alpha": 0.05, "l1_ratio": 0.7, "fit_intercept": fit_intercept, "tol": 1e-10, "max_iter": 100_000}
    weight = np.linspace(0.5, 3.0, len(y)) if weights else None
    expected = linear_model.ElasticNet(**settings).fit(X, y, weight)
    found = hemiola.ElasticNet(**settings).fit(storage(X), y, weight)
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(found.intercept_, expected.intercept_, rtol=1e-6, atol=1e-4)
    np.testing.assert_allclose(found.predict(storage(X)), expected.predict(X), rtol=1e-4)


def test_lasso_equals_scikit_learn_in_both_precisions(diabetes):
    X, y = diabetes
    expected = linear_model.Lasso(0.5, tol=1e-10, max_iter=100_000).fit(X, y)
    for precision, tolerance in [(np.float64, 1e-4), (np.float32, 1e-3)]:
        found = hemiola.Lasso(0.5, tol=1e-10).fit(X.astype(precision), y)
        np.testing.assert_allclose(found.coef_, expected.coef_, rtol=tolerance, atol=tolerance)
        assert found.coef_.dtype == precision
        assert list(found.sparse_coef_.indices) == list(np.flatnonzero(expected.coef_))


def test_a_warm_start_ends_at_the_same_solution_in_fewer_rounds(diabetes):
    X, y = diabetes
    cold = hemiola.Lasso(0.01, tol=1e-9).fit(X, y)
    warm = hemiola.Lasso(0.01, tol=1e-9, warm_start=True).fit(X, y)
    warm.fit(X, y)
    np.testing.assert_allclose(warm.coef_, cold.coef_, rtol=1e-5, atol=1e-5)
    assert warm.n_iter_ <= cold.n_iter_


def test_lasso_cv_chooses_the_penalty_of_scikit_learn(diabetes):
    X, y = diabetes
    expected = linear_model.LassoCV(alphas=30, cv=4, tol=1e-9, max_iter=100_000).fit(X, y)
    for data in (X, sparse.csr_matrix(X)):
        found = hemiola.LassoCV(alphas=30, cv=4, tol=1e-9).fit(data, y)
        np.testing.assert_allclose(found.alphas_, expected.alphas_, rtol=1e-9)
        np.testing.assert_allclose(found.mse_path_, expected.mse_path_, rtol=1e-4)
        assert found.alpha_ == pytest.approx(expected.alpha_)
        np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("weights", [False, True])
def test_ridge_equals_scikit_learn(diabetes, weights):
    X, y = diabetes
    y = np.column_stack([y, -2 * y + X[:, 3]])
    weight = np.linspace(0.5, 3.0, len(y)) if weights else None
    for fit_intercept in (True, False):
        expected = linear_model.Ridge([0.1, 2.0], fit_intercept=fit_intercept).fit(X, y, weight)
        found = hemiola.Ridge([0.1, 2.0], fit_intercept=fit_intercept).fit(X, y, weight)
        np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-4, atol=1e-3)
        np.testing.assert_allclose(found.intercept_, expected.intercept_, rtol=1e-4)


@pytest.mark.parametrize("classes", [2, 3])
def test_logistic_regression_equals_scikit_learn(iris, classes):
    X, y = iris
    X, y = X[y < classes], np.array(["a", "b", "c"])[y[y < classes]]
    expected = linear_model.LogisticRegression(C=0.7, tol=1e-10, max_iter=10_000).fit(X, y)
    found = hemiola.LogisticRegression(C=0.7, tol=1e-8).fit(X, y)
    assert list(found.classes_) == list(expected.classes_)
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(found.predict_proba(X), expected.predict_proba(X), atol=1e-4)
    np.testing.assert_array_equal(found.predict(X), expected.predict(X))


def test_weights_of_rows_and_classes_are_those_of_scikit_learn(iris):
    X, y = iris
    weights = np.linspace(0.2, 3.0, len(y))
    for class_weight in ("balanced", {0: 0.5, 2: 4.0}):
        settings = {"C": 0.7, "class_weight": class_weight}
        expected = linear_model.LogisticRegression(tol=1e-10, max_iter=10_000, **settings).fit(X, y, weights)
        found = hemiola.LogisticRegression(tol=1e-8, **settings).fit(X, y, weights)
        np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-3, atol=1e-4)
        # With more classes, liblinear leaves the weights of the rest out.
        two = y != 1
        expected = svm.LinearSVC(tol=1e-9, max_iter=1_000_000, random_state=1, **settings).fit(X[two], y[two], weights[two])
        found = hemiola.LinearSVC(tol=1e-8, max_iter=5000, random_state=1, **settings).fit(X[two], y[two], weights[two])
        np.testing.assert_allclose(found.coef_, expected.coef_, rtol=2e-2, atol=2e-3)
    with pytest.raises(ValueError, match="need the l2 penalty"):
        hemiola.LogisticRegression("l1").fit(X, y, weights)


def test_l1_logistic_regression_equals_scikit_learn():
    X, y = make_classification(300, 30, n_informative=5, random_state=1)
    settings = {"l1_ratio": 1.0, "C": 0.1, "tol": 1e-9, "max_iter": 100_000}
    expected = linear_model.LogisticRegression(solver="saga", **settings).fit(X, y)
    found = hemiola.LogisticRegression("l1", C=0.1, tol=1e-9).fit(X, y)
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-3, atol=1e-3)
    assert np.count_nonzero(found.coef_) == np.count_nonzero(expected.coef_)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("classes", [2, 3])
def test_linear_svc_equals_scikit_learn(iris, classes, loss):
    X, y = iris
    X, y = X[y < classes], y[y < classes]
    expected = svm.LinearSVC(C=0.5, loss=loss, dual=True, tol=1e-9, max_iter=1_000_000, random_state=1).fit(X, y)
    found = hemiola.LinearSVC(C=0.5, loss=loss, tol=1e-8, max_iter=5000, random_state=1).fit(X, y)
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=2e-2, atol=2e-3)
    np.testing.assert_allclose(found.intercept_, expected.intercept_, rtol=2e-2, atol=2e-3)


def test_results_do_not_depend_on_workers_beyond_rounding(diabetes):
    X, y = diabetes
    one, two = (hemiola.Lasso(0.1, tol=1e-10, workers=workers).fit(X, y) for workers in (1, 2))
    np.testing.assert_allclose(one.coef_, two.coef_, rtol=1e-5, atol=1e-5)


def test_estimators_work_in_the_tools_of_scikit_learn(diabetes):
    X, y = diabetes
    grid = {"lasso__alpha": [0.1, 1.0, 10.0]}
    expected, search = (
        GridSearchCV(make_pipeline(StandardScaler(), lasso), grid, cv=3).fit(X, y)
        for lasso in (linear_model.Lasso(), hemiola.Lasso())
    )
    assert search.best_params_ == expected.best_params_
    assert search.best_score_ == pytest.approx(expected.best_score_, rel=1e-4)
    assert cross_val_score(hemiola.Ridge(0.01), X, y, cv=3).mean() > 0.4


def test_names_of_a_data_frame_are_kept_and_checked(diabetes):
    pandas = pytest.importorskip("pandas")
    X, y = diabetes
    frame = pandas.DataFrame(X, columns=[f"x{column}" for column in range(X.shape[1])])
    model = hemiola.Lasso(0.1).fit(frame, y)
    assert list(model.feature_names_in_) == list(frame.columns)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame.rename(columns={"x0": "other"}))


def test_a_pickled_model_predicts_the_same(diabetes):
    X, y = diabetes
    model = hemiola.ElasticNet(0.1).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert again.report_.epochs == model.n_iter_


def test_read_only_arrays_are_read(diabetes):
    X, y = (array.copy() for array in diabetes)
    for array in (X, y):
        array.flags.writeable = False
    assert hemiola.Lasso(0.1).fit(X, y).score(X, y) > 0.4
    assert hemiola.Ridge(0.1).fit(X, y).score(X, y) > 0.4


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_non_finite_input_is_refused_in_the_words_of_scikit_learn(diabetes, bad):
    X, y = (array.copy() for array in diabetes)
    X[3, 2] = bad
    for estimator in (hemiola.Lasso(), hemiola.Ridge(), hemiola.KMeans()):
        with pytest.raises(ValueError, match="Input X contains|infinity"):
            estimator.fit(X, y)


def test_the_report_is_shown_in_notebooks(diabetes):
    report = hemiola.Lasso(0.1).fit(*diabetes).report_
    assert "<table>" in report._repr_html_() and "442" in report._repr_html_()
    assert report.epochs == len(report["progress"])
    assert "lasso" in repr(report)
