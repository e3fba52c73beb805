"""Ridge regression."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import MultiOutputMixin
from sklearn.utils.validation import _check_sample_weight

from . import _hemiola
from ._base import FLOATS, require, require_epochs
from ._data import rows_of
from ._inputs import validate_data
from ._sparse import LinearRegressor


class Ridge(MultiOutputMixin, LinearRegressor):
    """Linear regression with an L2 penalty.

    Minimizes ``|y - Xw - b|² + alpha |w|²``, as scikit-learn's ``Ridge`` does. Features are read in
    single precision, sums are taken in double precision.

    Parameters
    ----------
    alpha : float or array-like of shape (n_targets,), default=1.0
        Strength of the penalty; 0 is ordinary least squares.
    fit_intercept : bool, default=True
        Adds an intercept, which is not penalized.
    max_iter : int, default=None
        Maximum number of iterations for more than 1024 features; ``None`` is 1000.
    tol : float, default=1e-4
        Accuracy for more than 1024 features; fewer are solved exactly.
    workers, verbose
        As for :class:`hemiola.ElasticNet`.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,) or (n_targets, n_features)
    intercept_ : float or ndarray of shape (n_targets,)
    n_iter_ : int
    report_ : Report
    """

    def __init__(
        self,
        alpha: Any = 1.0,
        *,
        fit_intercept: bool = True,
        max_iter: int | None = None,
        tol: float = 1e-4,
        workers: int | None = None,
        verbose: int | bool = False,
    ) -> None:
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol
        self.workers = workers
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Ridge:
        """Fits the model to the rows of `X` and their targets `y`, of one or several outputs."""
        require("tol", self.tol, self.tol >= 0, "at least 0")
        epochs = 1000 if self.max_iter is None else require_epochs(self.max_iter)
        X, y = validate_data(
            self, X, y, accept_sparse="csr", dtype=list(FLOATS), multi_output=True, y_numeric=True
        )
        y = np.asarray(y, dtype=np.float64)
        targets = y if y.ndim == 2 else y[:, None]
        alphas = np.broadcast_to(np.asarray(self.alpha, dtype=np.float64).ravel(), (targets.shape[1],))
        require("alpha", self.alpha, bool(np.all(alphas >= 0)), "at least 0")
        weights = None
        if sample_weight is not None:
            weights = _check_sample_weight(sample_weight, X, dtype=np.float32, ensure_non_negative=True)
        lines = rows_of(X)
        fits = [
            self._run(
                _hemiola.fit_ridge,
                lines,
                np.ascontiguousarray(targets[:, target]),
                weights=weights,
                alpha=float(alphas[target]),
                intercept=self.fit_intercept,
                tolerance=float(np.clip(self.tol * 1e-4, 1e-12, 1.0)),
                epochs=epochs,
            )
            for target in range(targets.shape[1])
        ]
        coefficients = np.array([fit["weights"] for fit in fits])
        intercepts = np.array([fit["intercept"] for fit in fits])
        self.report_ = fits[-1]["report"]
        self.n_iter_ = max(fit["report"].epochs for fit in fits)
        if y.ndim == 1:
            self.coef_ = coefficients[0]
            self.intercept_ = float(intercepts[0]) if self.fit_intercept else 0.0
        else:
            self.coef_ = coefficients
            self.intercept_ = intercepts if self.fit_intercept else 0.0
        return self
