"""Time and peak of training steps against a memory budget: `python -m benchmarks.memory_curve [--out FILE.svg]`.

The models of `benchmarks.budget` and an LSTM, in shares of the peak that Weft has without a budget, beside PyTorch with
and without checkpoints by hand. All ways of one model take turns in one process. Printed is a row for each way; `--out`
draws a panel for each model (needs matplotlib).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import budget
from benchmarks.drawing import panels, save
from benchmarks.libraries import load
from benchmarks.measure import Context
from benchmarks.report import machine

SHARES = (1.0, 0.75, 0.5, 0.35, 0.25)
COLOURS = {"pytorch": "#c9772b", "weft": "#3b6ea5"}
Points = dict[str, tuple[float, float]]  # by way: seconds, peak bytes


def rows(title: str, points: Points) -> list[str]:
    """The rows of a model's table: milliseconds and megabytes, beside the library's own without a bound."""
    shown = []
    for way, (seconds, peak) in points.items():
        own = points[budget.library_of(way)]
        ratios = f"{seconds / own[0]:.2f} | {peak / own[1]:.2f}"
        shown.append(f"| {title} | {way} | {seconds * 1e3:.1f} | {peak / 1e6:.1f} | {ratios} |")
    return shown


def draw(results: dict[str, Points], path: Path) -> None:
    """A panel for each model: seconds against peak bytes, the ways of Weft joined by a line."""
    figure, axes = panels(1, len(results), 3, 2.8)
    for place, (title, points) in zip(axes.flat, results.items(), strict=True):
        for library, label in (("pytorch", "PyTorch, checkpoints by hand"), ("weft", "Weft")):
            own = sorted(
                (peak / 1e6, seconds * 1e3)
                for way, (seconds, peak) in points.items()
                if budget.library_of(way) == library
            )
            place.plot(
                *zip(*own, strict=True), "o-", color=COLOURS[library], label=label, clip_on=False
            )
        place.set(title=title, xlim=(0, None), ylim=(0, None))
    figure.supxlabel("peak, MB")
    figure.supylabel("milliseconds")
    axes.flat[0].legend()
    save(figure, path)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, draw."""
    top = argparse.ArgumentParser(prog="python -m benchmarks.memory_curve", description=__doc__)
    top.add_argument("--only", nargs="+", choices=budget.MODELS, default=list(budget.MODELS))
    top.add_argument("--threads", type=int, default=1)
    top.add_argument("--turns", type=int, default=budget.MOST_TURNS)
    top.add_argument("--quick", action="store_true", help="small sizes")
    top.add_argument("--out", type=Path)
    options = top.parse_args(arguments)
    libraries = load(["pytorch", "weft"], options.threads)
    context = Context(libraries, options.threads, repeats=options.turns).hurried(options.quick)
    print(*machine(options.threads), sep="\n", end="\n\n")
    print("| step | way | ms | MB | time beside its own | peak beside its own |")
    print("|---|---|---:|---:|---:|---:|", flush=True)
    results = {}
    for title in options.only:
        results[title] = budget.points(context, title, SHARES)
        print(*rows(title, results[title]), sep="\n", flush=True)
    if options.out:
        draw(results, options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
