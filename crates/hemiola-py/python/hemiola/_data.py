"""Feature matrices on their way to the native part: rows or columns, without a copy where possible."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse


@dataclass(frozen=True)
class Lines:
    """Rows or columns of a matrix: a dense array, or a compressed one with positions and starts."""

    values: Any
    positions: Any
    starts: Any
    count: int
    width: int


def rows_of(X: Any) -> Lines:
    """Returns the rows of a NumPy array or a SciPy matrix. A C-contiguous array or CSR is not copied."""
    if sparse.issparse(X):
        X = _canonical(X.tocsr())
        return Lines(X.data, X.indices, X.indptr, X.shape[0], X.shape[1])
    X = np.ascontiguousarray(X)
    return Lines(X.ravel(order="K"), None, None, X.shape[0], X.shape[1])


def columns_of(X: Any) -> Lines:
    """Returns the columns of a NumPy array or a SciPy matrix. A Fortran-contiguous array or CSC is not copied."""
    if sparse.issparse(X):
        X = _canonical(X.tocsc())
        return Lines(X.data, X.indices, X.indptr, X.shape[1], X.shape[0])
    X = np.asfortranarray(X)
    return Lines(X.ravel(order="K"), None, None, X.shape[1], X.shape[0])


def _canonical(X: Any) -> Any:
    """Returns a compressed matrix with sorted positions and without duplicates; a copy if it is not so."""
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def arrays_of(fitted: dict[str, Any]) -> dict[str, Any]:
    """Returns the results of the native part with NumPy arrays in place of bytes."""
    arrays = dict(fitted)
    for name, value in fitted.items():
        if isinstance(value, tuple):
            data, kind, shape = value
            arrays[name] = np.frombuffer(data, dtype=kind).reshape(shape)
    return arrays


def weighted(X: Any, y: Any, weights: Any, fit_intercept: bool) -> tuple[Any, Any, Any, Any]:
    """Returns data whose unweighted least squares are the weighted ones of `X` and `y`.

    Rows are centred by weighted means, if there is an intercept, and scaled by the roots of the
    weights, whose mean becomes 1. The means come third and fourth. A sparse matrix that must be
    centred becomes dense.
    """
    weights = weights * (len(weights) / weights.sum())
    roots = np.sqrt(weights)
    if fit_intercept:
        if sparse.issparse(X):
            X = X.toarray()
        x_mean = np.average(X, axis=0, weights=weights)
        y_mean = np.average(y, axis=0, weights=weights)
        return (X - x_mean) * roots[:, None], (y - y_mean) * roots, x_mean, y_mean
    if sparse.issparse(X):
        scaled = sparse.diags_array(roots) @ X
    else:
        scaled = X * roots[:, None]
    return scaled, y * roots, np.zeros(X.shape[1]), 0.0
