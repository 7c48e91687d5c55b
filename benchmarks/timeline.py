"""A step of a workload, drawn by the engine's clock: `python -m benchmarks.timeline NAME [--out FILE.svg]`.

In: the name of a workload. Out: a table of its kernels, the longest first, and a picture: what the step consists of,
and its launches in order. The quickest of several steps counts, and of each launch the quickest.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import weft
from benchmarks import networks, training
from benchmarks.counting import Stages
from benchmarks.kernels import Launch, Timing, timing
from benchmarks.measure import Job
from benchmarks.models import GPTSize

JOBS: dict[str, Callable[[], Job]] = {
    "mlp": lambda: training.mlp_step(weft),
    "gpt": lambda: training.gpt_step(weft, GPTSize()),
    "lstm": lambda: networks.lstm_step(weft, *networks.LSTM),
    "resnet": lambda: networks.resnet_step(weft, *networks.RESNET),
    "rnn": lambda: networks.rnn_one_step(weft, 128, 16, [32]),
    "trees": lambda: _trees(),
}
# A kind of kernel, how its name begins or what it contains, its colour.
KINDS = (
    ("matrix products", ("gemm",), "#3b6ea5"),
    ("attention", ("attention",), "#7b4ea3"),
    ("copies", ("copy", "cat", "put"), "#c9772b"),
    ("gathers and scatters", ("indexed", "scatter", "rows", "take"), "#8a8a2b"),
    ("sums and extrema", ("sum", "amax", "max_"), "#3f8f5a"),
    ("elementwise", ("",), "#8fb8de"),
)
OUTSIDE = (("scheduling", "#b04a5a"), ("recording, walking, Python", "#b9b9b9"))
WIDTH, BAR, LINE = 960, 34, 18


def _trees() -> Job:
    """The same 32 trees at each step, so that the program is known."""
    from weft.demo.syntax_trees import load_functions

    data = load_functions(limit=60)
    return training.tree_step(weft, data, 128)


def kind_of(kernel: str) -> int:
    """The number of a kernel's kind."""
    for number, (_, marks, _) in enumerate(KINDS):
        whole = number < 3
        if any(kernel.startswith(mark) if whole else mark in kernel for mark in marks):
            return number
    return len(KINDS) - 1


def scheduling_share(run: Callable[[], Any], runs: int = 5) -> float:
    """The share of the time that goes into the stages between recording and running."""
    stages = Stages()
    start = time.perf_counter()
    with stages.timed():
        for _ in range(runs):
            run()
    return stages.seconds / (time.perf_counter() - start)


def table(measured: Timing, most: int = 12) -> str:
    """Kernels with their time and launches, the longest first."""
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for launch in measured.launches:
        sums[launch.kernel][0] += launch.seconds
        sums[launch.kernel][1] += 1
    lines = [f"step {measured.seconds * 1e3:.2f} ms, {measured.in_kernels:.0%} of it in kernels"]
    for kernel, (seconds, count) in sorted(sums.items(), key=lambda item: -item[1][0])[:most]:
        lines.append(f"{seconds * 1e3:9.3f} ms {count:6.0f} launches  {kernel[:80]}")
    return "\n".join(lines)


# -- the picture -----------------------------------------------------------------------------------


def box(x: float, y: float, width: float, colour: str, words: str) -> str:
    """A coloured rectangle with a title that is shown under the pointer."""
    shape = (
        f'<rect x="{x:.2f}" y="{y}" width="{max(width, 0.05):.2f}" height="{BAR}" fill="{colour}">'
    )
    return f"{shape}<title>{words}</title></rect>"


def text(x: float, y: float, words: str, size: int = 12) -> str:
    """A line of words."""
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}">{words}</text>'


def parts_of(measured: Timing, scheduling: float) -> list[tuple[str, str, float]]:
    """(name, colour, seconds): kinds of kernels, then what lies outside."""
    seconds = [0.0] * len(KINDS)
    for launch in measured.launches:
        seconds[kind_of(launch.kernel)] += launch.seconds
    kinds = [(name, colour, s) for (name, _, colour), s in zip(KINDS, seconds, strict=True)]
    stages = min(scheduling, 1 - min(measured.in_kernels, 1)) * measured.seconds
    rest = max(measured.seconds - sum(seconds) - stages, 0.0)
    outside = zip(OUTSIDE, (stages, rest), strict=True)
    parts = [*kinds, *((name, colour, s) for (name, colour), s in outside)]
    return [part for part in parts if part[2] > 0]


def drawing(title: str, measured: Timing, scheduling: float) -> str:
    """The step as an SVG picture."""
    parts = parts_of(measured, scheduling)
    whole = sum(seconds for _, _, seconds in parts)
    lines = [text(10, 20, f"{title}: {measured.seconds * 1e3:.1f} ms a step", 15)]
    x, y = 10.0, 32
    for name, colour, seconds in parts:
        width = WIDTH * seconds / whole
        lines.append(box(x, y, width, colour, f"{name}: {seconds * 1e3:.2f} ms"))
        x += width
    y += BAR + 20
    lines += legend(parts, whole, y)
    y += LINE * ((len(parts) + 2) // 3) + 14
    count = len(measured.launches)
    lines.append(text(10, y, f"the {count} launches in order, as wide as they are long"))
    lines += launches(measured.launches, y + 8)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH + 20}" height="{y + BAR + 20}"'
    ground = '<rect width="100%" height="100%" fill="white"/>'
    return "\n".join([f'{head} font-family="sans-serif">', ground, *lines, "</svg>"]) + "\n"


def legend(parts: Sequence[tuple[str, str, float]], whole: float, y: int) -> list[str]:
    """Colours and shares, three in a line."""
    lines = []
    for number, (name, colour, seconds) in enumerate(parts):
        x, below = 10 + number % 3 * 320, y + number // 3 * LINE
        lines.append(f'<rect x="{x}" y="{below - 10}" width="10" height="10" fill="{colour}"/>')
        lines.append(text(x + 16, below, f"{name}: {seconds * 1e3:.2f} ms, {seconds / whole:.0%}"))
    return lines


def launches(run: Sequence[Launch], y: int) -> list[str]:
    """One box for each launch; neighbours of a kind that are too thin to be seen are one."""
    total = sum(launch.seconds for launch in run)
    lines, x = [], 10.0
    start, seconds, kind, count = x, 0.0, -1, 0
    for launch in (*run, None):
        own = -2 if launch is None else kind_of(launch.kernel)
        if own != kind or WIDTH * seconds / total > 1:
            if count:
                words = f"{count} x {KINDS[kind][0]}: {seconds * 1e3:.3f} ms"
                lines.append(box(start, y, x - start, KINDS[kind][2], words))
            start, seconds, kind, count = x, 0.0, own, 0
        if launch is not None:
            seconds, count = seconds + launch.seconds, count + 1
            x += WIDTH * launch.seconds / total
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, draw."""
    top = argparse.ArgumentParser(prog="python -m benchmarks.timeline", description=__doc__)
    top.add_argument("name", choices=JOBS)
    top.add_argument("--threads", type=int, default=1)
    top.add_argument("--runs", type=int, default=10)
    top.add_argument("--out", type=Path)
    options = top.parse_args(arguments)
    weft.set_num_threads(options.threads)
    run = JOBS[options.name]().run
    measured = timing(run, options.runs)
    print(table(measured))
    if options.out:
        share = scheduling_share(run)
        options.out.write_text(drawing(options.name, measured, share))
    return 0


if __name__ == "__main__":
    sys.exit(main())
