"""Ways to run a program: in a job that a launcher started, on processes of this host, on threads."""

from __future__ import annotations

import atexit
import ctypes
import os
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

from . import _hemiola
from ._cluster import Cluster, run_program
from .launch._outcome import PeerError, lost_peer

#: Interval between checks for signals while the threads of a standalone cluster run.
POLL_SECONDS = 0.05


def run(
    main: Callable[..., Any],
    peers: int | None = None,
    *,
    args: Sequence[Any] = (),
    workers: int | None = None,
) -> Any:
    """Runs ``main(cluster, *args)`` on every peer of a job.

    Without `peers`, this process is one peer of the job that its launcher describes (``hemiola run``,
    torchrun, ``mpirun``, ``srun``, Kubernetes), or the only one without a launcher. Returns the result
    of `main` on this peer.

    With `peers`, that many processes are started on this host. Returns their results by rank. `main`
    may be any function, one of a notebook too; it is sent by value (cloudpickle). If it raises an
    exception on one peer, the others end, and `PeerError` names the rank and holds the traceback.
    Ctrl-C ends all peers. `workers` is the number of worker threads of each; by default the peers
    share the cores.
    """
    if peers is None:
        variables = None if workers is None else _with_workers(workers)
        return run_program(_hemiola.join(variables), main, tuple(args))
    if _hemiola.is_launched():
        raise RuntimeError(
            "a launcher has started this process as a peer, which cannot start peers: call hemiola.run without `peers`"
        )
    from .launch.local import run as run_local

    return run_local(main, peers=peers, args=args, workers=workers)


def init() -> Cluster:
    """Joins the job that the launcher of this process describes, or a job of one peer.

    For scripts without a main function. The cluster is ended by a ``with`` block, by `Cluster.end`, or
    at the end of the process: with a failure if an exception ended it.
    """
    cluster = Cluster(_hemiola.join(None))

    def end() -> None:
        if cluster._process == os.getpid():
            cluster.end(getattr(sys, "last_value", None))

    atexit.register(end)
    return cluster


def standalone(peers: int, workers: int = 1) -> Standalone:
    """Returns a cluster of `peers` threads of this process, for tests and notebooks.

    A program runs as on real peers and gives the same results; Python code of the peers takes turns.
    """
    return Standalone(peers, workers)


class Standalone:
    """Cluster of threads of this process. See `standalone`."""

    def __init__(self, peers: int, workers: int = 1) -> None:
        if peers < 1 or workers < 1:
            raise ValueError(f"a cluster of {peers} peers with {workers} workers: there must be at least one")
        self.peers, self.workers = peers, workers

    def run(self, main: Callable[..., Any], args: Sequence[Any] = ()) -> list[Any]:
        """Runs ``main(cluster, *args)`` on every peer; returns the results by rank.

        An exception on one peer ends the others and is raised as `PeerError`.
        """
        peers = _hemiola.standalone_peers(self.peers, self.workers)
        results: list[Any] = [None] * self.peers
        failures: list[tuple[int, BaseException]] = []
        finished = [threading.Event() for _ in peers]

        def body(peer: _hemiola.Peer) -> None:
            cluster = Cluster(peer)
            try:
                try:
                    results[peer.rank] = main(cluster, *args)
                except BaseException as error:
                    failures.append((peer.rank, error))
                    cluster.end(error)
                else:
                    cluster.end()
            except BaseException as error:
                failures.append((peer.rank, error))
            finally:
                _end_surely(peer)
                finished[peer.rank].set()

        threads = [threading.Thread(target=body, args=(peer,), name=f"hemiola-peer-{peer.rank}") for peer in peers]
        for thread in threads:
            thread.start()
        interrupted = self._join(peers, threads, finished)
        if interrupted is not None:
            raise interrupted
        if failures:
            # The first that was not caused by the loss of another.
            rank, error = min(failures, key=lambda failure: lost_peer(failure[1]))
            raise PeerError.of(rank, self.peers, error) from error
        return results

    @staticmethod
    def _join(
        peers: list[_hemiola.Peer], threads: list[threading.Thread], finished: list[threading.Event]
    ) -> BaseException | None:
        """Waits for the threads. After an interrupt, ends their waits and their Python code.

        An interrupted `Thread.join` may count a running thread as ended, so `finished` decides.
        """
        interrupted: BaseException | None = None
        told = True
        while True:
            try:
                if not told:
                    told = True
                    for peer, thread, done in zip(peers, threads, finished, strict=True):
                        if not done.is_set() and thread.ident is not None:
                            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                                ctypes.c_ulong(thread.ident), ctypes.py_object(KeyboardInterrupt)
                            )
                            peer.interrupt("it was interrupted")
                for done in finished:
                    done.wait(POLL_SECONDS)
                if all(done.is_set() for done in finished):
                    break
            except BaseException as error:
                interrupted, told = error, False
        for thread in threads:
            thread.join()
        return interrupted


def _end_surely(peer: _hemiola.Peer) -> None:
    """Ends a peer whose end an interrupt has interrupted; a peer that has ended stays so."""
    for _ in range(3):
        try:
            peer.end("it was interrupted")
            return
        except KeyboardInterrupt:
            continue


def _with_workers(workers: int) -> dict[str, str]:
    return {**os.environ, "HEMIOLA_WORKERS": str(workers)}
