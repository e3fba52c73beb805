"""Launcher on this host: a process for each peer."""

from __future__ import annotations

import queue
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from ._outcome import Outcome, results
from ._process import GRACE_SECONDS, Meeting, PeerProcess, pack_program

#: Interval in which an interrupt is noticed.
POLL_SECONDS = 0.2


def run(main: Callable[..., Any], *, peers: int, args: Sequence[Any] = (), workers: int | None = None) -> list[Any]:
    """Runs ``main(cluster, *args)`` on `peers` processes of this host; returns the results by rank."""
    if isinstance(peers, bool) or not isinstance(peers, int) or peers < 1:
        raise ValueError(f"peers == {peers!r}, must be an integer of at least 1.")
    program = pack_program(main, args)
    with tempfile.TemporaryDirectory(prefix="hemiola-") as folder:
        meeting = Meeting.at(peers, f"file:{folder}/rendezvous", workers, local_peers=peers)
        started: list[PeerProcess] = []
        try:
            for rank in range(peers):
                started.append(PeerProcess(meeting, rank, program))
            outcomes = _supervise(started)
        finally:
            for peer in started:
                peer.kill()
    return results(outcomes, peers)


def _supervise(started: list[PeerProcess]) -> dict[int, Outcome]:
    """Waits for all peers. After a failure or an interrupt, the others end within the grace period."""
    events: queue.SimpleQueue[tuple[int, Outcome]] = queue.SimpleQueue()
    waiters = [
        threading.Thread(target=lambda peer=peer: events.put((peer.rank, peer.wait())), daemon=True, name="hemiola-wait")
        for peer in started
    ]
    for waiter in waiters:
        waiter.start()
    outcomes: dict[int, Outcome] = {}
    interrupted: BaseException | None = None
    deadline = None
    while len(outcomes) < len(started):
        try:
            rank, outcome = events.get(timeout=POLL_SECONDS)
        except queue.Empty:
            if deadline is not None and time.monotonic() > deadline:
                for peer in started:
                    peer.kill()
        except KeyboardInterrupt as error:
            for peer in started:
                peer.interrupt() if interrupted is None else peer.kill()
            interrupted = error
            deadline = time.monotonic() + GRACE_SECONDS
        else:
            outcomes[rank] = outcome
            if outcome.kind != "value" and deadline is None:
                deadline = time.monotonic() + GRACE_SECONDS
    for waiter in waiters:
        waiter.join()
    if interrupted is not None:
        raise interrupted
    return outcomes
