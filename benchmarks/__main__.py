"""The command: `python -m benchmarks [--only NAME ...] [--all] [--threads N] [--quick] [--write]`.

Without names: the workloads that have a target, a few minutes. `--all` adds the long and the special ones.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace

from benchmarks import (
    contraction,
    derivatives,
    dynamic,
    elementwise,
    limits,
    loading,
    moving,
    networks,
    processes,
    ragged,
    recording,
    report,
    training,
    watching,
)
from benchmarks.libraries import MODULES, RIVALS, load, load_rivals
from benchmarks.measure import Context, Line

SUITE: dict[str, Callable[[Context], None]] = {
    "record": recording.record,
    "chain": recording.chain,
    "loop": recording.loop,
    "launch": recording.launch,
    "gelu": elementwise.gelu,
    "gelu32": elementwise.large_gelu,
    "norms": elementwise.norms,
    "sums": elementwise.sums,
    "transposes": moving.transposes,
    "joining": moving.joining,
    "picking": moving.picking,
    "gemm": contraction.gemm,
    "gemm2048": contraction.large,
    "small": contraction.small,
    "skinny": contraction.skinny,
    "mlp": training.mlp,
    "updates": training.updates,
    "gpt": training.language,
    "lengths": networks.any_length,
    "lstm": networks.lstm,
    "resnet": networks.images,
    "trees": training.trees,
    "treelstm": dynamic.syntax_trees,
    "sentences": dynamic.sentences,
    "tagger": dynamic.tagging,
    "characters": dynamic.spelling,
    "molecules": dynamic.molecules,
    "parser": dynamic.parsing,
    "exit": dynamic.exiting,
    "ragged": ragged.ragged,
    "hook": derivatives.hook,
    "function": derivatives.function,
    "samples": derivatives.samples,
    "anomaly": watching.anomaly,
    "leaks": watching.leaks,
    "loading": loading.loading,
    "first": processes.first_step,
    "import": processes.importing,
    "memory": processes.memory,
}
CORE = (
    "record", "chain", "loop", "launch", "gelu", "norms", "sums", "transposes", "joining", "picking", "gemm", "small",
    "skinny", "mlp", "gpt", "lengths", "resnet", "lstm", "trees", "sentences", "loading", "first", "memory", "import",
)  # fmt: skip


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    top = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    top.add_argument("--only", nargs="+", choices=SUITE, metavar="NAME", help=", ".join(SUITE))
    top.add_argument("--all", action="store_true", help="not only what has a target")
    top.add_argument("--rivals", nargs="*", choices=RIVALS, default=RIVALS, help="beside PyTorch")
    top.add_argument("--threads", type=int, default=os.cpu_count(), help="for both libraries")
    top.add_argument("--quick", action="store_true", help="small sizes, few turns: a check")
    top.add_argument("--library", choices=MODULES, help="run one side alone, to profile it")
    top.add_argument("--write", action="store_true", help=f"append to {report.RESULTS.name}")
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    options = parser().parse_args(arguments)
    lines: list[Line] = []

    def keep(line: Line) -> None:
        lines.append(line)
        report.print_line(line)

    names = [options.library] if options.library else list(MODULES)
    libraries = load(names, options.threads)
    rivals = {} if options.library else load_rivals(options.rivals, options.threads)
    context = Context(libraries, options.threads, report=keep, rivals=rivals)
    if options.quick:
        context = replace(context, quick=True, repeats=5, turn_seconds=0.01, budget_seconds=1.0)
    print(*report.machine(options.threads), limits.words(options.threads), sep="\n", end="\n\n")
    report.print_heading()
    for name in options.only or (SUITE if options.all else CORE):
        SUITE[name](context)
    if options.write:
        given = sys.argv[1:] if arguments is None else arguments
        report.write(lines, options.threads, shlex.join(given))
    return 0


if __name__ == "__main__":
    sys.exit(main())
