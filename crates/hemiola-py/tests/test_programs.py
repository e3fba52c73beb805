"""Programs on clusters: threads of this process, processes of this host, jobs of a launcher."""

import multiprocessing
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time

import hemiola
import numpy as np
import pytest

TIMEOUT = 120


def collectives(cluster):
    """Calls every collective; raises an exception if a result is wrong."""
    rank, size = cluster.rank, cluster.size
    for dtype in ("float64", "float32", "int64", "int32", "uint8"):
        array = np.arange(6, dtype=dtype).reshape(2, 3) + rank
        array.flags.writeable = False
        total = cluster.all_reduce(array)
        expected = sum(np.arange(6, dtype=dtype).reshape(2, 3) + other for other in range(size))
        assert total.dtype == array.dtype and total.shape == (2, 3) and np.array_equal(total, expected)
        assert np.array_equal(cluster.all_reduce(array, "max"), np.arange(6, dtype=dtype).reshape(2, 3) + size - 1)
        assert np.array_equal(cluster.all_reduce(array, "min"), np.arange(6, dtype=dtype).reshape(2, 3))
    assert cluster.all_reduce(1.0) == size
    assert np.allclose(cluster.all_reduce(np.ones(3) * rank, "mean"), (size - 1) / 2)
    # Views that are not contiguous, in and out.
    columns = np.arange(12.0).reshape(3, 4)[:, ::2]
    out = np.zeros((3, 2))
    assert cluster.all_reduce(columns, out=out) is out and np.array_equal(out, columns * size)
    assert cluster.all_reduce(np.zeros((0, 3))).shape == (0, 3)
    found = cluster.broadcast(np.full((rank + 1, 2), rank, dtype="int16"), root=size - 1)
    assert found.shape == (size, 2) and found.dtype == "int16" and (found == size - 1).all()
    assert cluster.broadcast({"a": [1, None]} if rank == 0 else None) == {"a": [1, None]}
    large = cluster.broadcast(np.arange(100_000.0) if rank == 0 else None)
    assert large.sum() == np.arange(100_000.0).sum()
    parts = cluster.all_gather(np.full(rank, float(rank)))
    assert [part.tolist() for part in parts] == [[float(other)] * other for other in range(size)]
    assert cluster.all_gather(("rank", rank)) == [("rank", other) for other in range(size)]
    cluster.barrier()
    return rank


@pytest.mark.parametrize("peers", [1, 3])
def test_collectives_on_threads(peers):
    assert hemiola.standalone(peers).run(collectives) == list(range(peers))


def test_collectives_on_processes():
    assert hemiola.run(collectives, peers=3) == [0, 1, 2]


def test_a_program_without_a_launcher_is_a_single_peer():
    assert hemiola.run(lambda cluster, x: (cluster.size, x), args=(7,)) == (1, 7)


def test_functions_are_sent_by_value():
    bias = np.arange(3.0)

    def inner(cluster, factor):
        return cluster.all_reduce(bias * factor).tolist()

    assert hemiola.run(inner, peers=2, args=(2.0,)) == [[0.0, 4.0, 8.0]] * 2


def wrong_calls(cluster):
    texts = []
    for call in (
        lambda: cluster.all_reduce(np.zeros(2, dtype=complex)),
        lambda: cluster.all_reduce(np.zeros(2, dtype="int64"), "mean"),
        lambda: cluster.all_reduce(np.zeros(2), "product"),
        lambda: cluster.all_reduce(np.zeros(2), out=np.zeros(3)),
        lambda: cluster.all_reduce(np.zeros(2), out=np.zeros(2, dtype="float32")),
        lambda: cluster.all_reduce(np.array(["a"])),
        lambda: cluster.broadcast(1, root=9),
        lambda: cluster.table("w", width=0),
        lambda: cluster.table("w", dtype="int8"),
        lambda: cluster.table("w", update_rule="magic"),
    ):
        with pytest.raises((TypeError, ValueError)) as raised:
            call()
        texts.append(str(raised.value))
    read_only = np.zeros(2)
    read_only.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        cluster.all_reduce(np.zeros(2), out=read_only)
    return texts


def test_wrong_types_and_shapes_are_errors_with_a_way_out():
    (texts,) = hemiola.standalone(1).run(wrong_calls)
    for text, expected in zip(
        texts,
        ["complex128", "float64", "product", r"shape \(3,\)", "float32", "<U1", "no peer 9|peer 9", "width", "int8", "magic"],
        strict=True,
    ):
        assert re.search(expected, text), text


