"""The command ``hemiola`` of the package, which runs the command line of the Rust binary."""

from __future__ import annotations

import os
import signal
import sys

from ._hemiola import run_command_line


def main() -> int:
    """Runs the command line with the arguments of this process; returns its exit code.

    Signals are handled as in the binary: Python's handler of Ctrl-C would wait for bytecode that
    never runs.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    status = run_command_line(sys.executable, sys.argv[1:])
    sys.stdout.flush()
    # Nothing of the interpreter is left to clean up, and a closed standard output is no error.
    os._exit(status)
