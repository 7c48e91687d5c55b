"""Writes the figures of pages from benchmarks/RESULTS.md: `python tools/figures.py`; `--check` says which are stale.

In: the tables of benchmarks/RESULTS.md, and pages that say where a block of figures stands, between the lines
`<!-- figures: NAME -->` and `<!-- end of figures -->`. Out: these blocks, written anew by the function of that name in
`BLOCKS`. A ratio is PyTorch's figure over Weft's, of the newest table with this row on each machine; where machines
differ, the least and the largest stand there.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "RESULTS.md"
PAGES = ("README.md", "docs/guide/memory.md", "docs/guide/performance.md", "docs/performance.md")
BLOCK = re.compile(r"(<!-- figures: ([\w ]+) -->\n)(.*?)(<!-- end of figures -->)", re.DOTALL)
MEASURED = re.compile(
    r"(?<![\w.])\d[\d.,]*(?: to [\d.,]+)? ?(?:us|ms|MB|GB|GFLOP/s|%|times as)(?!\w)"
)
HEADING = re.compile(r"^## (.*)$", re.MULTILINE)

# What the README compares, and the rows of RESULTS.md.
COMPARED = {
    "Tree-LSTM, 32 trees": "Tree-LSTM d 128, batch 32",
    "BiLSTM tagger, 32 sentences of any length": "BiLSTM tagger d 128, batch 32",
    "the same, padded and packed by hand for PyTorch": (
        "BiLSTM tagger d 128, batch 32, PyTorch packed by hand"
    ),
    "stack parser that decides by values, 32 statements": (
        "stack-LSTM parser d 128, values read, batch 32"
    ),
    "GRU that stops where it likes, 32 examples": (
        "GRU with early exit d 128, values read, batch 32"
    ),
    "perceptron, batch 64": "MLP 64-256-256-10, batch 64, AdamW step",
    "GPT, 4 layers": "GPT 4 x 256, T 128, batch 8, AdamW step",
    "ResNet, 8 blocks": "ResNet of 8 blocks, 32 x 32, batch 16, AdamW step",
}
CALLS = {
    "recording an operation (PyTorch runs it)": "a + b, no grad",
    "an operation in a chain of 200": "chain of 200 ops, per op",
    "a turn of a loop that reads a value": "while y.norm() < 1000, per turn",
}
STEPS = {
    **COMPARED,
    "RNN over sequences of other lengths": "RNN d 128, batch 16, lengths 5 to 60, AdamW step",
    "LSTM language model": "LSTM language model, batch 32, T 64, d 256, AdamW step",
}
LOADED = {
    "64 x 16 numbers, in this process": "DataLoader, 16 numbers x 64, in this process",
    "64 x 16 numbers, 1 worker": "DataLoader, 16 numbers x 64, 1 worker",
    "64 x 16 numbers, 2 workers": "DataLoader, 16 numbers x 64, 2 workers",
    "16 images of 3 x 224 x 224, in this process": "DataLoader, an image x 16, in this process",
    "16 images of 3 x 224 x 224, 1 worker": "DataLoader, an image x 16, 1 worker",
    "16 images of 3 x 224 x 224, 2 workers": "DataLoader, an image x 16, 2 workers",
}
SHARES = ("0.75", "0.5", "0.35", "0.25")


class Row(NamedTuple):
    """A row of a table: the section that it stands in, its machine, and its cells by column."""

    section: str
    machine: str
    cells: dict[str, str]

    @property
    def ratio(self) -> float:
        """PyTorch's figure over Weft's."""
        return float(self.cells["ratio"].rstrip("x"))


def rows(text: str) -> Iterator[Row]:
    """All rows of all tables, in the order of the file."""
    parts = HEADING.split(text)
    for section, body in zip(parts[1::2], parts[2::2], strict=True):
        machine = body.strip().partition("\n")[0]
        for table in re.findall(r"(?:^\|.*\n)+", body + "\n", re.MULTILINE):
            lines = [
                [cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()
            ]
            for cells in lines[2:]:
                yield Row(section, machine, dict(zip(lines[0], cells, strict=False)))


def newest(text: str, name: str) -> list[Row]:
    """The newest row of a workload on each processor, on one thread; tables that name the load of a machine, since they
    were measured beside other work, do not count."""
    found = {
        processor_of(row): row
        for row in rows(text)
        if row.cells.get("workload") == name
        and row.cells.get("ratio")
        and "1 thread" in row.machine
        and "load" not in row.machine
    }
    if not found:
        raise SystemExit(f"no table of {RESULTS.name} has a row {name}")
    return list(found.values())


def span(values: Sequence[float]) -> str:
    """The least and the largest of some ratios, or the one that there is."""
    least, most = (
        f"{value:.2f}" if value < 1 else f"{value:.1f}" for value in (min(values), max(values))
    )
    return least if least == most else f"{least} to {most}"


def table(header: str, lines: Sequence[Sequence[str]]) -> str:
    """A table of Markdown; figures stand at the right."""
    names = header.split(" | ")
    rule = "|".join(["---", *["---:"] * (len(names) - 1)])
    body = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    return f"| {header} |\n|{rule}|\n{body}\n"


def speed(text: str) -> str:
    """The README's comparison."""
    lines = [
        [label, span([row.ratio for row in newest(text, name)])] for label, name in COMPARED.items()
    ]
    untuned = [
        row for row in rows(text) if "both sides in turns" in row.section and "losses" in row.cells
    ]
    ratios = [float(row.cells["ms a step"].rpartition("= ")[2]) for row in untuned]
    middle = statistics.median(ratios)
    lines.append(
        [f"{len(ratios)} programs that nobody tuned to", f"{span(ratios)}, median {middle:.1f}"]
    )
    return table("training step | PyTorch's time / Weft's", lines)


