"""Contract of all launchers, and the process of a peer that fulfils it.

A launcher chooses a `Meeting`: size, meeting point and secret, the same for all peers. On the host of
each peer it starts a `PeerProcess` with its rank. The process reads the program from standard input,
joins the job, and reports its outcome on a pipe. It ends when the launcher closes its standard input,
so no peer outlives its launcher, however that ends.
"""

from __future__ import annotations

import os
import pickle
import secrets
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import IO, Any

from ._outcome import Outcome

#: Time that peers have to end by themselves after one has failed, or after an interrupt.
GRACE_SECONDS = 5.0
#: Variables of other launchers, which must not give a peer another rank.
FOREIGN = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@dataclass(frozen=True)
class Meeting:
    """What all peers of a job have in common."""

    size: int
    #: ``host:port``, or ``file:/path`` on one host.
    rendezvous: str
    #: Secret with which the peers authenticate each other.
    secret: str
    #: Worker threads of each peer; ``None`` divides the cores of a host among `local_peers`.
    workers: int | None = None
    local_peers: int = 1

    @classmethod
    def at(cls, size: int, rendezvous: str, workers: int | None = None, local_peers: int = 1) -> Meeting:
        """Creates a meeting with a fresh secret."""
        return cls(size, rendezvous, secrets.token_hex(32), workers, local_peers)

    def variables(self, rank: int) -> dict[str, str]:
        """Returns the variables of a peer."""
        cores = len(os.sched_getaffinity(0))
        workers = max(1, cores // self.local_peers) if self.workers is None else self.workers
        return {
            "HEMIOLA_RANK": str(rank),
            "HEMIOLA_SIZE": str(self.size),
            "HEMIOLA_RENDEZVOUS": self.rendezvous,
            "HEMIOLA_SECRET": self.secret,
            "HEMIOLA_WORKERS": str(workers),
        }


def pack_program(main: Callable[..., Any], args: Sequence[Any]) -> bytes:
    """Packs a program by value, with the import path of this process."""
    import cloudpickle

    if not callable(main):
        raise TypeError(f"the program must be a function of a cluster, not {type(main).__name__}")
    packed: bytes = cloudpickle.dumps((sys.path, cloudpickle.dumps((main, tuple(args)))))
    return packed


def free_address(host: str) -> str:
    """Returns ``host:port`` with a port that is free now."""
    with socket.socket() as listener:
        listener.bind(("", 0))
        port = listener.getsockname()[1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class PeerProcess:
    """Process of a peer on this host.

    Its output is passed on line by line to ``sys.stdout`` and ``sys.stderr`` of this process, so that
    it appears in notebooks and in the logs of an engine; with `prefix`, its rank comes first.
    """

    def __init__(self, meeting: Meeting, rank: int, program: bytes, *, prefix: bool = True) -> None:
        self.rank = rank
        self._reaped = False
        own = {name: value for name, value in os.environ.items() if name not in FOREIGN}
        environment = {**own, **meeting.variables(rank), "PYTHONUNBUFFERED": "1"}
        reader, writer = os.pipe()
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "hemiola.launch._peer", str(writer)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                pass_fds=(writer,),
                process_group=0,
            )
        except BaseException:
            os.close(reader)
            raise
        finally:
            os.close(writer)
        label = f"[{rank}] " if prefix else ""
        streams = ((self.process.stdout, "stdout"), (self.process.stderr, "stderr"))
        self._relays = [
            threading.Thread(target=_relay, args=(stream, name, label), daemon=True, name=f"hemiola-{name}-{rank}")
            for stream, name in streams
        ]
        for relay in self._relays:
            relay.start()
        self._report = os.fdopen(reader, "rb")
        assert self.process.stdin is not None, "it is a pipe"
        try:
            self.process.stdin.write(len(program).to_bytes(8, "little") + program)
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # It died at once; `wait` tells how.

    def wait(self) -> Outcome:
        """Returns the outcome of the peer when its process has ended."""
        with self._report:
            report = self._report.read()
        code = self.process.wait()
        for relay in self._relays:
            relay.join(1.0)  # A process that the peer has left behind may hold its output open.
        self.kill()
        self._reaped = True
        return pickle.loads(report) if report else Outcome.of_exit(code)

    def interrupt(self) -> None:
        """Interrupts the program, as Ctrl-C does."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)

    def kill(self) -> None:
        """Ends the process and its children."""
        if self._reaped:
            return  # Its number may be that of another process by now.
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        if self.process.stdin is not None:
            try:
                self.process.stdin.close()
            except BrokenPipeError:
                pass


def run_peer(
    meeting: Meeting, rank: int, program: bytes, is_cancelled: Callable[[], bool] = lambda: False
) -> Outcome:
    """Runs a peer on this host to its end; for the code that an engine runs for each peer.

    `is_cancelled` is asked now and then whether the engine has given the peer up.
    """
    peer = PeerProcess(meeting, rank, program)
    outcomes: list[Outcome] = []
    waiter = threading.Thread(target=lambda: outcomes.append(peer.wait()), daemon=True)
    waiter.start()
    try:
        while waiter.is_alive():
            waiter.join(0.2)
            if is_cancelled():
                peer.kill()
    finally:
        peer.kill()
    waiter.join()
    return outcomes[0]


def _relay(stream: IO[bytes], name: str, label: str) -> None:
    with stream:
        for line in stream:
            target = getattr(sys, name)
            target.write(label + line.decode(errors="replace"))
            target.flush()
