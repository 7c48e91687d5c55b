"""The command: `python -m benchmarks [--only NAME ...] [--all] [--threads N] [--quick] [--write]`.

Without names: the workloads that have a target, a few minutes. `--all` adds the long and the special ones.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import traceback
from collections.abc import Sequence
from dataclasses import replace

from benchmarks import limits, report
from benchmarks.libraries import MODULES, RIVALS, load
from benchmarks.measure import Context, Line
from benchmarks.rivals import figures_of
from benchmarks.suite import CORE, SUITE


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    top = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    top.add_argument("--only", nargs="+", choices=SUITE, metavar="NAME", help=", ".join(SUITE))
    top.add_argument("--all", action="store_true", help="not only what has a target")
    top.add_argument("--rivals", nargs="*", choices=RIVALS, default=RIVALS, help="beside PyTorch")
    top.add_argument("--dynet", default="", metavar="PYTHON", help="a Python (3.8) that has DyNet")
    top.add_argument("--calls", default="", metavar="PATTERN", help="of a scan: only those")
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
    context = Context(libraries, options.threads, dynet=options.dynet, report=keep)
    context = replace(context, calls=options.calls)
    context = context.hurried(options.quick)
    rivals = [] if options.library else list(options.rivals)
    print(*report.machine(options.threads), limits.words(options.threads), sep="\n", end="\n\n")
    report.print_heading()
    failed = []
    for name in options.only or (SUITE if options.all else CORE):
        try:
            SUITE[name](replace(context, beside=figures_of(name, context, rivals)))
        except Exception:  # noqa: BLE001 - the others are still to be measured
            traceback.print_exc()
            failed.append(name)
    if options.write:
        given = sys.argv[1:] if arguments is None else arguments
        report.write(lines, options.threads, shlex.join(given))
    if failed:
        print(f"failed, see above: {' '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
