"""Cluster of a program: this peer, and its calls to the others on NumPy arrays."""

from __future__ import annotations

import html
import json
import os
import pickle
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from . import _hemiola
from ._table import Table, TableSettings

#: Element types of reductions.
ELEMENTS = ("float64", "float32", "int64", "int32", "uint8")


class Cluster:
    """Handle of a program to its job, which ``hemiola.run`` and others pass to it.

    Methods marked *collective* must be called by every peer, in the same order, from one thread at
    a time. If the calls differ, all peers get an error that names two of them. When a peer is lost,
    waits for it end with a ``ConnectionError`` that names it.
    """

    def __init__(self, peer: _hemiola.Peer) -> None:
        self._peer = peer
        self._process = os.getpid()
        self._tables: list[Table] = []
        self._ended = False

    @property
    def rank(self) -> int:
        """Rank of this peer, from 0."""
        return self._peer.rank

    @property
    def size(self) -> int:
        """Number of peers (world size)."""
        return self._peer.size

    @property
    def workers(self) -> int:
        """Number of worker threads of this peer."""
        return self._peer.workers

    @property
    def is_root(self) -> bool:
        """Whether this is the peer that prints."""
        return self.rank == 0

    def barrier(self) -> None:
        """*Collective.* Returns when every peer has called it."""
        self._peer.barrier()

    def all_reduce(self, array: Any, op: str = "sum", *, out: Any = None) -> Any:
        """*Collective.* Returns the elementwise sum, mean, minimum or maximum of the arrays of all peers.

        `array` is a NumPy array or a number, of one element type and one number of elements on all
        peers. All peers get the same bits. `out` is an array that receives the result.
        """
        source = np.asarray(array)
        if source.dtype.name not in ELEMENTS:
            raise TypeError(f"all_reduce of {source.dtype}: convert it to one of {', '.join(ELEMENTS)}")
        if op == "mean" and source.dtype.kind != "f":
            raise TypeError(f"the mean of {source.dtype} is no {source.dtype}: convert it to float64")
        _check_output(out, source)
        elements = np.ascontiguousarray(source).reshape(-1)
        data = self._peer.all_reduce(elements, "sum" if op == "mean" else op)
        reduced = np.frombuffer(data, dtype=source.dtype).reshape(source.shape)
        if op == "mean":
            reduced /= self.size
        if out is not None:
            np.copyto(out, reduced)
            return out
        return reduced if source.ndim else reduced[()]

    def broadcast(self, value: Any, root: int = 0) -> Any:
        """*Collective.* Returns the value of `root` on every peer; the values of other peers are dropped.

        An array keeps its shape and type. Other values are pickled.
        """
        packed = _pack(value) if self.rank == root else b""
        found = self._peer.broadcast(packed, root)
        return value if self.rank == root else _unpack(found)

    def all_gather(self, value: Any) -> list[Any]:
        """*Collective.* Returns the values of all peers by rank; arrays may differ in shape and type."""
        return [_unpack(part) for part in self._peer.all_gather(_pack(value))]

    def table(
        self,
        name: str,
        *,
        width: int = 1,
        rows: int | None = None,
        dtype: Any = "float32",
        staleness: int | None = 0,
        update_rule: str = "addition",
        learning_rate: float = 0.1,
        initial: float | tuple[str, float, float] = 0.0,
        seed: int = 0,
    ) -> Table:
        """*Collective.* Builds a table of the parameter server, which all peers read and update.

        Parameters
        ----------
        name : str
            Name of the table in messages.
        width : int, default=1
            Number of columns of a row.
        rows : int or None, default=None
            Number of rows; ``None`` for rows that are created when they are first named.
        dtype : {"float32", "float64", "int32"}, default="float32"
        staleness : int or None, default=0
            Bound in clocks: a read sees all updates of earlier clocks but the last `staleness`. 0 is
            BSP (bulk synchronous parallel), with bit-identical results; ``None`` is asynchronous.
        update_rule : {"addition", "sgd", "adagrad", "adam", "adarevision"}, default="addition"
            Effect of `Table.add`; all but addition take gradients, and use `learning_rate`.
        initial : float or tuple, default=0.0
            Initial value of all cells, ``("uniform", low, high)`` or ``("normal", mean, deviation)``.
        seed : int, default=0
            Random seed of the initial values.
        """
        kind, first, second = ("constant", float(initial), 0.0) if isinstance(initial, (int, float)) else initial
        if rows is not None and rows < 1:
            raise ValueError(f"rows == {rows!r}, must be at least 1, or None.")
        if width < 1:
            raise ValueError(f"width == {width!r}, must be at least 1.")
        settings = TableSettings(
            name=str(name),
            dtype=np.dtype(dtype).name,
            rows=rows,
            width=int(width),
            staleness=staleness,
            update_rule=update_rule,
            learning_rate=float(learning_rate),
            initial=(kind, float(first), float(second), int(seed)),
        )
        table = Table(self._peer.table(settings), settings)
        self._tables.append(table)
        return table

    def println(self, *values: object) -> None:
        """Prints once for the whole job, on the root."""
        if self.is_root:
            print(*values, flush=True)

    def traffic(self) -> list[dict[str, Any]]:
        """Returns the messages and bytes that this peer has sent and received, by peer, lane and purpose."""
        lines: list[dict[str, Any]] = json.loads(self._peer.traffic())["lines"]
        return lines

    def explain(self) -> Explanation:
        """Describes this peer, its tables and its traffic so far: text, and a table in notebooks."""
        facts = {"peer": f"{self.rank} of {self.size}", "workers": str(self.workers)}
        for table in self._tables:
            facts[f"table {table.name}"] = table.settings.describe()
        columns = ("peer", "lane", "purpose", "messages_sent", "bytes_sent", "messages_received", "bytes_received")
        rows = [[str(line[column]) for column in columns] for line in self.traffic()]
        return Explanation(facts, [column.replace("_", " ") for column in columns], rows)

    def __repr__(self) -> str:
        return f"<Cluster: peer {self.rank} of {self.size}, {self.workers} workers>"

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        self.end(error)

    def end(self, error: BaseException | None = None) -> None:
        """Ends the part of this peer in the job: waits for the other peers, or tells them that it failed.

        Programs that run in ``hemiola.run`` or in a ``with`` block are ended by it.
        """
        if self._process != os.getpid():
            _leave_fork(self.rank)
        if self._ended:
            return
        self._ended = True
        if isinstance(error, SystemExit) and error.code in (None, 0):
            error = None
        failure = None if error is None else failure_reason(error)
        if failure is not None:
            # Waits of other threads of this peer end as well, those of its tables among them.
            self._peer.interrupt(failure)
        for table in self._tables:
            table.close(wait=failure is None)
        self._peer.end(failure)


