"""Machine learning on threads of one process or on many machines.

Programs run on the peers of a cluster with `run`, `init` and `standalone`, and with the launchers in
``hemiola.launch``. `analyze` says whether a loop may run in parallel.

Estimators follow scikit-learn's contract and are fitted by the Rust core of Hemiola, which releases
the interpreter lock meanwhile. ``python -m hemiola`` and the command ``hemiola`` are the command line.

Estimators are loaded on first use, so that ``import hemiola`` stays fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._hemiola import __version__

if TYPE_CHECKING:
    from ._analysis import Analysis, analyze
    from ._cluster import Cluster
    from ._clusters import KMeans
    from ._factorization import ImplicitFactorization, MatrixFactorization
    from ._logistic import LogisticRegression
    from ._machine import FactorizationMachine
    from ._read import Examples, Ratings, read_examples, read_ratings
    from ._report import Picture, Report
    from ._ridge import Ridge
    from ._run import Standalone, init, run, standalone
    from ._sparse import ElasticNet, Lasso, LassoCV
    from ._support_vectors import LinearSVC
    from ._table import Table
    from ._topics import LatentDirichletAllocation
    from .launch import PeerError

#: Module of each public name.
_MODULES = {
    "Analysis": "_analysis",
    "Cluster": "_cluster",
    "ElasticNet": "_sparse",
    "Examples": "_read",
    "FactorizationMachine": "_machine",
    "ImplicitFactorization": "_factorization",
    "KMeans": "_clusters",
    "Lasso": "_sparse",
    "LassoCV": "_sparse",
    "LatentDirichletAllocation": "_topics",
    "LinearSVC": "_support_vectors",
    "LogisticRegression": "_logistic",
    "MatrixFactorization": "_factorization",
    "PeerError": "launch",
    "Picture": "_report",
    "Ratings": "_read",
    "Report": "_report",
    "Ridge": "_ridge",
    "Standalone": "_run",
    "Table": "_table",
    "analyze": "_analysis",
    "init": "_run",
    "read_examples": "_read",
    "read_ratings": "_read",
    "run": "_run",
    "standalone": "_run",
}

__all__ = [
    "Analysis",
    "Cluster",
    "ElasticNet",
    "Examples",
    "FactorizationMachine",
    "ImplicitFactorization",
    "KMeans",
    "Lasso",
    "LassoCV",
    "LatentDirichletAllocation",
    "LinearSVC",
    "LogisticRegression",
    "MatrixFactorization",
    "PeerError",
    "Picture",
    "Ratings",
    "Report",
    "Ridge",
    "Standalone",
    "Table",
    "__version__",
    "analyze",
    "init",
    "read_examples",
    "read_ratings",
    "run",
    "standalone",
]


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
