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

class _TableSettings(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def dtype(self) -> str: ...
    @property
    def rows(self) -> int | None: ...
    @property
    def width(self) -> int: ...
    @property
    def staleness(self) -> int | None: ...
    @property
    def update_rule(self) -> str: ...
    @property
    def learning_rate(self) -> float: ...
    @property
    def initial(self) -> tuple[str, float, float, int]: ...

class Table:
    def get(self, keys: Any) -> bytearray: ...
    def add(self, keys: Any, values: Any) -> None: ...
    def clock(self) -> None: ...
    def finish(self) -> None: ...
    def collect(self) -> tuple[list[int], bytearray]: ...
    def memory_bytes(self) -> int: ...
    def close(self, wait_for_it: bool) -> None: ...

class Peer:
    @property
    def rank(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def workers(self) -> int: ...
    def barrier(self) -> None: ...
    def broadcast(self, value: bytes, root: int) -> bytes: ...
    def all_gather(self, value: bytes) -> list[bytes]: ...
    def all_reduce(self, elements: Any, op: str) -> bytearray: ...
    def table(self, settings: _TableSettings) -> Table: ...
    def traffic(self) -> str: ...
    def failure(self) -> str | None: ...
    def interrupt(self, reason: str) -> None: ...
    def end(self, failure: str | None = None) -> None: ...

def arrow_matrix(stream: Any, by_column: bool) -> tuple[list[str], str, int, int, bytearray]: ...
def read_examples(
    sources: Sequence[str],
    job: _Job,
    *,
    label: str | None,
    without_labels: bool,
    ignore: Sequence[str],
    separator: str | None,
    zero_based: bool | None,
) -> dict[str, Any]: ...
def read_ratings(
    sources: Sequence[str], job: _Job, *, columns: Sequence[str], events: bool, separator: str | None
) -> dict[str, Any]: ...
def is_launched() -> bool: ...
def join(variables: dict[str, str] | None = None) -> Peer: ...
def standalone_peers(peers: int, workers: int) -> list[Peer]: ...
def analyze_loop(description: str, indices: Sequence[str]) -> str: ...
def draw_chart(
    title: str, x: str, y: str, lines: Sequence[tuple[str, Sequence[Sequence[float]]]]
) -> tuple[str, bytes, str]: ...
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
