"""Main function of the process of a peer: ``python -m hemiola.launch._peer FD``.

Reads the program from standard input, runs it, and writes the outcome to the file descriptor `FD`.
Standard input stays open as long as the launcher lives; when it closes, the process ends.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
from typing import IO


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

    try:
        sys.path[:], program = pickle.loads(packed)
        function, args = pickle.loads(program)
        from .. import _hemiola
        from .._cluster import run_program

        outcome = Outcome.of_value(run_program(_hemiola.join(None), function, args))
    except BaseException as error:
        outcome = Outcome.of_exception(error)
    sys.stdout.flush()
    sys.stderr.flush()
    with report:
        pickle.dump(outcome, report)
    return 0


def _end_with_launcher(control: IO[bytes]) -> None:
    """Waits until the launcher is gone, and ends this process and its children."""
    control.read()
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    raise SystemExit(main())
