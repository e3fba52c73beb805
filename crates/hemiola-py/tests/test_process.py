"""The process around a fit: the command, signals, forks, threads, the start of the interpreter."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import hemiola
from hemiola._data import rows_of

COMMAND = [sys.executable, "-m", "hemiola"]


def run(*arguments, **options):
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=300, **options)


def test_the_command_has_the_version_of_the_package():
    found = run("--version")
    assert found.returncode == 0 and found.stdout == f"hemiola {hemiola.__version__}\n"


def test_the_command_has_the_exit_codes_of_the_binary():
    assert run("train", "mf", "--data", "/no/such/file").returncode == 2
    wrong = run("train", "nonsense")
    assert wrong.returncode == 2 and "hemiola:" in wrong.stderr


def test_the_command_trains_on_several_peers(tmp_path):
    ratings = tmp_path / "ratings.csv"
    ratings.write_text("".join(f"{user},{item},{(user + item) % 5}\n" for user in range(40) for item in range(20)))
    found = run("train", "mf", "--data", str(ratings), "--peers", "2", "--workers", "1", "--epochs", "2")
    assert found.returncode == 0, found.stderr
    assert "2 peers" in found.stdout + found.stderr


def test_a_signal_ends_the_command():
    process = subprocess.Popen([*COMMAND, "train", "mf", "--epochs", "1000000", "--patience", "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.readline()
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    assert process.returncode == 130


def test_importing_the_package_loads_no_estimator():
    code = "import sys, hemiola; print([name for name in ('numpy', 'sklearn', 'scipy') if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert found.stdout == "[]\n", found.stderr


def long_fit():
    generator = np.random.default_rng(1)
    X = generator.normal(size=(3000, 30))
    return hemiola.KMeans(50, tol=0, batch_size=100, max_iter=2**31, random_state=1).fit(X)


def test_ctrl_c_stops_a_fit():
    # Engines that other tests have started may have threads.
    before = threading.active_count()
    timer = threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        long_fit()
    timer.join()
    # Nothing of the interrupted fit is left. Its workers end by themselves, a moment after it.
    assert threading.active_count() <= before
    deadline = time.monotonic() + 60
    while left := [name for name in thread_names() if name.startswith("hemiola")]:
        assert time.monotonic() < deadline, left
        time.sleep(0.01)


def thread_names():
    folder = f"/proc/{os.getpid()}/task"
    names = []
    for task in os.listdir(folder):
        try:
            names.append(open(f"{folder}/{task}/comm").read().strip())
        except (FileNotFoundError, ProcessLookupError):
            pass  # it ended meanwhile
    return names


def test_an_exception_of_the_progress_function_stops_the_fit_and_is_raised():
    from hemiola import _hemiola
    from hemiola._base import Job

    def progress(epoch, objective):
        raise RuntimeError(f"stop at {epoch}")

    X = np.random.default_rng(1).normal(size=(1000, 10))
    with pytest.raises(RuntimeError, match="stop at 1"):
        _hemiola.fit_kmeans(
            rows_of(X), Job(1, progress), clusters=5, centers=None, batch_size=10, tolerance=0.0, epochs=2**31, seed=1
        )


def test_other_python_threads_run_during_a_fit():
    counted, done = [0], threading.Event()

    def count():
        while not done.is_set():
            counted[0] += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    X = np.random.default_rng(1).normal(size=(5000, 30))
    before = counted[0]
    hemiola.KMeans(50, tol=0, batch_size=50, max_iter=20, random_state=1).fit(X)
    during = counted[0] - before
    done.set()
    thread.join()
    assert during > 1


def fit_in_child(queue):
    X = np.random.default_rng(1).normal(size=(200, 3))
    queue.put(float(hemiola.KMeans(3, random_state=1, workers=2).fit(X).inertia_))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_child_process_fits_after_its_parent_did(method):
    X = np.random.default_rng(1).normal(size=(200, 3))
    expected = hemiola.KMeans(3, random_state=1, workers=2).fit(X).inertia_
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    child = context.Process(target=fit_in_child, args=(queue,))
    child.start()
    assert queue.get(timeout=120) == expected
    child.join(60)
    assert child.exitcode == 0


def test_broken_matrices_are_errors():
    from hemiola import _hemiola
    from hemiola._base import Job
    from hemiola._data import Lines

    values, positions = np.ones(2), np.array([0, 7], dtype=np.int32)
    for lines in (
        Lines(values, positions, np.array([0, 1, 2], dtype=np.int32), 2, 3),  # a position beyond the width
        Lines(values, np.array([0, -1], dtype=np.int32), np.array([0, 1, 2], dtype=np.int32), 2, 3),
        Lines(values, np.array([0, 1], dtype=np.int32), np.array([0, 2, 1], dtype=np.int32), 2, 3),
        Lines(values, None, None, 2, 3),
    ):
        with pytest.raises(ValueError, match="do not fit together"):
            _hemiola.fit_ridge(
                lines, np.zeros(2), Job(1, None), weights=None, alpha=1.0, intercept=True, tolerance=1e-3, epochs=5
            )


@pytest.mark.parametrize("workers", [0, -2, 1.5, "all"])
def test_a_wrong_number_of_workers_is_refused(workers):
    with pytest.raises(ValueError, match="workers == "):
        hemiola.Ridge(workers=workers).fit(np.eye(3), np.arange(3.0))


def test_the_progress_bar_goes_to_standard_error(capsys):
    hemiola.KMeans(2, verbose=True, random_state=1).fit(np.random.default_rng(1).normal(size=(50, 2)))
    shown = capsys.readouterr()
    assert shown.out == "" and "KMeans" in shown.err and "epoch 1/300" in shown.err
