"""Machine learning on threads of one process or on many machines.

Estimators follow scikit-learn's contract and are fitted by the Rust core of Hemiola, which releases
the interpreter lock meanwhile. ``python -m hemiola`` and the command ``hemiola`` are the command line.

Estimators are loaded on first use, so that ``import hemiola`` stays fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._hemiola import __version__

if TYPE_CHECKING:
    from ._clusters import KMeans
    from ._factorization import ImplicitFactorization, MatrixFactorization
    from ._logistic import LogisticRegression
    from ._machine import FactorizationMachine
    from ._report import Report
    from ._ridge import Ridge
    from ._sparse import ElasticNet, Lasso, LassoCV
    from ._support_vectors import LinearSVC
    from ._topics import LatentDirichletAllocation

#: Module of each public name.
_MODULES = {
    "ElasticNet": "_sparse",
    "FactorizationMachine": "_machine",
    "ImplicitFactorization": "_factorization",
    "KMeans": "_clusters",
    "Lasso": "_sparse",
    "LassoCV": "_sparse",
    "LatentDirichletAllocation": "_topics",
    "LinearSVC": "_support_vectors",
    "LogisticRegression": "_logistic",
    "MatrixFactorization": "_factorization",
    "Report": "_report",
    "Ridge": "_ridge",
}

__all__ = [
    "ElasticNet",
    "FactorizationMachine",
    "ImplicitFactorization",
    "KMeans",
    "Lasso",
    "LassoCV",
    "LatentDirichletAllocation",
    "LinearSVC",
    "LogisticRegression",
    "MatrixFactorization",
    "Report",
    "Ridge",
    "__version__",
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
