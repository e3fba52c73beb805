"""Topic models (latent Dirichlet allocation)."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, check_non_negative

from . import _hemiola
from ._base import FLOATS, NativeEstimator, require, require_epochs
from ._data import rows_of
from ._inputs import validate_data


class LatentDirichletAllocation(ClassNamePrefixFeaturesOutMixin, TransformerMixin, NativeEstimator):
    """Topic model of documents as word counts, fitted by collapsed Gibbs sampling.

    Parameters, attributes and methods are those of scikit-learn's ``LatentDirichletAllocation``,
    which optimizes a variational bound; sampling finds topics of better coherence and needs more
    iterations. Counts are whole numbers; fractions are rounded.

    Parameters
    ----------
    n_components : int, default=10
        Number of topics.
    doc_topic_prior : float, default=None
        Dirichlet prior of each topic in a document; ``None`` learns one prior per topic.
    topic_word_prior : float, default=None
        Dirichlet prior of each word in a topic; ``None`` is 0.01.
    max_iter : int, default=100
        Number of sweeps over all tokens.
    infer_iter : int, default=50
        Number of sweeps over a document in :meth:`transform`, of which the first two fifths are
        discarded.
    random_state : int, RandomState instance or None, default=None
    workers : int, default=None
        Threads; -1 uses all cores.
    verbose : bool, default=False
        Shows a progress bar.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Number of tokens of each word in each topic, plus the prior.
    doc_topic_prior_ : ndarray of shape (n_components,)
    topic_word_prior_ : float
    n_iter_ : int
    report_ : Report
    """

    def __init__(
        self,
        n_components: int = 10,
        *,
        doc_topic_prior: float | None = None,
        topic_word_prior: float | None = None,
        max_iter: int = 100,
        infer_iter: int = 50,
        random_state: Any = None,
        workers: int | None = None,
        verbose: int | bool = False,
    ) -> None:
        self.n_components = n_components
        self.doc_topic_prior = doc_topic_prior
        self.topic_word_prior = topic_word_prior
        self.max_iter = max_iter
        self.infer_iter = infer_iter
        self.random_state = random_state
        self.workers = workers
        self.verbose = verbose

    def _counts(self, X: Any, reset: bool) -> Any:
        X = validate_data(self, X, accept_sparse="csr", dtype=list(FLOATS), reset=reset)
        check_non_negative(X, f"{type(self).__name__}.fit")
        if sparse.issparse(X):
            return type(X)((np.rint(X.data), X.indices, X.indptr), shape=X.shape)
        return np.rint(X)

    def fit(self, X: Any, y: Any = None) -> LatentDirichletAllocation:
        """Fits the topics to rows of word counts."""
        count = self.n_components
        require("n_components", count, isinstance(count, Integral) and count >= 1, "an integer of at least 1")
        epochs = require_epochs(self.max_iter)
        counts = self._counts(X, reset=True)
        self._seed_ = self._seed(self.random_state)
        fitted = self._run(
            _hemiola.fit_topics,
            rows_of(counts),
            topics=int(count),
            alpha=0.1 if self.doc_topic_prior is None else float(self.doc_topic_prior),
            beta=0.01 if self.topic_word_prior is None else float(self.topic_word_prior),
            learn_alpha=self.doc_topic_prior is None,
            sweeps=epochs,
            seed=self._seed_,
        )
        shape = (counts.shape[1], int(count))
        of_words = sparse.csr_array((fitted["counts"], (fitted["words"], fitted["topics"])), shape=shape)
        of_words.sum_duplicates()
        self._word_topics = of_words
        self._documents = counts.shape[0]
        self.doc_topic_prior_ = fitted["alpha"]
        self.topic_word_prior_ = fitted["beta"]
        self.components_ = of_words.T.toarray() + self.topic_word_prior_
        self.report_ = fitted["report"]
        self.n_iter_ = self.report_.epochs
        return self

    def transform(self, X: Any) -> Any:
        """Returns the shares of the topics in each row of word counts."""
        check_is_fitted(self)
        counts = self._counts(X, reset=False)
        require("infer_iter", self.infer_iter, self.infer_iter >= 2, "at least 2")
        fitted = self._run(
            _hemiola.infer_topics,
            rows_of(counts),
            starts=self._word_topics.indptr.astype(np.int64),
            topics=self._word_topics.indices.astype(np.uint32),
            counts=self._word_topics.data.astype(np.uint32),
            alpha=[float(prior) for prior in self.doc_topic_prior_],
            beta=float(self.topic_word_prior_),
            documents=self._documents,
            sweeps=int(self.infer_iter),
            burn_in=2 * int(self.infer_iter) // 5,
            seed=self._seed_,
        )
        return fitted["shares"]

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        return tags
