"""The command `weft completion`: a script for a shell, made by shtab of the parser of the commands (decision 131)."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

SHELLS = ("bash", "zsh", "tcsh")


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    command.add_argument("shell", choices=SHELLS, help="whose language the script is in")


def run(options: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    """Print the script; the exit status."""
    try:
        import shtab
    except ImportError:
        print("weft completion: shtab is not installed (pip install shtab)", file=sys.stderr)
        return 1
    for action in _files(parser):
        action.complete = shtab.FILE  # type: ignore[attr-defined]
    print(shtab.complete(parser, shell=options.shell))
    return 0


def _files(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """The arguments that name files, of all commands."""
    for action in parser._actions:
        if action.type is Path or action.dest == "program":
            yield action
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from _files(command)
