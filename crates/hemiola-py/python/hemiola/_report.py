"""Report of a training run, shown as a table in notebooks."""

from __future__ import annotations

import html
import json
from typing import Any


class Report(dict[str, Any]):
    """Report of a training run: the JSON that ``hemiola train --report`` writes, as a dictionary."""

    @classmethod
    def of(cls, text: str) -> Report:
        """Reads a report from JSON."""
        return cls(json.loads(text))

    @property
    def epochs(self) -> int:
        """Number of completed epochs."""
        return len(self.get("progress", ()))

    @property
    def stop_reason(self) -> str:
        """Reason why training ended."""
        return str(self["result"]["stop_reason"])

    def __repr__(self) -> str:
        result = self["result"]
        return (
            f"<Report of {self['model']}: {self.epochs} epochs in {result['seconds']:.3g} s, "
            f"objective {result['objective']:.6g}, {result['stop_reason']}>"
        )

    def _repr_html_(self) -> str:
        result = self["result"]
        data = self["data"]
        cells = {
            "model": self["model"],
            "data": " × ".join(f"{extent:,}" for extent in data["shape"]),
            "training examples": f"{data['train']:,}",
            "peers × workers": f"{self['cluster']['peers']} × {self['cluster']['workers']}",
            "epochs": f"{self.epochs}",
            "seconds": f"{result['seconds']:.3g}",
            "objective": f"{result['objective']:.6g}",
            "end": result["stop_reason"],
        }
        rows = "".join(
            f"<tr><th style='text-align:left'>{html.escape(name)}</th><td>{html.escape(str(value))}</td></tr>"
            for name, value in cells.items()
        )
        return f"<table>{rows}</table>"
