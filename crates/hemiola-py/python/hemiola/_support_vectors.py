"""Linear support vector machine."""

from __future__ import annotations

from typing import Any


from . import _hemiola
from ._base import FLOATS, require, require_epochs
from ._classifier import LinearClassifier
from ._data import rows_of
from ._inputs import validate_data


class LinearSVC(LinearClassifier):
    """Linear support vector machine; more than two classes one against the rest.

    Minimizes ``½ |w|² + C Σ loss``, as scikit-learn's ``LinearSVC`` and liblinear do, by dual
    coordinate ascent.

    Parameters
    ----------
    loss : {"squared_hinge", "hinge"}, default="squared_hinge"
    C : float, default=1.0
        Inverse strength of the penalty.
    tol : float, default=1e-4
        Relative duality gap at which the fit ends.
    fit_intercept : bool, default=True
    intercept_scaling : float, default=1.0
        Value of the constant feature whose weight, which is penalized, is the intercept.
    class_weight : dict, "balanced" or None, default=None
        Weights of classes, which multiply those of their rows.
    max_iter : int, default=1000
        Maximum number of epochs, of eight passes over the data each.
    random_state : int, RandomState instance or None, default=None
        Order of the passes.
    workers : int, default=None
        Threads; -1 uses all cores.
    verbose : bool, default=False
        Shows a progress bar.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
    intercept_ : ndarray of shape (1,) or (n_classes,)
    n_iter_ : int
    report_ : Report
    """

    def __init__(
        self,
        *,
        loss: str = "squared_hinge",
        C: float = 1.0,
        tol: float = 1e-4,
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        class_weight: Any = None,
        max_iter: int = 1000,
        random_state: Any = None,
        workers: int | None = None,
        verbose: int | bool = False,
    ) -> None:
        self.loss = loss
        self.C = C
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.class_weight = class_weight
        self.max_iter = max_iter
        self.random_state = random_state
        self.workers = workers
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LinearSVC:
        """Fits the model to the rows of `X` and their classes `y`."""
        require("C", self.C, self.C > 0, "above 0")
        require("tol", self.tol, self.tol >= 0, "at least 0")
        require("loss", self.loss, self.loss in ("hinge", "squared_hinge"), "hinge or squared_hinge")
        epochs = require_epochs(self.max_iter)
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=list(FLOATS))
        labels = self._encode(y)
        weights = self._weights(sample_weight, X, y)
        fitted = self._run(
            _hemiola.fit_linear,
            rows_of(X),
            labels,
            weights=weights,
            squared=self.loss == "squared_hinge",
            c=float(self.C),
            bias=float(self.intercept_scaling) if self.fit_intercept else 0.0,
            tolerance=float(min(self.tol, 1.0)),
            epochs=epochs,
            seed=self._seed(self.random_state),
        )
        self.coef_, self.intercept_ = fitted["weights"], fitted["intercepts"]
        self.report_ = fitted["report"]
        self.n_iter_ = self.report_.epochs
        return self
