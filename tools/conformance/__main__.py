"""Runs the conformance checks and prints their tables.

python tools/conformance                            everything; writes docs/compatibility.md
python tools/conformance operators                  one database (operators, modules, optimizers, names)
python tools/conformance operators --op add --op nn.functional.relu -v
python tools/conformance operators --tier A --samples 3
python tools/conformance errors                     only the error inputs of all databases
python tools/conformance --shard 1/4                a quarter; what is found is kept in build/conformance
python tools/conformance --rest                     what is not kept yet: goes on with a run that was cut
python tools/conformance tree                       every public name of PyTorch's modules; writes docs/names.md
python tools/conformance examples                   the examples of PyTorch's documentation, by both libraries
python tools/conformance --report                   tables and page from what is kept
"""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[0] = str(ROOT / "tools")

from conformance import guard, report  # noqa: E402 - after the path is set

DATABASES = ("operators", "modules", "optimizers", "names")


def arguments() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(
        prog="conformance", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("database", nargs="*", help=", ".join(DATABASES))
    parser.add_argument("--op", action="append", default=[], help="an entry (or its name)")
    parser.add_argument("--tier", choices=("A", "B", "C"), help="entries of one tier")
    parser.add_argument("--shard", default="1/1", help="which part: number/count")
    parser.add_argument("--samples", type=int, default=0, help="most samples per check (0: all)")
    parser.add_argument("--timeout", type=float, default=120.0, help="seconds per entry")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--failed", action="store_true", help="only entries that failed before")
    parser.add_argument("--rest", action="store_true", help="only entries that nothing is kept of")
    parser.add_argument("--report", action="store_true", help="run nothing, use what is kept")
    parser.add_argument("--page", action="store_true", help="write docs/compatibility.md")
    parser.add_argument("-v", "--verbose", action="store_true", help="every failure")
    return parser.parse_args()


def chosen(database: str, options: argparse.Namespace) -> list[str]:
    """The entries of a database that were asked for."""
    names = guard.entries(database)
    if options.op:
        return [n for n in names if n in options.op or n.partition("/")[0] in options.op]
    if options.tier:
        names = [name for name in names if report.tier_of(database, name) == options.tier]
    kept = report.kept(database)
    if options.failed:
        names = [n for n in names if n not in kept or report.failures(kept[n])]
    if options.rest:
        names = [n for n in names if n not in kept]
    number, count = (int(part) for part in options.shard.split("/"))
    return names[number - 1 :: count]


def main() -> int:
    """Run what was asked for; 0 where every check of it passes."""
    options = arguments()
    if options.database == ["examples"]:
        print(*import_module("conformance.examples").report(), sep="\n")
        return 0
    if options.database == ["tree"]:
        import_module("conformance.tree").write()
        return 0
    databases = [name for name in options.database or DATABASES if guard.exists(name)]
    found = {}
    for database in databases:
        names = chosen(database, options)
        if not options.report:
            limits = guard.Limits(options.timeout, options.samples, options.jobs)
            report.keep(database, guard.run(database, names, limits), options.samples)
        kept = report.kept(database)
        found[database] = {name: kept[name] for name in names if name in kept}
        print(report.text(database, found[database], options.verbose or bool(options.op)))
    if options.page or not (options.op or options.tier or options.database):
        report.write_page(ROOT / "docs" / "compatibility.md")
    return int(any(report.failures(entry) for part in found.values() for entry in part.values()))


if __name__ == "__main__":
    sys.exit(main())
