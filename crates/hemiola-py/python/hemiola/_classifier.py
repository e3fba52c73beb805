"""Parts shared by classifiers: classes, class weights, predictions from scores."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from ._base import NativeEstimator


class LinearClassifier(ClassifierMixin, NativeEstimator):
    """Classifier whose scores are linear in the features."""

    classes_: Any
    coef_: Any
    intercept_: Any

    def _encode(self, y: Any) -> Any:
        """Stores the classes of `y`; returns the number of the class of each row."""
        check_classification_targets(y)
        self.classes_, numbers = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                "This solver needs samples of at least 2 classes in the data, but the data contains only one"
                f" class: {self.classes_[0]!r}"
            )
        return np.ascontiguousarray(numbers, dtype=np.float64)

    def _weights(self, sample_weight: Any, X: Any, y: Any) -> Any:
        """Returns the weight of each row, that of its class included; None if all are 1."""
        class_weight = getattr(self, "class_weight", None)
        if sample_weight is None and class_weight is None:
            return None
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        numbers = np.searchsorted(self.classes_, y)
        if isinstance(class_weight, str) and class_weight == "balanced":
            # All classes have the same total weight.
            totals = np.bincount(numbers, weights=weights)
            weights = weights * (totals.sum() / (len(totals) * np.where(totals > 0, totals, 1.0)))[numbers]
        elif class_weight is not None:
            weights = weights * compute_class_weight(class_weight, classes=self.classes_, y=y)[numbers]
        return np.ascontiguousarray(weights, dtype=np.float32)

    def decision_function(self, X: Any) -> Any:
        """Returns the score of the second class of two, or of each class of more."""
        check_is_fitted(self)
        scores = safe_sparse_dot(self._features(X), self.coef_.T, dense_output=True) + self.intercept_
        return scores.ravel() if scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> Any:
        """Predicts the class of each row of `X`."""
        scores = self.decision_function(X)
        numbers = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[numbers]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
