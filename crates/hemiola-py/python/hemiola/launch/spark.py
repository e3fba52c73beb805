"""Launcher on Spark: a task for each peer, in one barrier stage.

Spark starts all tasks of a barrier stage together. Task 0 chooses the meeting point, and all gather
it. A task starts the process of its peer and returns its outcome; when Spark cancels the stage, the
process ends too.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ._outcome import Outcome, results
from ._process import Meeting, free_address, pack_program, run_peer


def run(
    main: Callable[..., Any],
    *,
    peers: int,
    args: Sequence[Any] = (),
    workers: int = 1,
    spark: Any = None,
) -> list[Any]:
    """Runs ``main(cluster, *args)`` on `peers` tasks of Spark; returns the results by rank.

    `spark` is a ``SparkSession``, by default the active one. Spark needs a free slot for every peer.
    `workers` is the number of worker threads of a peer.
    """
    from pyspark.sql import SparkSession

    session = spark or SparkSession.getActiveSession()
    if session is None:
        raise RuntimeError("there is no active Spark session: pass one as `spark`")
    context = session.sparkContext
    program = pack_program(main, args)
    # The secret of the meeting, without an address yet.
    meeting = Meeting.at(peers, "", workers)
    group = f"hemiola-{uuid.uuid4().hex}"
    context.setJobGroup(group, "peers of a Hemiola job", interruptOnCancel=True)
    try:
        stage = context.parallelize(range(peers), peers).barrier()
        found = stage.mapPartitions(lambda _: _run_task(meeting, program)).collect()
    except KeyboardInterrupt:
        context.cancelJobGroup(group)
        raise
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)
    # Consequences of a failure come after it.
    ordered = sorted(found, key=lambda item: (item[1].kind == "value", item[1].is_consequence, item[0]))
    return results(dict(ordered), peers)


def _run_task(meeting: Meeting, program: bytes) -> Iterator[tuple[int, Outcome]]:
    from dataclasses import replace

    from pyspark import BarrierTaskContext

    context = BarrierTaskContext.get()
    rank = context.partitionId()
    host = context.getTaskInfos()[0].address.rpartition(":")[0] or "127.0.0.1"
    point = context.allGather(free_address(host) if rank == 0 else "")[0]
    yield rank, run_peer(replace(meeting, rendezvous=point), rank, program)