def test_arrays_of_different_lengths_are_an_error_on_every_peer():
    texts = {}

    def main(cluster):
        try:
            cluster.all_reduce(np.zeros(2 + cluster.rank))
        except Exception as error:
            texts[cluster.rank] = str(error)
            raise

    with pytest.raises(hemiola.PeerError):
        hemiola.standalone(2).run(main)
    assert sorted(texts) == [0, 1] and any("peer 0" in text and "peer 1" in text for text in texts.values()), texts


def count(cluster, staleness, clocks):
    table = cluster.table("w", rows=10, width=3, staleness=staleness)
    for clock in range(clocks):
        row = table.get(7)
        assert row.shape == (3,) and row.dtype == np.float32
        # Own updates are always seen; those of others up to the bound.
        assert row[0] >= clock + max(0, clock - staleness - 1) * (cluster.size - 1) - 1e-6
        table.add(7, [1.0, 0.0, 0.5])
        table.add([1, 2], np.ones((2, 3), dtype="float32"))
        table.clock()
    keys, rows = table.collect()
    return keys.tolist(), rows.tolist(), table.get([7, 1]).shape


@pytest.mark.parametrize("staleness", [0, 2])
def test_tables_are_read_and_updated_within_the_staleness_bound(staleness):
    for keys, rows, shape in hemiola.standalone(3, workers=2).run(count, args=(staleness, 5)):
        assert keys == [1, 2, 7] and shape == (2, 3)
        assert rows == [[15.0, 15.0, 15.0]] * 2 + [[15.0, 0.0, 7.5]]


def test_tables_on_processes():
    for keys, rows, _ in hemiola.run(count, peers=2, args=(1, 4)):
        assert keys == [1, 2, 7] and rows[2] == [8.0, 0.0, 4.0]


def rules(cluster):
    found = {}
    for rule in ("addition", "sgd", "adagrad", "adam", "adarevision"):
        table = cluster.table(rule, rows=4, dtype="float64", update_rule=rule, learning_rate=0.5, initial=1.0)
        table.get(1)
        table.add(1, [1.0])
        table.clock()
        found[rule] = table.collect()[1][0, 0]
    integers = cluster.table("i", dtype="int32")
    integers.add(2**40, np.array([3], dtype="int32"))
    integers.clock()
    assert integers.collect()[0].tolist() == [2**40] and integers.memory_bytes > 0
    uniform = cluster.table("u", rows=4, width=2, initial=("uniform", 2.0, 3.0), seed=5)
    assert (uniform.get([0, 3]) >= 2.0).all() and "staleness 0" in repr(uniform)
    return found


def test_update_rules_have_their_effect():
    (found,) = hemiola.standalone(1).run(rules)
    assert found["addition"] == 2.0 and found["sgd"] == 0.5
    assert all(found[rule] < 1.0 for rule in ("adagrad", "adam", "adarevision"))


def wrong_tables(cluster):
    table = cluster.table("w", rows=10, width=2)
    with pytest.raises(ValueError, match="shape"):
        table.add(1, [1.0])
    with pytest.raises(TypeError, match="complex"):
        table.add(1, [1j, 0])
    with pytest.raises(TypeError, match="integers"):
        table.get([0.5])
    with pytest.raises(ValueError, match="negative"):
        table.get(-1)
    with pytest.raises(ValueError, match="10"):
        table.get(10)
    return table


def test_wrong_keys_and_values_are_errors_and_a_closed_table_says_so():
    (table,) = hemiola.standalone(1).run(wrong_tables)
    with pytest.raises(RuntimeError, match="closed"):
        table.get(1)


def explained(cluster):
    cluster.table("weights", rows=3).clock()
    cluster.all_reduce(np.zeros(1000))
    report = cluster.explain()
    return str(report), report._repr_html_(), cluster.traffic()


def test_a_cluster_explains_itself():
    text, page, traffic = hemiola.standalone(2).run(explained)[1]
    assert "peer: 1 of 2" in text and "table weights: 3 rows" in text
    assert page.startswith("<table>") and "bytes sent" in page
    assert sum(line["bytes_sent"] for line in traffic) > 1000


def failing(cluster):
    if cluster.rank == 1:
        raise KeyError("the missing key")
    cluster.barrier()