def steps(text: str) -> str:
    """Training steps on each machine, newest last."""
    return _measured(text, STEPS)


def loading(text: str) -> str:
    """Batches from a DataLoader."""
    return _measured(text, LOADED, last=True)


def _measured(text: str, wanted: dict[str, str], last: bool = False) -> str:
    """Both libraries' figures of some workloads."""
    lines = []
    for label, name in wanted.items():
        for row in newest(text, name)[-1 if last else 0 :]:
            cells = row.cells
            lines.append(
                [label, processor_of(row), cells["PyTorch"], cells["Weft"], f"{row.ratio:.2f}"]
            )
    return table("workload | processor | PyTorch | Weft | PyTorch / Weft", lines)


def processor_of(row: Row) -> str:
    """The short name of a machine's processor."""
    name = row.machine.partition(",")[0].replace("(R)", "").replace(" Processor", "")
    return name.replace("(", "").replace(")", "")


def costs(text: str) -> str:
    """What single calls cost."""
    lines = []
    for label, name in CALLS.items():
        row = newest(text, name)[-1]
        lines.append([label, row.cells["PyTorch"], row.cells["Weft"]])
    return table("what | PyTorch | Weft", lines)


def novel_steps(text: str) -> str:
    """How much memory a process has whose graphs are never the same."""
    found = [
        (int(row.cells["steps"].replace(",", "")), float(row.cells["resident memory"].split()[0]))
        for row in rows(text)
        if row.section.endswith("steps that never repeat, many of them")
    ]
    (few, before), (many, after) = found[2], found[-1]
    return (
        f"A process that trained on graphs which were never the same had {before:.0f} MB of resident memory after\n"
        f"{few:,} steps and {after:.0f} MB after {many:,}.\n"
    )


def budgets(text: str) -> str:
    """Time and peak of training steps under shares of their own peak."""
    by_step: dict[str, dict[str, Row]] = {}
    for row in rows(text):
        if "time beside its own" in row.cells and "way" in row.cells:
            way = row.cells["way"]
            known = by_step.setdefault(row.cells["step"], {})
            if way == "pytorch":
                known.clear()  # a newer table
            known[way] = row
    lines = []
    for step, ways in by_step.items():
        whole = [
            f"{float(ways[way].cells['ms']):.0f} ms, {float(ways[way].cells['MB']):.0f} MB"
            if way in ways
            else ""
            for way in ("pytorch", "pytorch, checkpoints", "weft")
        ]
        shares = [
            ways[f"weft in {share}"].cells["time beside its own"]
            if f"weft in {share}" in ways
            else "refused"
            for share in SHARES
        ]
        lines.append([step, *whole, *shares])
    names = " | ".join(
        [f"{share} of its peak" if share == SHARES[0] else share for share in SHARES]
    )
    return table(f"step | PyTorch | with checkpoints | Weft | {names}", lines)


def copied(heading: str) -> Callable[[str], str]:
    """A block that is the table of the section with this heading."""

    def block(text: str) -> str:
        body = text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
        found = re.search(r"(?:^\|.*\n)+", body, re.MULTILINE)
        if found is None:
            raise SystemExit(f"{RESULTS.name} has no table under {heading}")
        return found[0].replace("](../docs/", "](")

    return block


BLOCKS: dict[str, Callable[[str], str]] = {
    "speed": speed,
    "steps": steps,
    "loading": loading,
    "costs": costs,
    "novel steps": novel_steps,
    "budgets": budgets,
    "shares": copied("2026-11-27: shares of the limit"),
    "kernels": copied("2026-11-27: kernels beside the limit"),
    "convolutions": copied("2026-11-27: convolutions, before and since"),
    "resnet": copied("2026-11-27: a ResNet's step, part by part"),
}


def typed(page: str) -> list[str]:
    """Measured figures in the running text of a page, which no run renews: those with a unit, outside of blocks, code
    and tables."""
    prose = re.sub(
        r"```.*?```|`[^`]*`|^\|.*$", "", BLOCK.sub("", page), flags=re.DOTALL | re.MULTILINE
    )
    return MEASURED.findall(prose)


def written(page: str, results: str) -> str:
    """A page with its blocks written anew."""
    return BLOCK.sub(lambda found: f"{found[1]}{BLOCKS[found[2]](results)}{found[4]}", page)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the pages, or name those that are stale; the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail if a page is stale"
    )
    check = parser.parse_args(arguments).check
    results, stale = RESULTS.read_text(), []
    for name in PAGES:
        path = ROOT / name
        text = path.read_text()
        fresh = written(text, results)
        if fresh != text:
            stale.append(name)
            if not check:
                path.write_text(fresh)
    if check and stale:
        print(f"stale: {', '.join(stale)}; run python tools/figures.py", file=sys.stderr)
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
