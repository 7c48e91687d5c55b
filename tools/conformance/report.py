"""What was found, kept in build/conformance, as tables and as docs/compatibility.md.

A result of an entry is {column: {"tried": n, "failures": [[sample, cause, detail], ...]}}. An entry passes where no
column has a failure.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from conformance.reasons import DIFFERENCES, REASONS

HERE = Path(__file__).resolve().parent
KEPT = HERE.parents[1] / "build" / "conformance"
TIERS = ("A", "B", "C")
Entry = dict[str, dict[str, Any]]
Found = dict[str, Entry]


# -- tiers ---------------------------------------------------------------------------------------------------------


@cache
def tiers() -> dict[str, dict[str, list[str]]]:
    """The names of tiers A and B by group, as measured over public repositories."""
    loaded: dict[str, dict[str, list[str]]] = json.loads((HERE / "tiers.json").read_text())
    return loaded


def _plain(name: str) -> str:
    """A name without its place and spelling: nn.BatchNorm2d and nn.functional.batch_norm are one."""
    last = name.rpartition(".")[2].lower().replace("_", "")
    return re.sub(r"(?<=[a-z])[123]d$", "", last)


@cache
def _names(tier: str, spelled: bool) -> frozenset[str]:
    names = [name for group in tiers()[tier].values() for name in group]
    if spelled:
        return frozenset(names)
    return frozenset(_plain(name) for name in names if name.startswith("nn."))


def tier_of(database: str, entry: str) -> str:
    """A, B or C."""
    name = entry.partition("/")[0]
    spelled = {name, f"Tensor.{name}", f"Tensor.{name}_", f"optim.{name}", f"nn.{name}"}
    for tier in ("A", "B"):
        if spelled & _names(tier, True):
            return tier
        if name.startswith("nn.") and _plain(name) in _names(tier, False):
            return tier
    return "C"


# -- keeping -------------------------------------------------------------------------------------------------------


def keep(database: str, results: Iterable[tuple[str, Entry]], samples: int) -> None:
    """Write results down as they come, with the limit of samples (0: all); a later one of an entry replaces an earlier
    one."""
    KEPT.mkdir(parents=True, exist_ok=True)
    with (KEPT / f"{database}.jsonl").open("a") as file:
        for name, result in results:
            file.write(json.dumps([name, result, samples]) + "\n")
            file.flush()


def _lines(database: str) -> list[tuple[str, Entry, int]]:
    path = KEPT / f"{database}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def kept(database: str) -> Found:
    """The last result of each entry, in the order of the database where it can be had."""
    return {name: result for name, result, _ in _lines(database)}


def whole(database: str) -> int:
    """How many entries have last been run with all their samples."""
    limits = {name: samples for name, _, samples in _lines(database)}
    return sum(samples == 0 for samples in limits.values())


def failures(entry: Entry) -> list[tuple[str, str, str, str]]:
    """(column, sample, cause, detail) of all that failed."""
    return [(column, *failure) for column, part in entry.items() for failure in part["failures"]]


# -- tables --------------------------------------------------------------------------------------------------------


def columns(database: str, found: Found) -> list[str]:
    """The columns that occur, in the database's order."""
    known = list(getattr(import_module(f"conformance.{database}"), "COLUMNS", ()))
    used = {column for entry in found.values() for column in entry}
    return [c for c in known if c in used] + sorted(used - set(known))


def _share(part: Found, column: str) -> str:
    """Entries that pass a column, of those that it applies to."""
    among = [entry[column] for entry in part.values() if column in entry]
    return f"{sum(not c['failures'] for c in among)}/{len(among)}" if among else "-"


def table(database: str, found: Found) -> list[list[str]]:
    """Rows of cells: a line per tier, and all."""
    names = columns(database, found)
    rows = [["tier", "entries", *[c.replace("_", " ") for c in names], "samples"]]
    for tier in (*TIERS, "all"):
        part = {n: e for n, e in found.items() if e and tier in ("all", tier_of(database, n))}
        if not part:
            continue
        passed = sum(not failures(entry) for entry in part.values())
        tried = sum(c["tried"] for e in part.values() for c in e.values())
        bad = sum(len({f[0] for f in c["failures"]}) for e in part.values() for c in e.values())
        cells = [_share(part, column) for column in names]
        share = f"{passed}/{len(part)} {100 * passed / len(part):.1f} %"
        rows.append([tier, share, *cells, f"{tried - bad}/{tried}"])
    return rows


