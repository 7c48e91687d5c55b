"""Lines as text: printed as they come, and kept as a Markdown table in RESULTS.md.

In: lines with a figure for each library. Out: text with units and the ratio PyTorch/Weft.
"""

from __future__ import annotations

import datetime
import os
import platform
from collections.abc import Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from benchmarks import limits
from benchmarks.measure import Line

RESULTS = Path(__file__).with_name("RESULTS.md")
HEADINGS = (
    "workload", "PyTorch", "torch.compile", "JAX", "Weft", "ratio", "target", "limit", "share", "note"
)  # fmt: skip
NAMES = ("pytorch", "torch.compile", "jax", "weft")
WIDTHS = (58, 9, 13, 9, 9, 8, 6, 9, 5, 0)
TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))
BYTES = ((2.0**30, "GB"), (2.0**20, "MB"), (2.0**10, "kB"), (1.0, "B"))


def with_unit(figure: float, unit: str) -> str:
    """`1.23 ms`: three digits and the unit that suits the size."""
    scales = BYTES if unit == "B" else TIMES
    scale, name = next((pair for pair in scales if figure >= pair[0]), scales[-1])
    value = figure / scale
    return f"{value:.{0 if value >= 100 else 1 if value >= 10 else 2}f} {name}"


def cells(line: Line) -> tuple[str, ...]:
    """A line's columns; the ratio is PyTorch's figure over Weft's, the share is that of the limit in Weft's time."""
    figures = [line.figures.get(name) for name in NAMES]
    shown = [with_unit(figure, line.unit) if figure else "" for figure in figures]
    rival, own = figures[0], figures[-1]
    return (
        line.title,
        *shown,
        f"{rival / own:.2f}x" if rival and own else "",
        f"{line.target:.3g}x" if line.target else "",
        with_unit(line.limit, "s") if line.limit else "",
        f"{line.limit / own:.0%}" if line.limit and own else "",
        line.note,
    )


def print_heading() -> None:
    """The first line of the printed table."""
    print_cells(HEADINGS)


def print_line(line: Line) -> None:
    """A line of the printed table."""
    print_cells(cells(line))


def print_cells(texts: Sequence[str], widths: Sequence[int] = WIDTHS) -> None:
    """Columns under each other."""
    title, *others = zip(texts, widths, strict=True)
    padded = [f"{title[0]:<{title[1]}}", *(f"{text:>{width}}" for text, width in others)]
    print(" ".join(padded), flush=True)


def machine(threads: int) -> list[str]:
    """What the figures depend on."""
    names = [name for name in ("numpy", "llvmlite", "torch", "jax") if find_spec(name)]
    packages = ", ".join(f"{name} {version(name)}" for name in names)
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
    rule = "|".join(["---", *["---:"] * (len(HEADINGS) - 2), "---"])
    table = [" | ".join(HEADINGS), rule, *rows]
    parts = [
        f"\n## {today}\n",
        *machine(threads),
        limits.words(threads),
        f"`python -m benchmarks {arguments}`".replace(" `", "`"),
        "\nMedians of interleaved runs; ratio is PyTorch's figure over Weft's, share that of the machine's limit.\n",
        *(f"| {row} |" if not row.startswith("---") else f"|{row}|" for row in table),
    ]
    path.write_text(text + "\n".join(parts) + "\n")
