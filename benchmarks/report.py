"""Lines as text: printed as they come, and kept as a Markdown table in RESULTS.md.

In: lines with a figure for each library. Out: text with units and the ratio PyTorch/Weft.
"""

from __future__ import annotations

import datetime
import os
import platform
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from benchmarks.measure import Line

RESULTS = Path(__file__).with_name("RESULTS.md")
HEADINGS = ("workload", "PyTorch", "Weft", "ratio", "note")
TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))
BYTES = ((2.0**30, "GB"), (2.0**20, "MB"), (2.0**10, "kB"), (1.0, "B"))


def with_unit(figure: float, unit: str) -> str:
    """`1.23 ms`: three digits and the unit that suits the size."""
    scales = BYTES if unit == "B" else TIMES
    scale, name = next((pair for pair in scales if figure >= pair[0]), scales[-1])
    value = figure / scale
    return f"{value:.{0 if value >= 100 else 1 if value >= 10 else 2}f} {name}"


def cells(line: Line) -> tuple[str, str, str, str, str]:
    """A line's columns; the ratio is PyTorch's figure over Weft's."""
    rival, own = (line.figures.get(name) for name in ("pytorch", "weft"))
    shown = [with_unit(figure, line.unit) if figure else "" for figure in (rival, own)]
    ratio = f"{rival / own:.2f}x" if rival and own else ""
    return line.title, shown[0], shown[1], ratio, line.note


def print_heading() -> None:
    """The first line of the printed table."""
    print_cells(HEADINGS)


def print_line(line: Line) -> None:
    """A line of the printed table."""
    print_cells(cells(line))


def print_cells(texts: Sequence[str]) -> None:
    """Columns under each other."""
    title, rival, own, ratio, note = texts
    print(f"{title:<58} {rival:>9} {own:>9} {ratio:>8}  {note}", flush=True)


def machine(threads: int) -> list[str]:
    """What the figures depend on."""
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "llvmlite", "torch"))
    return [
        f"{cpu_name()}, {os.cpu_count()} cores, {threads} threads, {platform.system()}",
        f"Python {platform.python_version()}, weft {weft_version()}, {packages}",
    ]


def weft_version() -> str:
    """The version of the package that is measured, installed or not."""
    import weft

    return weft.__version__


def cpu_name() -> str:
    """The model, and the widest vectors that matter here."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or platform.machine()
    parts = (line.partition(":") for line in text.splitlines())
    fields = {name.strip(): value.strip() for name, _, value in parts}
    flags = fields.get("flags", "").split()
    vectors = next((name for name in ("avx512f", "avx2") if name in flags), platform.machine())
    return f"{fields.get('model name', platform.machine())} ({vectors})"


def write(lines: Sequence[Line], threads: int, arguments: str, path: Path = RESULTS) -> None:
    """Append the table to the results, with date and machine."""
    text = path.read_text() if path.exists() else "# Results\n"
    today = datetime.date.today().isoformat()
    rows = [" | ".join(cells(line)) for line in lines]
    table = [" | ".join(HEADINGS), "|".join(["---", "---:", "---:", "---:", "---"]), *rows]
    parts = [
        f"\n## {today}\n",
        *machine(threads),
        f"`python -m benchmarks {arguments}`".replace(" `", "`"),
        "\nMedians of interleaved runs; ratio is PyTorch's figure over Weft's.\n",
        *(f"| {row} |" if not row.startswith("---") else f"|{row}|" for row in table),
    ]
    path.write_text(text + "\n".join(parts) + "\n")