@pytest.mark.parametrize("run", [lambda: hemiola.standalone(3).run(failing), lambda: hemiola.run(failing, peers=3)])
def test_an_exception_names_rank_and_traceback(run):
    with pytest.raises(hemiola.PeerError, match="peer 1 of 3 raised KeyError") as raised:
        run()
    assert raised.value.rank == 1 and isinstance(raised.value.__cause__, KeyError)
    assert 'raise KeyError("the missing key")' in raised.value.traceback


def learns(cluster):
    if cluster.rank == 1:
        raise KeyError("the missing key")
    try:
        cluster.barrier()
    except ConnectionError as error:
        return str(error)


def test_the_other_ranks_learn_who_failed_and_why(tmp_path):
    def main(cluster):
        text = learns(cluster)
        (tmp_path / str(cluster.rank)).write_text(text)

    with pytest.raises(hemiola.PeerError, match="peer 1 of 3"):
        hemiola.standalone(3).run(main)
    for rank in (0, 2):
        text = (tmp_path / str(rank)).read_text()
        assert "peer 1" in text and "KeyError: 'the missing key'" in text and "test_programs.py" in text


def test_a_killed_peer_is_named_and_the_others_end():
    def main(cluster):
        if cluster.rank == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        cluster.barrier()

    started = time.monotonic()
    with pytest.raises(hemiola.PeerError, match="peer 2 of 3 was ended by signal 9"):
        hemiola.run(main, peers=3)
    assert time.monotonic() - started < 60


def script(tmp_path, text):
    path = tmp_path / "program.py"
    path.write_text("import os, sys, time\nimport numpy as np\nimport hemiola\n" + textwrap.dedent(text))
    return path


def run_script(*command, timeout=TIMEOUT):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=timeout)


def test_a_program_of_the_launcher_joins_its_job(tmp_path):
    program = script(
        tmp_path,
        """
        def main(cluster):
            total = cluster.all_reduce(np.ones(2) * cluster.rank)
            cluster.println(cluster.size, total)
        hemiola.run(main)
        """,
    )
    launcher = [sys.executable, "-m", "hemiola", "run", "-n", "3", "--"]
    found = run_script(*launcher, sys.executable, program)
    assert found.returncode == 0 and "3 [3. 3.]" in found.stdout, found.stdout + found.stderr
    with_init = script(tmp_path, "cluster = hemiola.init()\nprint(cluster.all_reduce(1))\n")
    found = run_script(*launcher, sys.executable, with_init)
    assert found.returncode == 0 and found.stdout.count("3") >= 3, found.stdout + found.stderr


def test_a_failed_script_is_named_by_the_launcher(tmp_path):
    program = script(
        tmp_path,
        """
        cluster = hemiola.init()
        if cluster.rank == 1:
            raise ValueError("no such column")
        cluster.barrier()
        """,
    )
    found = run_script(sys.executable, "-m", "hemiola", "run", "-n", "2", "--", sys.executable, program)
    assert found.returncode != 0
    assert "no such column" in found.stderr and "peer 1" in found.stderr


def test_a_peer_of_a_launcher_does_not_start_peers(tmp_path):
    program = script(tmp_path, "hemiola.run(print, peers=2)\n")
    found = run_script(sys.executable, "-m", "hemiola", "run", "-n", "1", "--", sys.executable, program)
    assert found.returncode != 0 and "call hemiola.run without `peers`" in found.stderr


