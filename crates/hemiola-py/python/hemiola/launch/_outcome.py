"""Outcome of a peer: a value, an exception, or the death of its process."""

from __future__ import annotations

import pickle
import signal
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


class PeerError(RuntimeError):
    """Failure of a job: its program raised an exception on a peer, or the process of a peer died.

    Attributes
    ----------
    rank : int
        Rank of the peer that failed first.
    size : int
        Number of peers.
    traceback : str
        Traceback on that peer; empty if its process died.
    """

    def __init__(self, message: str, rank: int, size: int, traceback: str = "") -> None:
        super().__init__(message)
        self.rank, self.size, self.traceback = rank, size, traceback

    def __reduce__(self) -> Any:
        return PeerError, (str(self), self.rank, self.size, self.traceback)

    @classmethod
    def of(cls, rank: int, size: int, error: BaseException) -> PeerError:
        """Describes an exception of a peer."""
        trace = "".join(traceback.format_exception(error))
        return cls(_message(rank, size, type(error).__name__, str(error), trace), rank, size, trace)


@dataclass(frozen=True)
class Outcome:
    """End of a peer, as its process reports it to the launcher."""

    #: "value", "raised" or "died".
    kind: str
    #: Pickled value or exception; empty if it cannot be pickled.
    data: bytes = b""
    #: Type and message of the exception, or the manner of death.
    name: str = ""
    text: str = ""
    traceback: str = ""
    #: The failure is a consequence of another peer's.
    is_consequence: bool = False

    @classmethod
    def of_value(cls, value: Any) -> Outcome:
        """Packs a result."""
        import cloudpickle

        return cls("value", cloudpickle.dumps(value))

    @classmethod
    def of_exception(cls, error: BaseException) -> Outcome:
        """Packs an exception with its traceback."""
        import cloudpickle

        trace = "".join(traceback.format_exception(error))
        try:
            data = cloudpickle.dumps(error)
            pickle.loads(data)
        except Exception:
            data = b""
        return cls("raised", data, type(error).__name__, str(error), trace, lost_peer(error))

    @classmethod
    def of_exit(cls, code: int) -> Outcome:
        """Describes a process that ended without a report."""
        if code < 0:
            return cls("died", text=f"was ended by signal {-code} ({_signal_name(-code)})")
        return cls("died", text=f"exited with code {code} before its program returned")


def lost_peer(error: BaseException) -> bool:
    """Returns whether an exception is the loss of another peer."""
    return isinstance(error, ConnectionError)


def results(outcomes: Mapping[int, Outcome], size: int) -> list[Any]:
    """Returns the results by rank, or raises the failure of the peer that failed by itself.

    `outcomes` are in the order in which the peers ended.
    """
    failed = [(rank, outcome) for rank, outcome in outcomes.items() if outcome.kind != "value"]
    if not failed:
        return [pickle.loads(outcomes[rank].data) for rank in range(size)]
    rank, outcome = min(failed, key=lambda failure: failure[1].is_consequence)
    if outcome.kind == "died":
        raise PeerError(f"peer {rank} of {size} {outcome.text}", rank, size)
    cause = pickle.loads(outcome.data) if outcome.data else None
    message = _message(rank, size, outcome.name, outcome.text, outcome.traceback)
    raise PeerError(message, rank, size, outcome.traceback) from cause


def _message(rank: int, size: int, name: str, text: str, trace: str) -> str:
    return f"peer {rank} of {size} raised {name}: {text}\n\ntraceback of peer {rank}:\n{trace}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"
