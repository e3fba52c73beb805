"""Parts shared by all estimators: execution, random seeds, reports."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from ._data import arrays_of
from ._inputs import validate_data
from ._progress import ProgressBar
from ._report import Report

#: Precisions that the native part reads without a conversion.
FLOATS = (np.float64, np.float32)


@dataclass(frozen=True)
class Job:
    """Execution of a fit: worker threads, and a function that is called after each epoch."""

    workers: int
    progress: Callable[[int, float], object] | None


class NativeEstimator(BaseEstimator):
    """Estimator that the native part fits.

    Subclasses have the parameters ``workers`` (threads; ``None`` is 1, -1 all cores) and ``verbose``
    (a progress bar).
    """

    workers: int | None
    verbose: int | bool
    report_: Report

    def _run(self, function: Callable[..., dict[str, Any]], *data: Any, epochs: int | None = None, **settings: Any) -> dict[str, Any]:
        """Runs a function of the native part; returns its arrays, with the report as a `Report`."""
        if epochs is not None:
            settings["epochs"] = epochs
        workers = worker_count(self.workers)
        if self.verbose:
            with ProgressBar(type(self).__name__, epochs or 1) as bar:
                fitted = function(*data, Job(workers, bar), **settings)
        else:
            fitted = function(*data, Job(workers, None), **settings)
        arrays = arrays_of(fitted)
        if "report" in arrays:
            arrays["report"] = Report.of(arrays["report"])
        return arrays

    def _seed(self, random_state: Any) -> int:
        return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))

    def _features(self, X: Any, **options: Any) -> Any:
        """Validates features for a prediction."""
        return validate_data(self, X, accept_sparse=("csr", "csc"), dtype=list(FLOATS), reset=False, **options)


def worker_count(workers: Any) -> int:
    """Returns the number of threads that a parameter `workers` stands for."""
    if workers is None:
        return 1
    if isinstance(workers, (int, np.integer)) and workers == -1:
        return len(os.sched_getaffinity(0))
    if isinstance(workers, bool) or not isinstance(workers, (int, np.integer)) or not 1 <= workers <= 1024:
        raise ValueError(f"workers == {workers!r}, must be -1, or an integer from 1 to 1024.")
    return int(workers)


def require(name: str, value: Any, fits: bool, expected: str) -> None:
    """Raises the error of scikit-learn for a parameter out of range."""
    if not fits:
        raise ValueError(f"{name} == {value!r}, must be {expected}.")


def require_epochs(max_iter: Any) -> int:
    """Returns the maximum number of epochs."""
    is_integer = isinstance(max_iter, (int, np.integer)) and not isinstance(max_iter, bool)
    require("max_iter", max_iter, is_integer and 1 <= max_iter < 2**32, "an integer of at least 1")
    return int(max_iter)