def test_ctrl_c_ends_all_processes(tmp_path):
    program = script(
        tmp_path,
        """
        def main(cluster):
            print("pid", os.getpid(), flush=True)
            if cluster.rank == 0:
                time.sleep(1000)
            cluster.barrier()
        hemiola.run(main, peers=2)
        """,
    )
    process = subprocess.Popen([sys.executable, str(program)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    pids = [int(process.stdout.readline().split()[-1]) for _ in range(2)]
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode != 0 and "KeyboardInterrupt" in errors
    assert_ended(pids)


def test_no_process_outlives_a_killed_launcher(tmp_path):
    program = script(
        tmp_path,
        """
        def main(cluster):
            print("pid", os.getpid(), flush=True)
            time.sleep(1000)
        hemiola.run(main, peers=2)
        """,
    )
    process = subprocess.Popen([sys.executable, str(program)], stdout=subprocess.PIPE, text=True)
    pids = [int(process.stdout.readline().split()[-1]) for _ in range(2)]
    process.kill()
    process.communicate(timeout=60)
    assert_ended(pids)


def assert_ended(pids):
    deadline = time.monotonic() + 30
    while left := [pid for pid in pids if os.path.exists(f"/proc/{pid}") and "Z" not in state(pid)]:
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


def state(pid):
    try:
        return open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "Z"


@pytest.mark.parametrize("repetition", range(5))  # the interrupt meets the main thread at different places
def test_ctrl_c_stops_a_wait_and_a_computation_on_threads(repetition):
    def main(cluster):
        if cluster.rank == 0:
            while True:
                sum(range(1000))
        cluster.barrier()

    timer = threading.Timer(0.5 + 0.013 * repetition, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        hemiola.standalone(2).run(main)
    timer.join()
    assert time.monotonic() - started < 30
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("hemiola")] == []
    # The next job is not disturbed.
    assert hemiola.standalone(2).run(lambda cluster: cluster.all_reduce(1)) == [2, 2]


def test_ctrl_c_stops_a_wait_of_the_main_thread(tmp_path):
    program = script(
        tmp_path,
        """
        def main(cluster):
            print("ready", flush=True)
            if cluster.rank == 0:
                time.sleep(1000)
            cluster.barrier()
        hemiola.run(main)
        """,
    )
    environment = {
        **os.environ,
        "HEMIOLA_SIZE": "2",
        "HEMIOLA_RENDEZVOUS": f"file:{tmp_path}/meeting",
        "HEMIOLA_SECRET": "0123456789abcdef0123456789abcdef",
    }
    peers = [
        subprocess.Popen(
            [sys.executable, str(program)],
            env={**environment, "HEMIOLA_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    for peer in peers:
        assert peer.stdout.readline() == "ready\n"
    time.sleep(0.5)
    peers[1].send_signal(signal.SIGINT)
    _, errors = peers[1].communicate(timeout=30)
    assert peers[1].returncode != 0 and "KeyboardInterrupt" in errors
    peers[0].kill()
    peers[0].communicate(timeout=30)


def test_other_python_threads_run_while_a_peer_waits():
    counted = [0]

    def main(cluster):
        if cluster.rank == 0:
            for _ in range(100):
                time.sleep(0.005)
                counted[0] += 1
        cluster.barrier()
        return counted[0]

    assert hemiola.standalone(2).run(main) == [100, 100]


def call_in_child(cluster, queue):
    try:
        cluster.barrier()
    except RuntimeError as error:
        queue.put(str(error))


def test_a_forked_process_is_told_that_it_cannot_use_the_cluster():
    def main(cluster):
        context = multiprocessing.get_context("fork")
        queue = context.Queue()
        child = context.Process(target=call_in_child, args=(cluster, queue))
        child.start()
        text = queue.get(timeout=60)
        child.join(60)
        # The parent is not disturbed.
        return text, cluster.all_reduce(1)

    ((text, total),) = [hemiola.run(main)]
    assert "forked from peer 0 of 1" in text and "spawn" in text and total == 1


def test_a_fork_that_runs_to_the_end_of_the_program_disturbs_nobody(tmp_path):
    program = script(
        tmp_path,
        """
        def main(cluster):
            child = os.fork()
            if child == 0:
                return
            _, status = os.waitpid(child, 0)
            print("child", os.waitstatus_to_exitcode(status), "sum", cluster.all_reduce(1), flush=True)
        hemiola.run(main)
        """,
    )
    found = run_script(sys.executable, "-m", "hemiola", "run", "-n", "2", "--", sys.executable, program)
    assert found.returncode == 0, found.stdout + found.stderr
    assert found.stdout.count("child 1 sum 2") == 2 and "forked from peer" in found.stderr


def test_a_cluster_is_closed_after_its_program():
    kept = []
    hemiola.standalone(1).run(kept.append)
    with pytest.raises(RuntimeError, match="has ended"):
        kept[0].barrier()


@pytest.mark.parametrize("peers", [0, -1, 2.5, True])
def test_a_wrong_number_of_peers_is_refused(peers):
    with pytest.raises(ValueError, match="peers =="):
        hemiola.run(print, peers=peers)


def test_importing_the_programs_needs_no_engine():
    code = "import sys, hemiola.launch.ray, hemiola.launch.dask, hemiola.launch.spark; print([n for n in ('ray', 'distributed', 'pyspark') if n in sys.modules])"
    assert run_script(sys.executable, "-c", code).stdout == "[]\n"
