"""Factorization machine."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from . import _hemiola
from ._base import FLOATS, NativeEstimator, require, require_epochs
from ._data import rows_of
from ._inputs import validate_data


def _classifies(machine: Any) -> bool:
    """Returns whether the machine is a classifier, which has scores of classes."""
    return bool(machine.loss == "logistic")


class FactorizationMachine(NativeEstimator):
    """Linear model of features and of all their pairs, whose weights are products of factors.

    A regressor with ``loss="squared"``, a classifier of two classes with ``loss="logistic"``.
    Rendle 2010. Features and weights are in single precision.

    Parameters
    ----------
    n_factors : int, default=16
        Factors per feature; 0 leaves the pairs out.
    loss : {"squared", "logistic"}, default="squared"
    l2_linear : float, default=1e-5
        L2 penalty of the weights of single features.
    l2_factors : float, default=1e-4
        L2 penalty of the factors.
    learning_rate : float, default=0.1
        First learning rate of AdaGrad.
    batch_size : int, default=64
    max_iter : int, default=40
        Number of epochs.
    random_state : int, RandomState instance or None, default=None
    workers : int, default=None
        Threads; -1 uses all cores. The result does not depend on it.
    verbose : bool, default=False
        Shows a progress bar.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    factors_ : ndarray of shape (n_features, n_factors)
    intercept_ : float
    classes_ : ndarray of shape (2,)
        With ``loss="logistic"``.
    n_iter_ : int
    report_ : Report
    """

    def __init__(
        self,
        n_factors: int = 16,
        *,
        loss: str = "squared",
        l2_linear: float = 1e-5,
        l2_factors: float = 1e-4,
        learning_rate: float = 0.1,
        batch_size: int = 64,
        max_iter: int = 40,
        random_state: Any = None,
        workers: int | None = None,
        verbose: int | bool = False,
    ) -> None:
        self.n_factors = n_factors
        self.loss = loss
        self.l2_linear = l2_linear
        self.l2_factors = l2_factors
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.random_state = random_state
        self.workers = workers
        self.verbose = verbose

    def fit(self, X: Any, y: Any) -> FactorizationMachine:
        """Fits the model to the rows of `X` and their targets or classes `y`."""
        require("loss", self.loss, self.loss in ("squared", "logistic"), "squared or logistic")
        epochs = require_epochs(self.max_iter)
        logistic = self.loss == "logistic"
        X, y = validate_data(
            self, X, y, accept_sparse="csr", dtype=list(FLOATS), y_numeric=not logistic, ensure_min_samples=2
        )
        if logistic:
            check_classification_targets(y)
            self.classes_, numbers = np.unique(y, return_inverse=True)
            if len(self.classes_) != 2:
                raise ValueError(
                    "Only binary classification is supported. The data contains"
                    f" {len(self.classes_)} class{'es' if len(self.classes_) != 1 else ''}: {self.classes_}."
                )
            y = numbers
        fitted = self._run(
            _hemiola.fit_machine,
            rows_of(X),
            np.ascontiguousarray(y, dtype=np.float64),
            logistic=logistic,
            rank=int(self.n_factors),
            l2_linear=float(self.l2_linear),
            l2_factors=float(self.l2_factors),
            learning_rate=float(self.learning_rate),
            batch_size=int(self.batch_size),
            epochs=epochs,
            seed=self._seed(self.random_state),
        )
        # Scores are in units of the deviation of the targets.
        unit = fitted["deviation"]
        self.coef_ = fitted["weights"].astype(np.float64) * unit
        self.factors_ = fitted["factors"].astype(np.float64) * np.sqrt(unit)
        self.intercept_ = fitted["mean"] + unit * fitted["intercept"]
        self.report_ = fitted["report"]
        self.n_iter_ = self.report_.epochs
        return self

    def _scores(self, X: Any) -> Any:
        check_is_fitted(self)
        X = self._features(X)
        squares = X.multiply(X) if hasattr(X, "multiply") else X * X
        pairs = safe_sparse_dot(X, self.factors_, dense_output=True) ** 2
        pairs -= safe_sparse_dot(squares, self.factors_**2, dense_output=True)
        return safe_sparse_dot(X, self.coef_, dense_output=True) + self.intercept_ + 0.5 * pairs.sum(axis=1)

    def predict(self, X: Any) -> Any:
        """Predicts the target, or the class, of each row of `X`."""
        scores = self._scores(X)
        return self.classes_[(scores > 0).astype(int)] if self.loss == "logistic" else scores

    @available_if(_classifies)
    def decision_function(self, X: Any) -> Any:
        """Returns the log-odds of the second class."""
        return self._scores(X)

    @available_if(_classifies)
    def predict_proba(self, X: Any) -> Any:
        """Returns the probability of each class."""
        scores = self.decision_function(X)
        return np.column_stack([expit(-scores), expit(scores)])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Returns the accuracy of a classifier, or the R² of a regressor."""
        from sklearn.metrics import accuracy_score, r2_score

        metric = accuracy_score if self.loss == "logistic" else r2_score
        return float(metric(y, self.predict(X), sample_weight=sample_weight))

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, RegressorTags

        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        if self.loss == "logistic":
            tags.estimator_type = "classifier"
            tags.classifier_tags = ClassifierTags(multi_class=False)
        else:
            tags.estimator_type = "regressor"
            tags.regressor_tags = RegressorTags(poor_score=True)
        return tags
