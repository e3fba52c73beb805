"""k-means."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from . import _hemiola
from ._base import FLOATS, NativeEstimator, require, require_epochs
from ._data import rows_of
from ._inputs import validate_data

#: Rows whose distances are computed together.
ROWS = 4096


class KMeans(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, NativeEstimator):
    """Clusters of rows around their means, by Lloyd's algorithm or mini-batches.

    Parameters, attributes and methods are those of scikit-learn's ``KMeans``. Features are read in
    single precision, sums are taken in double precision.

    Parameters
    ----------
    n_clusters : int, default=8
    init : {"k-means++", "random"} or array-like of shape (n_clusters, n_features), default="k-means++"
        First centers; k-means++ in parallel (k-means||).
    n_init : "auto" or int, default="auto"
        Number of runs, of which the best is kept; ``"auto"`` is 10 for random centers and 1 otherwise.
    max_iter : int, default=300
    tol : float, default=1e-4
        Relative movement of the centers at which a run ends.
    batch_size : int, default=0
        Rows per step of mini-batch k-means; 0 is Lloyd's algorithm.
    random_state : int, RandomState instance or None, default=None
    workers : int, default=None
        Threads; -1 uses all cores. The result does not depend on it.
    verbose : bool, default=False
        Shows a progress bar.

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (n_clusters, n_features)
    labels_ : ndarray of shape (n_samples,)
    inertia_ : float
    n_iter_ : int
    report_ : Report
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        init: Any = "k-means++",
        n_init: Any = "auto",
        max_iter: int = 300,
        tol: float = 1e-4,
        batch_size: int = 0,
        random_state: Any = None,
        workers: int | None = None,
        verbose: int | bool = False,
    ) -> None:
        self.n_clusters = n_clusters
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.batch_size = batch_size
        self.random_state = random_state
        self.workers = workers
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> KMeans:
        """Fits the clusters to the rows of `X`."""
        X = validate_data(self, X, accept_sparse="csr", dtype=list(FLOATS))
        self._fit(X)
        return self

    def fit_predict(self, X: Any, y: Any = None) -> Any:
        """Fits the clusters and returns the cluster of each row."""
        return self.fit(X).labels_

    def _fit(self, X: Any) -> None:
        epochs = require_epochs(self.max_iter)
        clusters = self.n_clusters
        require("n_clusters", clusters, isinstance(clusters, Integral) and clusters >= 1, "an integer of at least 1")
        require("tol", self.tol, self.tol >= 0, "at least 0")
        if X.shape[0] < clusters:
            raise ValueError(f"n_samples={X.shape[0]} should be >= n_clusters={clusters}.")
        generator = check_random_state(self.random_state)
        lines = rows_of(X)
        best = None
        for _ in range(self._runs()):
            seed = int(generator.randint(np.iinfo(np.int32).max))
            fitted = self._run(
                _hemiola.fit_kmeans,
                lines,
                clusters=int(clusters),
                centers=self._first_centers(X, generator),
                batch_size=int(self.batch_size),
                tolerance=float(min(self.tol, 1.0)),
                epochs=epochs,
                seed=seed,
            )
            labels, distances = self._nearest(X, fitted["centers"].astype(X.dtype))
            inertia = float(np.sum(distances.astype(np.float64) ** 2))
            if best is None or inertia < best[0]:
                best = (inertia, labels, fitted)
        assert best is not None, "there is at least one run"
        self.inertia_, self.labels_, fitted = best
        self.cluster_centers_ = fitted["centers"].astype(X.dtype)
        self.report_ = fitted["report"]
        self.n_iter_ = self.report_.epochs
        self._n_features_out = len(self.cluster_centers_)

    def _runs(self) -> int:
        is_random = isinstance(self.init, str) and self.init == "random"
        if isinstance(self.n_init, str):
            require("n_init", self.n_init, self.n_init == "auto", "'auto' or an integer of at least 1")
            return 10 if is_random else 1
        require("n_init", self.n_init, self.n_init >= 1, "'auto' or an integer of at least 1")
        return int(self.n_init) if isinstance(self.init, str) else 1

    def _first_centers(self, X: Any, generator: Any) -> Any:
        """Returns the first centers, or None for those of the native part."""
        if isinstance(self.init, str):
            require("init", self.init, self.init in ("k-means++", "random"), "k-means++, random or an array")
            if self.init == "k-means++":
                return None
            rows = X[generator.choice(X.shape[0], self.n_clusters, replace=False)]
            centers = rows.toarray() if sparse.issparse(rows) else rows
        else:
            centers = np.asarray(self.init)
            expected = (self.n_clusters, X.shape[1])
            require("init", self.init, centers.shape == expected, f"an array of shape {expected}")
        return np.ascontiguousarray(centers, dtype=np.float64).ravel()

    @staticmethod
    def _nearest(X: Any, centers: Any) -> tuple[Any, Any]:
        """Returns the nearest center of each row, and the distance to it."""
        labels, distances = np.zeros(X.shape[0], dtype=np.int32), np.zeros(X.shape[0])
        for start in range(0, X.shape[0], ROWS):
            part = slice(start, start + ROWS)
            of_centers = euclidean_distances(X[part], centers)
            labels[part] = of_centers.argmin(axis=1)
            distances[part] = of_centers.min(axis=1)
        return labels, distances

    def predict(self, X: Any) -> Any:
        """Returns the nearest cluster of each row of `X`."""
        check_is_fitted(self)
        return self._nearest(self._features(X), self.cluster_centers_)[0]

    def transform(self, X: Any) -> Any:
        """Returns the distance of each row of `X` to each center."""
        check_is_fitted(self)
        return euclidean_distances(self._features(X), self.cluster_centers_)

    def score(self, X: Any, y: Any = None) -> float:
        """Returns the negative sum of squared distances to the nearest centers."""
        check_is_fitted(self)
        distances = self._nearest(self._features(X), self.cluster_centers_)[1]
        return -float(np.sum(distances**2))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
