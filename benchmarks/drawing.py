"""Pictures of the documentation: one SVG for one set of figures, byte for byte (needs matplotlib)."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def panels(rows: int, columns: int, width: float, height: float) -> tuple[Any, Any]:
    """A figure of panels, each so many inches wide and high, and the panels as a table."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "weft"  # the same picture has the same bytes
    mpl.rcParams["svg.fonttype"] = "none"  # text, not outlines
    from matplotlib import pyplot

    size = (width * columns, height * rows)
    found: tuple[Any, Any] = pyplot.subplots(
        rows, columns, figsize=size, layout="constrained", squeeze=False
    )
    return found


def save(figure: Any, path: Path) -> None:
    """Write a figure."""
    figure.savefig(path, metadata={"Date": None})
