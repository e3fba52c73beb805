"""Table of the parameter server: rows that all peers read and update, with bounded staleness."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _hemiola


@dataclass(frozen=True)
class TableSettings:
    """Settings of a table, see `Cluster.table`."""

    name: str
    dtype: str
    rows: int | None
    width: int
    staleness: int | None
    update_rule: str
    learning_rate: float
    initial: tuple[str, float, float, int]

    def describe(self) -> str:
        """Returns the settings in one line."""
        rows = "growing rows" if self.rows is None else f"{self.rows} rows"
        bound = "asynchronous" if self.staleness is None else f"staleness {self.staleness}"
        return f"{rows} of {self.width} {self.dtype}, {bound}, {self.update_rule}"


class Table:
    """Table of a peer, built by `Cluster.table`.

    A peer proceeds from clock to clock. In each it reads rows (`get`), adds to them (`add`), and then
    ends the clock (`clock`). A read waits until the rows are fresh enough; nothing else waits.
    """

    def __init__(self, native: _hemiola.Table, settings: TableSettings) -> None:
        self._native = native
        self.settings = settings

    @property
    def name(self) -> str:
        """Name of the table."""
        return self.settings.name

    def get(self, keys: Any) -> Any:
        """Returns the rows of `keys`: of one key a vector, of several a matrix with a row for each."""
        keys = self._keys(keys)
        data = self._native.get(keys.reshape(-1))
        return np.frombuffer(data, dtype=self.settings.dtype).reshape(*keys.shape, self.settings.width)

    def add(self, keys: Any, values: Any) -> None:
        """Adds `values`, a row for each of `keys`, to the rows; the update rule defines the effect."""
        keys, values = self._keys(keys), np.asarray(values)
        expected = (*keys.shape, self.settings.width)
        if values.shape != expected:
            raise ValueError(f"values have the shape {values.shape}, and {keys.size} rows of table `{self.name}` {expected}")
        if not np.can_cast(values.dtype, self.settings.dtype, casting="same_kind"):
            raise TypeError(f"values are {values.dtype}, and table `{self.name}` holds {self.settings.dtype}")
        flat = np.ascontiguousarray(values, dtype=self.settings.dtype).reshape(-1)
        self._native.add(keys.reshape(-1), flat)

    def clock(self) -> None:
        """Ends the clock of this peer: its updates become visible to the others."""
        self._native.clock()

    def finish(self) -> None:
        """Ends the use of the table by this peer, which holds no other one back from then on."""
        self._native.finish()

    def collect(self) -> tuple[Any, Any]:
        """*Collective.* Returns the keys of all rows in ascending order, and a matrix of the rows.

        Contains all updates of ended clocks. All peers must be at the same clock, or have finished.
        """
        keys, data = self._native.collect()
        rows = np.frombuffer(data, dtype=self.settings.dtype).reshape(len(keys), self.settings.width)
        return np.array(keys, dtype=np.int64), rows

    @property
    def memory_bytes(self) -> int:
        """Memory of the rows on this peer, in bytes."""
        return self._native.memory_bytes()

    def close(self, wait: bool = True) -> None:
        """Ends the table. The end of the program does so."""
        self._native.close(wait)

    def _keys(self, keys: Any) -> Any:
        keys = np.asarray(keys)
        if keys.dtype.kind not in "iu" and keys.size:
            raise TypeError(f"keys are {keys.dtype}, must be integers")
        return np.ascontiguousarray(keys, dtype=np.int64).reshape(keys.shape)

    def __repr__(self) -> str:
        return f"<Table {self.name}: {self.settings.describe()}>"
