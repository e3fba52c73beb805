"""Launcher on Dask: a task for each peer, pinned to a worker.

The worker of rank 0 chooses the meeting point. A task starts the process of its peer and returns its
outcome; when the client gives the task up or is gone, the process ends too. Every peer occupies a
thread of its worker while it runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from ._outcome import Outcome, results
from ._process import GRACE_SECONDS, Meeting, free_address, pack_program, run_peer


def run(
    main: Callable[..., Any],
    *,
    peers: int | None = None,
    args: Sequence[Any] = (),
    workers: int | None = None,
    client: Any = None,
) -> list[Any]:
    """Runs ``main(cluster, *args)`` on workers of Dask; returns the results by rank.

    `client` is a ``distributed.Client``, by default the current one. `peers` is by default the number
    of Dask's workers. `workers` is the number of Hemiola's worker threads of a peer, by default the
    threads that Dask has for it.
    """
    from distributed import get_client

    client = get_client() if client is None else client
    threads = {address: worker["nthreads"] for address, worker in client.scheduler_info(n_workers=-1)["workers"].items()}
    chosen = _choose(threads, peers)
    program = pack_program(main, args)
    local = max(chosen.count(address) for address in chosen)
    threads_of_peer = max(1, min(threads[address] // chosen.count(address) for address in chosen))
    point = client.submit(_meeting_point, workers=[chosen[0]], pure=False).result()
    meeting = Meeting.at(len(chosen), point, workers or threads_of_peer, local)
    tasks = {
        client.submit(
            _run_task, meeting, rank, program, workers=[address], allow_other_workers=False, pure=False, retries=0
        ): rank
        for rank, address in enumerate(chosen)
    }
    try:
        outcomes = _supervise(tasks)
    finally:
        client.cancel(list(tasks), force=True)
    return results(outcomes, len(chosen))


def _choose(threads: dict[str, int], peers: int | None) -> list[str]:
    """Returns the worker of each peer: first one on each, then a second on those with room."""
    addresses = sorted(threads)
    peers = len(addresses) if peers is None else peers
    room = sum(threads.values())
    if not 1 <= peers <= room:
        raise ValueError(f"peers == {peers!r}, must be from 1 to {room}, the threads of Dask's workers.")
    slots = sorted((number, address) for address in addresses for number in range(threads[address]))
    return sorted(address for _, address in slots[:peers])


def _meeting_point() -> str:
    from distributed import get_worker

    host = get_worker().address.rpartition("://")[2].rpartition(":")[0].strip("[]")
    return free_address(host)


def _run_task(meeting: Meeting, rank: int, program: bytes) -> Outcome:
    from distributed import get_worker
    from distributed.worker import thread_state

    worker, key = get_worker(), thread_state.key

    def is_cancelled() -> bool:
        task = worker.state.tasks.get(key)
        return task is None or task.state in ("cancelled", "released", "forgotten")

    return run_peer(meeting, rank, program, is_cancelled)


def _supervise(tasks: dict[Any, int]) -> dict[int, Outcome]:
    """Waits for all peers; after a failure, the others end within the grace period."""
    from distributed import wait

    outcomes: dict[int, Outcome] = {}
    waiting = dict(tasks)
    deadline = None
    while waiting:
        try:
            done = wait(list(waiting), timeout=1.0, return_when="FIRST_COMPLETED").done
        except TimeoutError:
            done = set()
        for future in done:
            rank = waiting.pop(future)
            if future.status == "finished":
                outcomes[rank] = future.result()
            else:
                outcomes[rank] = Outcome("died", text=f"lost its worker of Dask: {future.exception()}")
            if outcomes[rank].kind != "value" and deadline is None:
                deadline = time.monotonic() + GRACE_SECONDS
        if deadline is not None and time.monotonic() > deadline:
            for rank in waiting.values():
                outcomes[rank] = Outcome("died", text="did not end after the failure of another", is_consequence=True)
            break
    return outcomes
