"""Lasso, elastic net, and the lasso with a cross-validated penalty."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.model_selection import check_cv
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from . import _hemiola
from ._base import FLOATS, NativeEstimator, require, require_epochs
from ._data import columns_of, rows_of, weighted
from ._inputs import validate_data
from ._report import Report

#: Range of tolerances of the solver, which are relative duality gaps.
TOLERANCES = (1e-12, 1.0)


class LinearRegressor(RegressorMixin, NativeEstimator):
    """Regressor whose prediction is linear in the features."""

    coef_: Any
    intercept_: Any
    n_iter_: Any
    n_features_in_: int

    def predict(self, X: Any) -> Any:
        """Predicts the target of each row of `X`."""
        check_is_fitted(self)
        return safe_sparse_dot(self._features(X), self.coef_.T, dense_output=True) + self.intercept_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class ElasticNet(MultiOutputMixin, LinearRegressor):
    """Linear regression with L1 and L2 penalties.

    Minimizes ``1 / (2 n) |y - Xw - b|² + alpha (l1_ratio |w|₁ + (1 - l1_ratio) / 2 |w|²)``, as
    scikit-learn's ``ElasticNet`` does. Parameters and attributes have the same names and meanings.

    Parameters
    ----------
    alpha : float, default=1.0
        Strength of the penalty. 0 is ordinary least squares.
    l1_ratio : float, default=0.5
        Fraction of the L1 penalty; 0 is ridge regression, otherwise at least 0.001.
    fit_intercept : bool, default=True
        Adds an intercept, which is not penalized.
    max_iter : int, default=1000
        Maximum number of rounds of the solver.
    tol : float, default=1e-4
        Duality gap, relative to the objective without coefficients, at which the fit ends.
    warm_start : bool, default=False
        Starts from the coefficients of the previous fit.
    workers : int, default=None
        Threads; -1 uses all cores.
    verbose : bool, default=False
        Shows a progress bar.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,) or (n_targets, n_features)
    intercept_ : float or ndarray of shape (n_targets,)
    n_iter_ : int or list of int
        Rounds of the solver.
    dual_gap_ : float or ndarray of shape (n_targets,)
    report_ : Report
        Report of the last fit.
    """

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        l1_ratio: float = 0.5,
        fit_intercept: bool = True,
        max_iter: int = 1000,
        tol: float = 1e-4,
        warm_start: bool = False,
        workers: int | None = None,
        verbose: int | bool = False,
    ) -> None:
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol
        self.warm_start = warm_start
        self.workers = workers
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> ElasticNet:
        """Fits the model to the rows of `X` and their targets `y`, of one or several outputs."""
        require("alpha", self.alpha, self.alpha >= 0, "at least 0")
        require("l1_ratio", self.l1_ratio, 0 <= self.l1_ratio <= 1, "from 0 to 1")
        require("tol", self.tol, self.tol >= 0, "at least 0")
        epochs = require_epochs(self.max_iter)
        X, y = validate_data(
            self, X, y, accept_sparse="csc", dtype=list(FLOATS), order="F", multi_output=True, y_numeric=True
        )
        y = np.ascontiguousarray(y, dtype=np.float64)
        if sample_weight is not None:
            sample_weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        previous = getattr(self, "coef_", None) if self.warm_start else None
        targets = y if y.ndim == 2 else y[:, None]
        if previous is None or np.shape(previous)[-1] != X.shape[1] or np.size(previous) != targets.shape[1] * X.shape[1]:
            starts = [None] * targets.shape[1]
        else:
            starts = list(np.asarray(previous, dtype=np.float64).reshape(targets.shape[1], -1))
        fits = [
            self._fit_target(X, np.ascontiguousarray(targets[:, target]), sample_weight, starts[target], epochs)
            for target in range(targets.shape[1])
        ]
        precision = X.dtype
        coefficients = np.array([fit[0] for fit in fits], dtype=precision)
        intercepts = np.array([fit[1] for fit in fits], dtype=precision)
        gaps = np.array([fit[2] for fit in fits])
        self.report_ = fits[-1][3]
        rounds = [fit[3].epochs for fit in fits]
        if y.ndim == 1:
            self.coef_, self.dual_gap_, self.n_iter_ = coefficients[0], gaps[0], rounds[0]
            self.intercept_ = intercepts[0] if self.fit_intercept else 0.0
        else:
            self.coef_, self.intercept_, self.dual_gap_, self.n_iter_ = coefficients, intercepts, gaps, rounds
        return self

    def _fit_target(self, X: Any, y: Any, weights: Any, start: Any, epochs: int) -> tuple[Any, float, float, Report]:
        """Fits one target; returns coefficients, intercept, duality gap and report."""
        centred = weights is not None
        intercept = self.fit_intercept
        x_mean, y_mean = np.zeros(X.shape[1]), 0.0
        if centred:
            X, y, x_mean, y_mean = weighted(X, y, weights, intercept)
            intercept = False
        if self.alpha == 0 or self.l1_ratio == 0:
            fitted = self._run(
                _hemiola.fit_ridge,
                rows_of(X),
                y,
                weights=None,
                alpha=float(self.alpha) * len(y),
                intercept=intercept,
                tolerance=min(max(self.tol * 1e-6, 1e-12), 1.0),
                epochs=epochs,
            )
            gap = 0.0
        else:
            fitted = self._run(
                _hemiola.fit_sparse,
                columns_of(X),
                y,
                logistic=False,
                strength=float(self.alpha),
                l1_ratio=float(self.l1_ratio),
                intercept=intercept,
                tolerance=float(np.clip(self.tol, *TOLERANCES)),
                epochs=epochs,
                start=start,
            )
            null = 0.5 * float(np.mean((y - y.mean()) ** 2 if intercept else y**2))
            gap = float(fitted["report"]["progress"][-1]["train"]["gap"]) * null
        offset = float(y_mean - x_mean @ fitted["weights"]) if centred else fitted["intercept"]
        return fitted["weights"], offset, gap, fitted["report"]

    @property
    def sparse_coef_(self) -> Any:
        """Coefficients as a sparse matrix."""
        return sparse.csr_matrix(self.coef_)


class Lasso(ElasticNet):
    """Linear regression with an L1 penalty, under which many coefficients are 0.

    Minimizes ``1 / (2 n) |y - Xw - b|² + alpha |w|₁``, as scikit-learn's ``Lasso`` does. Parameters
    and attributes are those of :class:`ElasticNet` without ``l1_ratio``.
    """

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        fit_intercept: bool = True,
        max_iter: int = 1000,
        tol: float = 1e-4,
        warm_start: bool = False,
        workers: int | None = None,
        verbose: int | bool = False,
    ) -> None:
        super().__init__(
            alpha,
            l1_ratio=1.0,
            fit_intercept=fit_intercept,
            max_iter=max_iter,
            tol=tol,
            warm_start=warm_start,
            workers=workers,
            verbose=verbose,
        )


class LassoCV(LinearRegressor):
    """Lasso whose penalty is chosen by cross-validation along a regularization path.

    Penalties, folds and choice are those of scikit-learn's ``LassoCV``.

    Parameters
    ----------
    eps : float, default=1e-3
        Smallest penalty, relative to the largest.
    alphas : int or array-like, default=100
        Number of penalties, or the penalties.
    fit_intercept, max_iter, tol, workers, verbose
        As for :class:`Lasso`.
    cv : int, cross-validation generator or iterable, default=None
        Folds; ``None`` is 5-fold cross-validation.

    Attributes
    ----------
    alpha_ : float
        Penalty with the smallest mean squared error.
    alphas_ : ndarray of shape (n_alphas,)
    mse_path_ : ndarray of shape (n_alphas, n_folds)
    coef_, intercept_, n_iter_, dual_gap_, report_
        As for :class:`Lasso`.
    """

    def __init__(
        self,
        *,
        eps: float = 1e-3,
        alphas: Any = 100,
        fit_intercept: bool = True,
        max_iter: int = 1000,
        tol: float = 1e-4,
        cv: Any = None,
        workers: int | None = None,
        verbose: int | bool = False,
    ) -> None:
        self.eps = eps
        self.alphas = alphas
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol
        self.cv = cv
        self.workers = workers
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LassoCV:
        """Fits the model to the rows of `X` and their targets `y`."""
        require("tol", self.tol, self.tol >= 0, "at least 0")
        require("eps", self.eps, 0 < self.eps <= 1, "above 0 and up to 1")
        epochs = require_epochs(self.max_iter)
        X, y = validate_data(self, X, y, accept_sparse="csc", dtype=list(FLOATS), order="F", y_numeric=True)
        y = np.ascontiguousarray(y, dtype=np.float64)
        if sample_weight is not None:
            sample_weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        self.alphas_ = self._penalties(X, y, sample_weight)
        rows = X.tocsr() if sparse.issparse(X) else X
        errors = []
        for train, test in check_cv(self.cv).split(X, y):
            part = None if sample_weight is None else sample_weight[train]
            weights, intercepts = self._path(rows[train], y[train], part, epochs)
            predictions = safe_sparse_dot(rows[test], weights.T, dense_output=True) + intercepts
            squares = (predictions - y[test, None]) ** 2
            of_test = None if sample_weight is None else sample_weight[test]
            errors.append(np.average(squares, axis=0, weights=of_test))
        self.mse_path_ = np.array(errors).T
        self.alpha_ = self.alphas_[np.argmin(self.mse_path_.mean(axis=1))]
        best = Lasso(
            self.alpha_,
            fit_intercept=self.fit_intercept,
            max_iter=self.max_iter,
            tol=self.tol,
            workers=self.workers,
            verbose=self.verbose,
        )
        best.fit(X, y, sample_weight)
        for name in ("coef_", "intercept_", "n_iter_", "dual_gap_", "report_"):
            setattr(self, name, getattr(best, name))
        return self

    def _penalties(self, X: Any, y: Any, weights: Any) -> Any:
        """Returns the penalties in descending order."""
        if not isinstance(self.alphas, Integral):
            alphas = np.sort(np.asarray(self.alphas, dtype=np.float64))[::-1]
            require("alphas", self.alphas, alphas.size > 0 and bool(np.all(alphas > 0)), "above 0")
            return alphas
        count = int(self.alphas)
        require("alphas", count, count >= 1, "at least 1")
        if weights is not None:
            scaled = weights * (len(weights) / weights.sum())
            residual = scaled * (y - np.average(y, weights=weights)) if self.fit_intercept else scaled * y
        else:
            residual = y - y.mean() if self.fit_intercept else y
        largest = float(np.max(np.abs(safe_sparse_dot(X.T, residual, dense_output=True)))) / X.shape[0]
        largest = max(largest, float(np.finfo(np.float64).resolution))
        return np.geomspace(largest, largest * self.eps, count) if count > 1 else np.array([largest])

    def _path(self, X: Any, y: Any, sample_weight: Any, epochs: int) -> tuple[Any, Any]:
        """Returns the coefficients and intercepts for every penalty."""
        intercept, x_mean, y_mean = self.fit_intercept, None, 0.0
        if sample_weight is not None:
            X, y, x_mean, y_mean = weighted(X, y, sample_weight, intercept)
            intercept = False
        fitted = self._run(
            _hemiola.sparse_path,
            columns_of(X),
            np.ascontiguousarray(y),
            logistic=False,
            strengths=[float(alpha) for alpha in self.alphas_],
            l1_ratio=1.0,
            intercept=intercept,
            tolerance=float(np.clip(self.tol, *TOLERANCES)),
            epochs=epochs,
        )
        weights = fitted["weights"]
        return weights, fitted["intercepts"] if x_mean is None else y_mean - weights @ x_mean
