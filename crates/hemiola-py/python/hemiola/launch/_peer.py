"""Main function of the process of a peer: ``python -m hemiola.launch._peer FD``.

Reads the program from standard input, runs it, and writes the outcome to the file descriptor `FD`.
Standard input stays open as long as the launcher lives; when it closes, the process ends. When
another peer is lost and the program computes on, the process ends after a grace period, so that all
peers of a job end together on any engine.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
from typing import IO, Any

#: Time that a program has to end after the loss of another peer: it notices when it next waits.
LOSS_GRACE_SECONDS = 10.0
#: Interval between checks for a loss.
CHECK_SECONDS = 1.0


def main() -> int:
    """Runs the program of a peer."""
    report = os.fdopen(int(sys.argv[1]), "wb")
    os.set_inheritable(report.fileno(), False)
    control = os.fdopen(os.dup(0), "rb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    length = int.from_bytes(control.read(8), "little")
    packed = control.read(length)
    threading.Thread(target=_end_with_launcher, args=(control,), daemon=True, name="hemiola-launcher").start()

    from ._outcome import Outcome

    ended = threading.Event()
    try:
        sys.path[:], program = pickle.loads(packed)
        function, args = pickle.loads(program)
        from .. import _hemiola
        from .._cluster import run_program

        peer = _hemiola.join(None)
        arguments = (peer, ended, report)
        threading.Thread(target=_end_with_peers, args=arguments, daemon=True, name="hemiola-loss").start()
        outcome = Outcome.of_value(run_program(peer, function, args))
    except BaseException as error:
        outcome = Outcome.of_exception(error)
    ended.set()
    sys.stdout.flush()
    sys.stderr.flush()
    with report:
        pickle.dump(outcome, report)
    return 0


def _end_with_launcher(control: IO[bytes]) -> None:
    """Waits until the launcher is gone, and ends this process and its children."""
    control.read()
    os.killpg(0, signal.SIGKILL)


def _end_with_peers(peer: Any, ended: threading.Event, report: IO[bytes]) -> None:
    """Ends this process some time after another peer was lost, if its program has not ended by then."""
    from ._outcome import Outcome

    loss = None
    while loss is None:
        if ended.wait(CHECK_SECONDS):
            return
        loss = peer.failure()
    if not ended.wait(LOSS_GRACE_SECONDS):
        outcome = Outcome("raised", name="ConnectionError", text=loss, is_consequence=True)
        report.write(pickle.dumps(outcome))
        report.flush()
        os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    raise SystemExit(main())
