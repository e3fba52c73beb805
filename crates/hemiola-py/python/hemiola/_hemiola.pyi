from collections.abc import Callable, Sequence
from typing import Any, Protocol

class _Lines(Protocol):
    @property
    def values(self) -> Any: ...
    @property
    def positions(self) -> Any: ...
    @property
    def starts(self) -> Any: ...
    @property
    def count(self) -> int: ...
    @property
    def width(self) -> int: ...

class _Job(Protocol):
    @property
    def workers(self) -> int: ...
    @property
    def progress(self) -> Callable[[int, float], object] | None: ...

__version__: str

def run_command_line(python: str, arguments: Sequence[str]) -> int: ...
def fit_sparse(
    columns: _Lines,
    labels: Any,
    job: _Job,
    *,
    logistic: bool,
    strength: float,
    l1_ratio: float,
    intercept: bool,
    tolerance: float,
    epochs: int,
    start: Any | None,
) -> dict[str, Any]: ...
def sparse_path(
    columns: _Lines,
    labels: Any,
    job: _Job,
    *,
    logistic: bool,
    strengths: Sequence[float],
    l1_ratio: float,
    intercept: bool,
    tolerance: float,
    epochs: int,
) -> dict[str, Any]: ...
def fit_ridge(
    rows: _Lines, labels: Any, job: _Job, *, weights: Any | None, alpha: float, intercept: bool, tolerance: float, epochs: int
) -> dict[str, Any]: ...
def fit_softmax(
    rows: _Lines, labels: Any, job: _Job, *, weights: Any | None, c: float, intercept: bool, tolerance: float, epochs: int
) -> dict[str, Any]: ...
def fit_linear(
    rows: _Lines,
    labels: Any,
    job: _Job,
    *,
    weights: Any | None,
    squared: bool,
    c: float,
    bias: float,
    tolerance: float,
    epochs: int,
    seed: int,
) -> dict[str, Any]: ...
def fit_machine(
    rows: _Lines,
    labels: Any,
    job: _Job,
    *,
    logistic: bool,
    rank: int,
    l2_linear: float,
    l2_factors: float,
    learning_rate: float,
    batch_size: int,
    epochs: int,
    seed: int,
) -> dict[str, Any]: ...
def fit_kmeans(
    rows: _Lines,
    job: _Job,
    *,
    clusters: int,
    centers: Any | None,
    batch_size: int,
    tolerance: float,
    epochs: int,
    seed: int,
) -> dict[str, Any]: ...
def fit_factorization(
    rows: _Lines,
    job: _Job,
    *,
    loss: str,
    rank: int,
    l2: float | None,
    learning_rate: float,
    unobserved_weight: float,
    frequency_exponent: float,
    epochs: int,
    seed: int,
) -> dict[str, Any]: ...
def fit_topics(
    rows: _Lines,
    job: _Job,
    *,
    topics: int,
    alpha: float,
    beta: float,
    learn_alpha: bool,
    sweeps: int,
    seed: int,
) -> dict[str, Any]: ...
def infer_topics(
    rows: _Lines,
    job: _Job,
    *,
    starts: Any,
    topics: Any,
    counts: Any,
    alpha: Sequence[float],
    beta: float,
    documents: int,
    sweeps: int,
    burn_in: int,
    seed: int,
) -> dict[str, Any]: ...
