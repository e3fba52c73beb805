"""Validation of data, with Arrow tables besides what scikit-learn knows.

A data frame or query result that offers ``__arrow_c_stream__`` is converted without the package that
made it. A pandas data frame stays with scikit-learn, which also checks its dtypes.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.utils import validation

from . import _hemiola


def is_arrow(X: Any) -> bool:
    """Returns whether `X` is an Arrow table of another package."""
    return hasattr(X, "__arrow_c_stream__") and not hasattr(X, "iloc")


def matrix_of(X: Any, order: str | None = None) -> tuple[Any, list[str]]:
    """Returns the columns of an Arrow table as a matrix, and their names. Missing values become NaN."""
    by_column = order == "F"
    names, kind, rows, columns, cells = _hemiola.arrow_matrix(X.__arrow_c_stream__(), by_column)
    matrix = np.frombuffer(cells, dtype=kind)
    return (matrix.reshape(columns, rows).T if by_column else matrix.reshape(rows, columns)), names


def validate_data(estimator: Any, X: Any, y: Any = "no_validation", *, reset: bool = True, **options: Any) -> Any:
    """Validates data as ``sklearn.utils.validation.validate_data`` does, Arrow tables included."""
    if is_arrow(y) or (hasattr(y, "__arrow_c_array__") and not isinstance(y, np.ndarray)):
        y = np.asarray(y)
    if not is_arrow(X):
        return validation.validate_data(estimator, X, y, reset=reset, **options)
    X, names = matrix_of(X, options.get("order"))
    if not reset:
        _check_names(estimator, names)
    with warnings.catch_warnings():
        # The names were compared above.
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        found = validation.validate_data(estimator, X, y, reset=reset, **options)
    if reset:
        estimator.feature_names_in_ = np.asarray(names, dtype=object)
    return found


def _check_names(estimator: Any, names: list[str]) -> None:
    fitted = getattr(estimator, "feature_names_in_", None)
    if fitted is None or list(fitted) == names:
        return
    unseen = sorted(set(names) - set(fitted))
    missing = sorted(set(fitted) - set(names))
    problem = "The feature names should match those that were passed during fit."
    if unseen:
        problem += f" Feature names unseen at fit time: {', '.join(unseen[:5])}."
    if missing:
        problem += f" Feature names seen at fit time, yet now missing: {', '.join(missing[:5])}."
    if not unseen and not missing:
        problem += " Feature names must be in the same order as they were in fit."
    raise ValueError(problem)
