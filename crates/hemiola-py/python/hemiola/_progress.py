"""Progress of training: a line on standard error that is rewritten, or a display in a notebook."""

from __future__ import annotations

import sys
from typing import Any


class ProgressBar:
    """Bar over the epochs of a fit. Used as a context manager, whose value is the progress function."""

    WIDTH = 30

    def __init__(self, name: str, epochs: int) -> None:
        self.name = name
        self.epochs = max(epochs, 1)
        self.handle: Any = None
        self.shown = False

    def __enter__(self) -> ProgressBar:
        return self

    def __call__(self, epoch: int, objective: float) -> None:
        filled = min(self.WIDTH, self.WIDTH * epoch // self.epochs)
        bar = "█" * filled + "░" * (self.WIDTH - filled)
        self.show(f"{self.name} {bar} epoch {epoch}/{self.epochs}, objective {objective:.6g}")

    def show(self, line: str) -> None:
        """Replaces the shown line."""
        if _in_notebook():
            from IPython.display import display  # type: ignore[import-not-found]

            content = {"text/plain": line}
            if self.handle is None:
                self.handle = display(content, raw=True, display_id=True)
            else:
                self.handle.update(content, raw=True)
        elif sys.stderr.isatty():
            sys.stderr.write(f"\r\x1b[2K{line}")
            sys.stderr.flush()
            self.shown = True
        else:
            print(line, file=sys.stderr)

    def __exit__(self, *exception: object) -> None:
        if self.shown:
            sys.stderr.write("\n")
            sys.stderr.flush()


def _in_notebook() -> bool:
    """Returns whether the shell of this process is a notebook's. IPython is not imported for that."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return type(shell).__name__ == "ZMQInteractiveShell"
