"""Launcher on Ray: an actor for each peer, in one placement group.

The actor of rank 0 chooses the meeting point. An actor starts the process of its peer and returns its
outcome; when Ray kills the actor, the process ends too. Package and program must exist on all nodes:
the package by installation, the program is sent.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from ._outcome import Outcome, results
from ._process import GRACE_SECONDS, Meeting, free_address, pack_program, run_peer


class PeerActor:
    """Actor that runs a peer."""

    def meeting_point(self) -> str:
        """Returns an address on the node of this actor."""
        import ray

        return free_address(ray.util.get_node_ip_address())

    def run(self, meeting: Meeting, rank: int, program: bytes) -> Outcome:
        """Runs a peer to its end."""
        return run_peer(meeting, rank, program)


def run(
    main: Callable[..., Any],
    *,
    peers: int,
    args: Sequence[Any] = (),
    workers: int = 1,
    strategy: str = "PACK",
    timeout: float = 300.0,
) -> list[Any]:
    """Runs ``main(cluster, *args)`` on `peers` actors of Ray; returns the results by rank.

    `workers` is the number of worker threads of a peer, and of the CPUs that Ray reserves for it.
    `strategy` places the peers: ``"PACK"``, ``"SPREAD"``, ``"STRICT_PACK"`` or ``"STRICT_SPREAD"``.
    `timeout` is the time in seconds in which Ray must find room for them.
    """
    import ray
    from ray.util.placement_group import placement_group, remove_placement_group
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    program = pack_program(main, args)
    group = placement_group([{"CPU": workers}] * peers, strategy=strategy)
    actors: list[Any] = []
    try:
        if not group.wait(timeout):
            raise TimeoutError(f"Ray has no room for {peers} peers of {workers} CPUs ({strategy}) within {timeout:g} s")
        for rank in range(peers):
            bundle = PlacementGroupSchedulingStrategy(placement_group=group, placement_group_bundle_index=rank)
            actor = ray.remote(PeerActor).options(num_cpus=workers, scheduling_strategy=bundle, max_restarts=0)
            actors.append(actor.remote())
        meeting = Meeting.at(peers, ray.get(actors[0].meeting_point.remote()), workers)
        calls = {actor.run.remote(meeting, rank, program): rank for rank, actor in enumerate(actors)}
        outcomes = _supervise(calls, actors)
    finally:
        for actor in actors:
            ray.kill(actor)
        remove_placement_group(group)
    return results(outcomes, peers)


def _supervise(calls: dict[Any, int], actors: list[Any]) -> dict[int, Outcome]:
    """Waits for all peers; after a failure, the others end within the grace period."""
    import ray

    outcomes: dict[int, Outcome] = {}
    deadline = None
    while calls:
        done, _ = ray.wait(list(calls), timeout=1.0)
        for call in done:
            rank = calls.pop(call)
            try:
                outcomes[rank] = ray.get(call)
            except ray.exceptions.RayActorError as error:
                late = deadline is not None and time.monotonic() > deadline
                outcomes[rank] = Outcome("died", text=f"lost its actor: {error}", is_consequence=late)
            if outcomes[rank].kind != "value" and deadline is None:
                deadline = time.monotonic() + GRACE_SECONDS
        if deadline is not None and time.monotonic() > deadline:
            for rank in calls.values():
                ray.kill(actors[rank])
    return outcomes
