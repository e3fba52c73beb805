"""Matrix factorization, of ratings and of implicit feedback."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from . import _hemiola
from ._base import FLOATS, NativeEstimator, require, require_epochs
from ._data import rows_of
from ._inputs import validate_data


class MatrixFactorization(NativeEstimator):
    """Ratings of users explained by factors of users and items.

    A stored entry of a sparse matrix (a nonzero cell of a dense one) is a rating; all others are
    unknown. Koren, Bell and Volinsky 2009; optimized by stochastic gradient descent with AdaGrad.

    Parameters
    ----------
    n_components : int, default=32
        Factors per user and item.
    loss : {"squared", "logistic"}, default="squared"
        ``"logistic"`` is for ratings above and below 0.
    l2 : float, default=0.045
        L2 penalty, relative to the spread of the ratings.
    learning_rate : float, default=0.08
    max_iter : int, default=40
        Number of epochs.
    random_state : int, RandomState instance or None, default=None
    workers : int, default=None
        Threads; -1 uses all cores.
    verbose : bool, default=False
        Shows a progress bar.

    Attributes
    ----------
    user_factors_ : ndarray of shape (n_users, n_components)
    item_factors_ : ndarray of shape (n_items, n_components)
    user_biases_ : ndarray of shape (n_users,)
    item_biases_ : ndarray of shape (n_items,)
    mean_ : float
    n_iter_ : int
    report_ : Report
    """

    def __init__(
        self,
        n_components: int = 32,
        *,
        loss: str = "squared",
        l2: float = 0.045,
        learning_rate: float = 0.08,
        max_iter: int = 40,
        random_state: Any = None,
        workers: int | None = None,
        verbose: int | bool = False,
    ) -> None:
        self.n_components = n_components
        self.loss = loss
        self.l2 = l2
        self.learning_rate = learning_rate
        self.max_iter = max_iter
        self.random_state = random_state
        self.workers = workers
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> MatrixFactorization:
        """Fits the factors to ratings, users by items."""
        require("loss", self.loss, self.loss in ("squared", "logistic"), "squared or logistic")
        X = validate_data(self, X, accept_sparse="csr", dtype=list(FLOATS))
        if (X.nnz if sparse.issparse(X) else np.count_nonzero(X)) == 0:
            raise ValueError("there are no ratings: all entries of the matrix are 0")
        fitted = self._run(
            _hemiola.fit_factorization,
            rows_of(X),
            loss=self.loss,
            rank=int(self.n_components),
            l2=float(self.l2),
            learning_rate=float(self.learning_rate),
            unobserved_weight=0.3,
            frequency_exponent=1.0,
            epochs=require_epochs(self.max_iter),
            seed=self._seed(self.random_state),
        )
        self.user_factors_, self.item_factors_ = fitted["user_factors"], fitted["item_factors"]
        self.user_biases_, self.item_biases_ = fitted["user_biases"], fitted["item_biases"]
        self.mean_ = fitted["mean"]
        self.report_ = fitted["report"]
        self.n_iter_ = self.report_.epochs
        return self

    def predict_pairs(self, users: Any, items: Any) -> Any:
        """Predicts the rating of each pair of a user and an item; with the logistic loss, its log-odds."""
        check_is_fitted(self)
        users, items = np.asarray(users), np.asarray(items)
        scores = np.einsum("...k,...k->...", self.user_factors_[users], self.item_factors_[items])
        return scores + self.user_biases_[users] + self.item_biases_[items] + self.mean_

    def recommend(self, user: int, n_items: int = 10, seen: Any = ()) -> tuple[Any, Any]:
        """Returns the items with the highest predictions for a user, and the predictions, without `seen`."""
        scores = self.predict_pairs(user, np.arange(len(self.item_factors_)))
        return _highest(scores, n_items, seen)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class ImplicitFactorization(NativeEstimator):
    """Recommendations from implicit feedback: who clicked, bought or watched what.

    The methods are those of the package ``implicit``. The objective is
    ``Σ events alpha·w (1 - s)² + unobserved_weight Σ all pairs s² + penalty`` with the score ``s``
    of a pair; Hu, Koren and Volinsky 2008; Rendle, Krichene, Zhang and Koren 2022.

    Parameters
    ----------
    factors : int, default=64
        Factors per user and item.
    regularization : float, default=0.007
        L2 penalty per pair of a user or item, see `frequency_exponent`.
    alpha : float, default=1.0
        Factor of the weights of events.
    unobserved_weight : float, default=0.3
        Weight of a pair without an event.
    frequency_exponent : float, default=1.0
        The penalty of a user or item is that of a pair times its number of pairs to this power.
    iterations : int, default=15
        Number of epochs.
    random_state : int, RandomState instance or None, default=None
    workers : int, default=None
        Threads; -1 uses all cores.
    verbose : bool, default=False
        Shows a progress bar.

    Attributes
    ----------
    user_factors : ndarray of shape (n_users, factors)
    item_factors : ndarray of shape (n_items, factors)
    n_iter_ : int
    report_ : Report
    """

    def __init__(
        self,
        factors: int = 64,
        *,
        regularization: float = 0.007,
        alpha: float = 1.0,
        unobserved_weight: float = 0.3,
        frequency_exponent: float = 1.0,
        iterations: int = 15,
        random_state: Any = None,
        workers: int | None = None,
        verbose: int | bool = False,
    ) -> None:
        self.factors = factors
        self.regularization = regularization
        self.alpha = alpha
        self.unobserved_weight = unobserved_weight
        self.frequency_exponent = frequency_exponent
        self.iterations = iterations
        self.random_state = random_state
        self.workers = workers
        self.verbose = verbose

    def fit(self, user_items: Any, y: Any = None) -> ImplicitFactorization:
        """Fits the factors to the weights of events, users by items."""
        events = validate_data(self, user_items, accept_sparse="csr", dtype=list(FLOATS))
        events = sparse.csr_array(events)
        if self.alpha != 1:
            weights = events.data * float(self.alpha)
            events = sparse.csr_array((weights, events.indices, events.indptr), shape=events.shape)
        if events.nnz == 0:
            raise ValueError("there are no events: all entries of the matrix are 0")
        if events.data.min() < 0:
            raise ValueError("Negative values in data passed to ImplicitFactorization: weights of events are positive")
        fitted = self._run(
            _hemiola.fit_factorization,
            rows_of(events),
            loss="one-class",
            rank=int(self.factors),
            l2=float(self.regularization),
            learning_rate=0.08,
            unobserved_weight=float(self.unobserved_weight),
            frequency_exponent=float(self.frequency_exponent),
            epochs=require_epochs(self.iterations),
            seed=self._seed(self.random_state),
        )
        self.user_factors, self.item_factors = fitted["user_factors"], fitted["item_factors"]
        self.report_ = fitted["report"]
        self.n_iter_ = self.report_.epochs
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "item_factors")

    def partial_fit_users(self, userids: Any, user_items: Any) -> ImplicitFactorization:
        """Solves for users with their events, one row each, and keeps the items. Users may be new."""
        check_is_fitted(self)
        userids = np.asarray(userids)
        factors = self._user_factors_of(user_items)
        if len(userids) != len(factors):
            raise ValueError(f"{len(userids)} users, but {len(factors)} rows of events")
        count = max(len(self.user_factors), int(userids.max(initial=-1)) + 1)
        users = np.zeros((count, self.user_factors.shape[1]), dtype=self.user_factors.dtype)
        users[: len(self.user_factors)] = self.user_factors
        users[userids] = factors
        self.user_factors = users
        return self

    def _user_factors_of(self, user_items: Any) -> Any:
        """Solves the least-squares problem of each row of events."""
        events = sparse.csr_array(user_items, dtype=np.float64) * float(self.alpha)
        items = self.item_factors.astype(np.float64)
        if events.shape[1] != len(items):
            raise ValueError(f"rows of events have {events.shape[1]} items, and the model has {len(items)}")
        gram = self.unobserved_weight * items.T @ items
        solved = np.zeros((events.shape[0], items.shape[1]))
        for row in range(events.shape[0]):
            part = slice(events.indptr[row], events.indptr[row + 1])
            weights, rows = events.data[part], items[events.indices[part]]
            pairs = len(weights) + self.unobserved_weight * len(items)
            ridge = self.regularization * pairs**self.frequency_exponent
            system = gram + (rows * weights[:, None]).T @ rows + ridge * np.eye(items.shape[1])
            solved[row] = np.linalg.solve(system, weights @ rows)
        return solved.astype(self.item_factors.dtype)

    def recommend(
        self,
        userid: Any,
        user_items: Any = None,
        N: int = 10,
        filter_already_liked_items: bool = True,
        recalculate_user: bool = False,
        items: Any = None,
        filter_items: Any = None,
    ) -> tuple[Any, Any]:
        """Returns the items with the highest scores for a user, or for each of several users, and the scores.

        `user_items` has the events of the users, one row each. Items with events are left out, unless
        `filter_already_liked_items` is false. `items` limits the choice, `filter_items` leaves items out.
        """
        check_is_fitted(self)
        users = np.atleast_1d(np.asarray(userid))
        if user_items is None and (filter_already_liked_items or recalculate_user):
            raise ValueError("user_items needs to be the events of the users, one row each")
        events = None if user_items is None else sparse.csr_array(user_items)
        if events is not None and events.shape[0] != len(users):
            raise ValueError(f"user_items has {events.shape[0]} rows, and there are {len(users)} users")
        factors = self._user_factors_of(events) if recalculate_user else self.user_factors[users]
        found = []
        for index, row in enumerate(factors @ self.item_factors.T):
            left_out = [] if filter_items is None else list(filter_items)
            if filter_already_liked_items and events is not None:
                left_out += list(events.indices[events.indptr[index] : events.indptr[index + 1]])
            if items is not None:
                left_out += list(np.setdiff1d(np.arange(len(row)), np.asarray(items)))
            found.append(_highest(row, N, left_out))
        if np.ndim(userid) == 0:
            return found[0]
        width = min(len(ids) for ids, _ in found) if found else 0
        return np.array([ids[:width] for ids, _ in found]), np.array([scores[:width] for _, scores in found])

    def similar_items(self, itemid: int, N: int = 10) -> tuple[Any, Any]:
        """Returns the items whose factors have the highest cosine with those of an item, and the cosines."""
        check_is_fitted(self)
        return self._similar(self.item_factors, itemid, N)

    def similar_users(self, userid: int, N: int = 10) -> tuple[Any, Any]:
        """Returns the users whose factors have the highest cosine with those of a user, and the cosines."""
        check_is_fitted(self)
        return self._similar(self.user_factors, userid, N)

    @staticmethod
    def _similar(factors: Any, row: int, count: int) -> tuple[Any, Any]:
        lengths = np.linalg.norm(factors, axis=1)
        lengths[lengths == 0] = 1e-10
        return _highest(factors @ factors[row] / (lengths * lengths[row]), count, ())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        return tags


def _highest(scores: Any, count: int, left_out: Any) -> tuple[Any, Any]:
    """Returns the positions of the highest scores in descending order, and the scores."""
    scores = np.array(scores)
    scores[np.asarray(left_out, dtype=np.intp)] = -np.inf
    count = min(count, int(np.sum(scores > -np.inf)))
    top = np.argpartition(-scores, count - 1)[:count] if 0 < count < len(scores) else np.arange(len(scores))
    top = top[np.lexsort((top, -scores[top]))][:count]
    return top, scores[top]
