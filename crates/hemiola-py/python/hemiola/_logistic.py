"""Logistic regression with L2, L1 or elastic-net penalties, for two classes or many."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit, softmax
from sklearn.utils.validation import check_is_fitted

from . import _hemiola
from ._base import FLOATS, require, require_epochs
from ._classifier import LinearClassifier
from ._data import columns_of, rows_of
from ._inputs import validate_data
from ._sparse import TOLERANCES

#: Inverse strength of "no penalty".
NO_PENALTY = 1e12


class LogisticRegression(LinearClassifier):
    """Logistic regression.

    Minimizes the penalty plus ``C`` times the log loss, as scikit-learn's ``LogisticRegression``
    does. Intercepts are not penalized. With an L2 penalty, more than two classes are fitted together
    (multinomial); with an L1 part, one class against the rest at a time.

    Parameters
    ----------
    penalty : {"l2", "l1", "elasticnet", None}, default="l2"
    C : float, default=1.0
        Inverse strength of the penalty.
    l1_ratio : float, default=None
        Fraction of the L1 penalty, for ``penalty="elasticnet"``: from 0.001 to 1.
    tol : float, default=1e-4
        Accuracy at which the fit ends: the norm of the gradient is that fraction of a hundredth of
        the first one (L2), or the relative duality gap is at most that (L1 and elastic net).
    fit_intercept : bool, default=True
    class_weight : dict, "balanced" or None, default=None
        Weights of classes, which multiply those of their rows.
    max_iter : int, default=100
        Maximum number of Newton steps (L2), or of rounds of the solver.
    warm_start : bool, default=False
        Starts from the coefficients of the previous fit, with an L1 part.
    workers : int, default=None
        Threads; -1 uses all cores.
    verbose : bool, default=False
        Shows a progress bar.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
    intercept_ : ndarray of shape (1,) or (n_classes,)
    n_iter_ : ndarray of shape (1,) or (n_classes,)
    report_ : Report
    """

    def __init__(
        self,
        penalty: str | None = "l2",
        *,
        C: float = 1.0,
        l1_ratio: float | None = None,
        tol: float = 1e-4,
        fit_intercept: bool = True,
        class_weight: Any = None,
        max_iter: int = 100,
        warm_start: bool = False,
        workers: int | None = None,
        verbose: int | bool = False,
    ) -> None:
        self.penalty = penalty
        self.C = C
        self.l1_ratio = l1_ratio
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.workers = workers
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LogisticRegression:
        """Fits the model to the rows of `X` and their classes `y`."""
        require("C", self.C, self.C > 0, "above 0")
        require("tol", self.tol, self.tol > 0, "above 0")
        epochs = require_epochs(self.max_iter)
        ratio = self._l1_ratio()
        previous = getattr(self, "coef_", None) if self.warm_start else None
        X, y = validate_data(self, X, y, accept_sparse=("csr", "csc"), dtype=list(FLOATS))
        labels = self._encode(y)
        weights = self._weights(sample_weight, X, y)
        if ratio > 0 and weights is not None:
            raise ValueError("sample_weight and class_weight need the l2 penalty, or none")
        if ratio == 0:
            self._fit_softmax(X, labels, weights, epochs)
        else:
            self._fit_sparse(X, labels, epochs, ratio, previous)
        return self

    def _l1_ratio(self) -> float:
        """Returns the fraction of the L1 penalty."""
        require("penalty", self.penalty, self.penalty in ("l2", "l1", "elasticnet", None), "l2, l1, elasticnet or None")
        if self.penalty != "elasticnet":
            return 1.0 if self.penalty == "l1" else 0.0
        ratio = self.l1_ratio
        require("l1_ratio", ratio, ratio is not None and 0 <= ratio <= 1, "from 0 to 1 with the elasticnet penalty")
        return float(ratio or 0.0)

    def _fit_softmax(self, X: Any, labels: Any, weights: Any, epochs: int) -> None:
        binary = len(self.classes_) == 2
        # Both classes of two share the penalty of softmax regression.
        c = NO_PENALTY if self.penalty is None else float(self.C) / (2 if binary else 1)
        fitted = self._run(
            _hemiola.fit_softmax,
            rows_of(X),
            labels,
            weights=weights,
            c=c,
            intercept=self.fit_intercept,
            tolerance=float(np.clip(self.tol * 1e-2, 1e-12, 1.0)),
            epochs=epochs,
        )
        coefficients, intercepts = fitted["weights"], fitted["intercepts"]
        if binary:
            coefficients, intercepts = coefficients[1:] - coefficients[:1], intercepts[1:] - intercepts[:1]
        else:
            # Equal changes of all classes change nothing; these are the smallest coefficients.
            coefficients, intercepts = coefficients - coefficients.mean(axis=0), intercepts - intercepts.mean()
        self.coef_, self.intercept_ = coefficients, intercepts
        self.report_ = fitted["report"]
        self.n_iter_ = np.array([self.report_.epochs], dtype=np.int32)

    def _fit_sparse(self, X: Any, labels: Any, epochs: int, ratio: float, previous: Any) -> None:
        problems = 1 if len(self.classes_) == 2 else len(self.classes_)
        columns = columns_of(X)
        weights, intercepts, rounds = [], [], []
        if previous is not None and np.shape(previous) != (problems, X.shape[1]):
            previous = None
        for problem in range(problems):
            positive = 1 if problems == 1 else problem
            fitted = self._run(
                _hemiola.fit_sparse,
                columns,
                np.ascontiguousarray(labels == positive, dtype=np.float64),
                logistic=True,
                strength=1.0 / (float(self.C) * X.shape[0]),
                l1_ratio=ratio,
                intercept=self.fit_intercept,
                tolerance=float(np.clip(self.tol, *TOLERANCES)),
                epochs=epochs,
                start=None if previous is None else np.ascontiguousarray(previous[problem], dtype=np.float64),
            )
            weights.append(fitted["weights"])
            intercepts.append(fitted["intercept"])
            rounds.append(fitted["report"].epochs)
            self.report_ = fitted["report"]
        self.coef_, self.intercept_ = np.array(weights), np.array(intercepts)
        self.n_iter_ = np.array(rounds, dtype=np.int32)

    def predict_proba(self, X: Any) -> Any:
        """Returns the probability of each class for each row of `X`."""
        check_is_fitted(self)
        scores = self.decision_function(X)
        if scores.ndim == 1:
            return np.column_stack([expit(-scores), expit(scores)])
        if self._l1_ratio() == 0:
            return softmax(scores, axis=1)
        shares = expit(scores)
        return shares / shares.sum(axis=1, keepdims=True)

    def predict_log_proba(self, X: Any) -> Any:
        """Returns the logarithms of the probabilities."""
        return np.log(self.predict_proba(X))
