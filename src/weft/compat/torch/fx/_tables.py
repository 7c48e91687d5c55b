"""Tables as text, in the plain form of the package `tabulate`."""

from __future__ import annotations

from collections.abc import Iterable


def table(headers: list[str], rows: Iterable[Iterable[object]]) -> str:
    """Columns of equal width under their headers."""
    lines = [headers, *([str(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
