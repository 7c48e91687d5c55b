"""The command `weft replay`: runs a capsule again, without the program that it was captured from."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from weft.debug.capsules.capsule import Capsule, load_capsule
from weft.debug.capsules.python_export import to_python
from weft.debug.capsules.reduction import reduce_capsule
from weft.errors import WeftError


def add_arguments(replay: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    replay.add_argument("capsule", type=Path, help="the file")
    replay.add_argument("--text", action="store_true", help="print every record")
    smaller = "write the smallest graph that still fails: raises, differs, or is not finite"
    replay.add_argument("--reduce", metavar="OUT", type=Path, help=smaller)
    program = "write it (with --reduce: what is left) as a Python test of Weft calls"
    replay.add_argument("--to-python", metavar="OUT", type=Path, help=program)


def run(options: argparse.Namespace) -> int:
    """0 where all values have the same bits as when they were captured, 1 where not, 2 where the file is refused."""
    try:
        return replay(options)
    except (WeftError, OSError, ImportError) as error:
        print(f"weft replay: {error}", file=sys.stderr)
        return 2


def replay(options: argparse.Namespace) -> int:
    """Run, compare, and write what is asked for."""
    capsule = load_capsule(options.capsule)
    print(repr(capsule)[1:-1])
    if options.text:
        print(capsule.text())
    report = capsule.replay()
    print(report)
    if options.reduce is not None:
        capsule = reduced(capsule, options.reduce)
    if options.to_python is not None:
        options.to_python.write_text(to_python(capsule))
        print(f"written {options.to_python}")
    return 0 if report.same else 1


def reduced(capsule: Capsule, path: Path) -> Capsule:
    """The smallest capsule that still fails, written and printed."""
    smaller = reduce_capsule(capsule)
    smaller.save(path)
    print(f"reduced to\n{smaller.text()}\nwritten {path}")
    return smaller
