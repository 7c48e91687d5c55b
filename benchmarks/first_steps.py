"""The first hundred steps of each workload, beside PyTorch: `python -m benchmarks.first_steps [--out FILE.svg]`.

Each library steps in fresh processes with an empty kernel cache; of several runs each step's median counts. Printed is
a line for each workload: the first step (with building the model), the longest after it, the median of the last fifty,
all hundred. `--out` draws all steps (needs matplotlib).
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks import dynamic, networks, novel, processes, training
from benchmarks.drawing import panels, save
from benchmarks.libraries import MODULES, fill, load
from benchmarks.measure import Job
from benchmarks.report import machine
from benchmarks.sequences import tagger

STEPS, SETTLED = 100, 50
COLOURS = {"pytorch": "#c9772b", "weft": "#3b6ea5"}


def tagging(lib: Any, quick: bool) -> Job:
    """The tagger on sentences that are new in each step."""
    statements = dynamic.load_example("parser").load_statements(64 if quick else 3200)
    vocabulary = dynamic.Vocabulary(statements)
    examples = [vocabulary.example(lib, statement, False) for statement in statements]
    words, tags, width = len(vocabulary.words), len(vocabulary.tags), 32 if quick else 128
    return dynamic.mean_loss_job(lib, fill(lib, tagger(lib, words, tags, width)), examples, 32)


def parsing(lib: Any, quick: bool) -> Job:
    """The parser, likewise."""
    example = dynamic.load_example("parser")
    statements = example.load_statements(64 if quick else 3200)
    return dynamic.parser_step(lib, example, statements, 32 if quick else 128, 32)


def lengths(lib: Any, quick: bool) -> Job:
    """The RNN whose sequences have another length in each step."""
    width, batch, some = networks.SMALL_RNN if quick else networks.RNN
    return networks.rnn_one_step(lib, width, batch, networks.shuffled_lengths(some))


WORKLOADS: dict[str, Callable[[Any, bool], Job]] = {
    "perceptron": lambda lib, quick: training.mlp_step(lib),
    **processes.WORKLOADS,
    "RNN of other lengths": lengths,
    "tagger": tagging,
    "parser": parsing,
    "random graphs": lambda lib, quick: novel.random_graphs(lib, 200, 16),
    "formulas": lambda lib, quick: novel.formulas(lib),
    "agents": lambda lib, quick: novel.agents(lib),
}


def step(workload: str, library: str, threads: int, quick: bool) -> list[float]:
    """The child: seconds of each step in this process."""
    lib = load([library], threads)[library]
    start = time.perf_counter()
    job = WORKLOADS[workload](lib, quick)
    seconds = []
    for _ in range(STEPS):
        job.run()
        now = time.perf_counter()
        seconds.append(now - start)
        start = now
    return seconds


def measure(workload: str, options: argparse.Namespace) -> dict[str, list[float]]:
    """Seconds of each step by library, medians over interleaved processes."""
    runs: dict[str, list[list[float]]] = {name: [] for name in MODULES}
    for _ in range(options.runs):
        for library, of_library in runs.items():
            with tempfile.TemporaryDirectory() as cache:
                size = ["--quick"] if options.quick else []
                told = ["--child", workload, library, "--threads", str(options.threads), *size]
                printed = processes.python("-m", "benchmarks.first_steps", *told, cache=cache)
            of_library.append(json.loads(printed))
    return {
        library: [statistics.median(times) for times in zip(*of_library, strict=True)]
        for library, of_library in runs.items()
    }


def line(workload: str, measured: dict[str, list[float]]) -> str:
    """A row of the table, in milliseconds, with PyTorch's figure over Weft's."""
    shown = [workload]
    for figure in (
        lambda seconds: seconds[0],
        lambda seconds: max(seconds[1:]),
        lambda seconds: statistics.median(seconds[-SETTLED:]),
        sum,
    ):
        theirs, own = (figure(measured[name]) * 1e3 for name in ("pytorch", "weft"))
        shown.append(f"{theirs:,.1f} / {own:,.1f} = {theirs / own:.2f}")
    return f"| {' | '.join(shown)} |"


def draw(results: dict[str, dict[str, list[float]]], path: Path) -> None:
    """Small panels of all steps, on logarithmic axes."""
    columns = 3
    figure, axes = panels(-(-len(results) // columns), columns, 10 / columns, 2.3)
    for place, (workload, measured) in zip(axes.flat, results.items(), strict=False):
        for library, seconds in measured.items():
            steps = range(1, len(seconds) + 1)
            label = {"pytorch": "PyTorch", "weft": "Weft"}[library]
            milliseconds = [value * 1e3 for value in seconds]
            place.plot(steps, milliseconds, color=COLOURS[library], linewidth=1, label=label)
        place.set(xscale="log", yscale="log", title=workload)
    for place in axes.flat[len(results) :]:
        place.set_visible(False)
    figure.supxlabel("step")
    figure.supylabel("milliseconds")
    axes.flat[0].legend()
    save(figure, path)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, draw."""
    top = argparse.ArgumentParser(prog="python -m benchmarks.first_steps", description=__doc__)
    top.add_argument("--only", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    top.add_argument("--threads", type=int, default=1)
    top.add_argument("--runs", type=int, default=3)
    top.add_argument("--quick", action="store_true", help="small sizes")
    top.add_argument("--out", type=Path)
    top.add_argument("--child", nargs=2, metavar=("WORKLOAD", "LIBRARY"), help=argparse.SUPPRESS)
    options = top.parse_args(arguments)
    if options.child:
        workload, library = options.child
        print(json.dumps(step(workload, library, options.threads, options.quick)))
        return 0
    print(*machine(options.threads), sep="\n", end="\n\n")
    print(
        "| ms, PyTorch / Weft = ratio | first step | longest after it | median of 51 to 100 | all |"
    )
    print("|---|---|---|---|---|", flush=True)
    results = {}
    for workload in options.only:
        results[workload] = measure(workload, options)
        print(line(workload, results[workload]), flush=True)
    if options.out:
        draw(results, options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
