"""Examples and ratings from files, folders and URLs."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from . import _hemiola
from ._base import Job, worker_count
from ._data import arrays_of


@dataclass(frozen=True)
class Examples:
    """Examples from files: the features as a CSR matrix of ``float32``, and the labels."""

    X: Any
    y: Any
    #: Names of the classes, whose positions are the labels; empty if labels are numbers.
    class_names: list[str]
    #: Names of the columns; empty for LIBSVM text.
    feature_names: list[str]


@dataclass(frozen=True)
class Ratings:
    """Ratings or events from files: a CSR matrix of users by items, with their names."""

    X: Any
    users: list[str]
    items: list[str]


def read_examples(
    source: Any,
    *,
    label: str | int | None = None,
    without_labels: bool = False,
    ignore: Iterable[str] = (),
    separator: str | None = None,
    zero_based: bool | None = None,
    workers: int | None = None,
) -> Examples:
    """Reads labelled examples from files, folders, patterns or URLs, as ``hemiola train`` does.

    The format is detected: separated values, LIBSVM text, JSON lines, Parquet or Arrow IPC, compressed
    or not.

    Parameters
    ----------
    source : str, path, or several of them
    label : str or int, default=None
        Label column, by name or by number counted from 1; by default the first.
    without_labels : bool, default=False
        Reads no labels; `y` is then zero.
    ignore : iterable of str
        Columns to leave out.
    separator : str, default=None
        Separator of fields; detected by default.
    zero_based : bool, default=None
        LIBSVM text: whether indices count from 0; detected by default.
    workers : int, default=None
        Threads; -1 uses all cores.
    """
    found = _hemiola.read_examples(
        _sources(source),
        Job(worker_count(workers), None),
        label=None if label is None else str(label),
        without_labels=without_labels,
        ignore=[str(column) for column in ignore],
        separator=separator,
        zero_based=zero_based,
    )
    arrays = arrays_of(found)
    return Examples(_rows(arrays), arrays["labels"], arrays["classes"], arrays["features"])


def read_ratings(
    source: Any,
    *,
    columns: Iterable[str | int] = (),
    events: bool = False,
    separator: str | None = None,
    workers: int | None = None,
) -> Ratings:
    """Reads ratings of items by users from files, folders, patterns or URLs, as ``hemiola train mf`` does.

    `columns` are those of user, item and rating, by name or by number counted from 1; by default the
    first three. With `events` (implicit feedback) ratings may be missing, and repeated ones are added.
    """
    found = _hemiola.read_ratings(
        _sources(source),
        Job(worker_count(workers), None),
        columns=[str(column) for column in columns],
        events=events,
        separator=separator,
    )
    arrays = arrays_of(found)
    return Ratings(_rows(arrays), arrays["users"], arrays["items"])


def _sources(source: Any) -> list[str]:
    if isinstance(source, (str, os.PathLike)):
        return [os.fspath(source)]
    return [os.fspath(part) for part in source]


def _rows(arrays: dict[str, Any]) -> Any:
    starts, positions = arrays["starts"].view(np.int32), arrays["positions"].view(np.int32)
    shape = tuple(int(extent) for extent in arrays["shape"])
    return sparse.csr_array((arrays["values"], positions, starts), shape=shape)