class Explanation:
    """Facts and a table of numbers: text for terminals, HTML for notebooks."""

    def __init__(self, facts: dict[str, str], columns: list[str], rows: list[list[str]]) -> None:
        self.facts, self.columns, self.rows = facts, columns, rows

    def __str__(self) -> str:
        lines = [f"{name}: {value}" for name, value in self.facts.items()]
        if self.rows:
            table = [self.columns, *self.rows]
            widths = [max(len(row[column]) for row in table) for column in range(len(self.columns))]
            lines += ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in table]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        facts = "".join(_row("th", [name]) [:-5] + f"<td>{html.escape(value)}</td></tr>" for name, value in self.facts.items())
        numbers = "".join(_row("td", row) for row in self.rows)
        head = _row("th", self.columns) if self.rows else ""
        return f"<table>{facts}</table><table>{head}{numbers}</table>"


def _row(tag: str, cells: list[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"


def run_program(peer: _hemiola.Peer, main: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """Runs `main` on a peer and ends its part in the job in any case."""
    cluster = Cluster(peer)
    try:
        value = main(cluster, *args)
    except BaseException as error:
        cluster.end(error)
        raise
    cluster.end()
    return value


def failure_reason(error: BaseException) -> str:
    """Describes an exception in one line: type, message, and the last line of the program that raised it."""
    name = type(error).__name__
    text = f"{name}: {error}" if str(error) else name
    place, trace = None, error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if os.path.dirname(code.co_filename) != os.path.dirname(__file__):
            place = f"{code.co_filename}:{trace.tb_lineno} in {code.co_name}"
        trace = trace.tb_next
    text = text if len(text) <= 2000 else text[:2000] + "…"
    return text if place is None else f"{text} (at {place})"


def _check_output(out: Any, source: Any) -> None:
    if out is None:
        return
    if not isinstance(out, np.ndarray):
        raise TypeError("out must be an array")
    if out.shape != source.shape or out.dtype != source.dtype:
        raise ValueError(f"out is {out.dtype} of shape {out.shape}, and the result {source.dtype} of shape {source.shape}")
    if not out.flags.writeable:
        raise ValueError("out is read-only")


def _pack(value: Any) -> bytes:
    """Returns a value as bytes: a header with type and shape before the cells of an array, or a pickle."""
    if type(value) is np.ndarray and not value.dtype.hasobject and value.dtype.names is None:
        header = pickle.dumps((value.dtype.str, value.shape))
        return b"a" + len(header).to_bytes(4, "little") + header + value.tobytes()
    return b"p" + pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)


def _unpack(data: bytes) -> Any:
    if data[:1] == b"p":
        return pickle.loads(data[1:])
    end = 5 + int.from_bytes(data[1:5], "little")
    dtype, shape = pickle.loads(data[5:end])
    return np.frombuffer(bytearray(data[end:]), dtype=dtype).reshape(shape)


def _leave_fork(rank: int) -> None:
    """Ends a forked process that has returned into the program of its parent."""
    print(
        f"hemiola: a process that was forked from peer {rank} ran to the end of its program. It has no part in the job: "
        "end it with os._exit, or start it with the method `spawn`",
        file=sys.stderr,
        flush=True,
    )
    os._exit(1)
