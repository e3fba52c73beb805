"""Report of a training run, shown as a table in notebooks, and its learning curve."""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any

from . import _hemiola


class Picture:
    """Picture that notebooks show. Printed, it is drawn with characters."""

    def __init__(self, svg: str, png: bytes, text: str) -> None:
        self.svg, self.png, self.text = svg, png, text

    def save(self, path: str | Path) -> None:
        """Writes the picture to a file: PNG if the name ends so, else SVG."""
        path = Path(path)
        if path.suffix.lower() == ".png":
            path.write_bytes(self.png)
        else:
            path.write_text(self.svg, encoding="utf-8")

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text

    def _repr_svg_(self) -> str:
        return self.svg


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

    def plot(self, metric: str = "objective") -> Picture:
        """Draws a number of each epoch, by default the objective, over the epochs."""
        epochs = self.get("progress", [])
        points = [[float(epoch["epoch"]), float(epoch[metric])] for epoch in epochs if epoch.get(metric) is not None]
        if not points:
            names = sorted({name for epoch in epochs for name, value in epoch.items() if isinstance(value, (int, float))})
            raise ValueError(f"the report has no metric {metric!r}; it has {', '.join(names) or 'no epochs'}")
        return Picture(*_hemiola.draw_chart(str(self["model"]), "epoch", metric, [(metric, points)]))

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