def causes(found: Found) -> dict[tuple[str, str], dict[str, str]]:
    """(column, cause) -> entry -> an example, most entries first."""
    grouped: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    for name, entry in found.items():
        for column, sample, cause, detail in failures(entry):
            grouped[column, cause].setdefault(name, f"{detail}  [{sample}]" if sample else detail)
    return dict(sorted(grouped.items(), key=lambda item: (-len(item[1]), item[0])))


def text(database: str, found: Found, verbose: bool = False) -> str:
    """The table and the failures by cause."""
    rows = table(database, found)
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [database, ""]
    lines += ["  ".join(f"{c:>{w}}" for c, w in zip(row, widths, strict=True)) for row in rows]
    lines.append("")
    for (column, cause), entries in causes(found).items():
        lines.append(f"{column}, {cause}: {len(entries)}")
        if verbose:
            lines += [f"    {name}: {example}" for name, example in entries.items()]
        else:
            lines.append("    " + " ".join(entries))
    return "\n".join(lines) + "\n"


# -- the page ------------------------------------------------------------------------------------------------------

TITLES = {
    "operators": "Operators",
    "modules": "Modules",
    "optimizers": "Optimizers",
    "names": "Names",
}
PAGE = """# Compatibility with PyTorch

After this page you will know how much of PyTorch's own tables of examples Weft agrees with, and where it differs.

Generated by `make conformance`; not to be edited. PyTorch's own databases of operators, modules and optimizers
(PyTorch {version}) are run against Weft. A cell says how many entries pass of those that a column applies to; an entry
passes where all its samples pass in all its columns. Tier A are the names that most programs use, B the names that
some use, C the rest of the database. The column of samples counts single checks; `--samples` limits how many of them
each column takes of an entry, so it is said how many entries have been run without a limit. Types that Weft does not
have (complex32, float8, unsigned integers of more than a byte) are left out of the column of dtypes. Where both
differ, a value also passes that agrees with PyTorch's at double precision or with the NumPy reference that the database
names, and a derivative that agrees with differences of PyTorch's own values, or with PyTorch's at double precision. An
error passes that has the class and the words that PyTorch's tests look for. What fails is listed by cause, in brackets
the reason where it is known.
"""
NEXT = """
## Where to go next

[PyTorch's names, module by module](names.md) lists the names that are missing. [Coming from
PyTorch](guide/from_pytorch.md) says what differs in use.
"""


def write_page(path: Path) -> None:
    """Write docs/compatibility.md from what is kept; a table stays as it is where only some of its entries are."""
    from importlib.metadata import version

    parts = [PAGE.format(version=version("torch").partition("+")[0])]
    before = _sections(path)
    for database, heading in TITLES.items():
        found = kept(database)
        count = len(import_module(f"conformance.{database}").entries())
        if len(found) < count and heading in before:
            parts.append(before[heading])
        elif found:
            run = f"{len(found)} of {count} entries have been run, {whole(database)} with all their samples."
            left = sorted(name for name, entry in found.items() if not entry)
            if left:
                run += f" PyTorch itself runs none of these on a CPU: {', '.join(map('`{}`'.format, left))}."
            shown = _markdown(table(database, found))
            parts.append(f"## {heading}\n\n{run}\n\n{shown}\n\n{_listed(found)}")
    parts.append(differences())
    path.write_text("\n".join(parts).rstrip() + "\n" + NEXT)


def _sections(path: Path) -> dict[str, str]:
    """The sections of the page as it is, by heading."""
    whole = path.read_text() if path.exists() else ""
    found = [f"## {part.rstrip()}\n" for part in whole.split("\n## ")[1:]]
    return {part.partition("\n")[0].removeprefix("## "): part for part in found}


def differences() -> str:
    """What is otherwise on purpose."""
    lines = [f"- {what}: {why}." for what, why in DIFFERENCES.items()]
    return "## Otherwise on purpose\n\n" + "\n".join(lines) + "\n"


def _markdown(rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])


def _listed(found: Found) -> str:
    """The failures by cause, an example for each entry."""
    counts = Counter({key: len(entries) for key, entries in causes(found).items()})
    lines = []
    for (column, cause), number in counts.most_common():
        lines.append(f"\n**{column.replace('_', ' ')}, {cause}** ({number})\n")
        for name, example in causes(found)[column, cause].items():
            short = example if len(example) <= 160 else example[:157] + "..."
            why = f" ({REASONS[name]})" if name in REASONS else ""
            lines.append(f"- `{name}`{why}: {short.replace('|', '/').replace('`', '')}")
    return "\n".join(lines).strip() + "\n" if lines else "Nothing fails.\n"
