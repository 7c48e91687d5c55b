"""Draws what a step of the README's program records, and the batches that it runs in, as an SVG that moves.

In: the records of a step, oldest first, and the batches that `weft.explain` told of it. Out: one dot for each record,
which appears when its call is recorded; then, batch by batch, the dots of a batch take its colour. Where nothing moves,
the last state is shown. `readme_pictures` calls it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

COLOURS = (
    *("#4a7ebb", "#d9822b", "#5b9a3c", "#b5547a", "#7a5bb5", "#2f9c95", "#c2a40f"),
    *("#8c564b", "#d1495b", "#3b6ea5", "#6b8e23", "#c77cbb", "#5f6b7a", "#e07b39"),
)
STEP, ROW, RADIUS = 11.4, 23.0, 3.9  # between leaves, between rows; of a dot
LEFT, TOP = 14.0, 62.0
RECORDED, PAUSE, EACH, HELD = (
    6.0,
    0.8,
    0.7,
    4.0,
)  # seconds: all records, then a batch after the other, then the end
WORDS = (
    "1. The program runs: each call is recorded.",
    "2. A value is wanted: equal operations run as one.",
)
STYLE = """text { font-family: ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace; font-size: 13px;
  fill: #222 }
line { stroke: #b9b9b9; stroke-width: 1 } circle { stroke: #444; stroke-width: 1 }"""


@dataclass(eq=False)
class Dot:
    """A record of an operation, with the place where it is drawn and the number of its batch."""

    operation: str
    operands: list[Dot]
    x: float = 0.0
    row: int = 0
    batch: int = -1
    readers: list[Dot] = field(default_factory=list)


def dots_of(entries: Sequence[Any]) -> list[Dot]:
    """The operations of a graph whose results are vectors, oldest first."""
    made: dict[Any, Dot] = {}
    for entry in entries:
        if entry.kind == "operation" and entry.operation in ("take", "cat", "linear_bias"):
            operands = [made[each] for each in entry.operands if each in made]
            dot = made[entry] = Dot(entry.operation, operands)
            for each in operands:
                each.readers.append(dot)
    return list(made.values())


def assign(dots: Sequence[Dot], batches: Sequence[Any]) -> None:
    """Say of each dot in which batch it ran: a batch takes all that are ready, of one operation and one line."""
    of_operation = [
        each for each in batches if each.facts.operation in ("take", "cat", "linear_bias")
    ]
    for number, batch in enumerate(of_operation):
        is_last = batch.facts.shape == (1,)
        ready = [
            dot
            for dot in dots
            if dot.batch < 0 and dot.operation == batch.facts.operation
            if all(0 <= each.batch < number for each in dot.operands)
            if is_last == (not dot.readers)
        ]
        if len(ready) != batch.size:
            raise SystemExit(
                f"{batch} has {batch.size} members, of which {len(ready)} are in the graph"
            )
        for dot in ready:
            dot.batch = number


def place(dots: Sequence[Dot]) -> float:
    """Lay the trees out side by side, leaves above; the width."""
    x = LEFT
    for dot in dots:  # a tree's leaves come in their order
        if not dot.operands:
            dot.x, dot.row = x, 0
            x += STEP
        else:
            dot.x = sum(each.x for each in dot.operands) / len(dot.operands)
            dot.row = 1 + max(each.row for each in dot.operands)
    last = max(dot.row for dot in dots)
    for dot in dots:
        if not dot.readers:
            dot.row = last
            x = max(x, dot.x + STEP)
    return x + LEFT - STEP / 2


def svg(dots: Sequence[Dot], batches: Sequence[Any]) -> str:
    """The picture."""
    width = place(dots)
    shown = [each for each in batches if each.facts.operation in ("take", "cat", "linear_bias")]
    lit = [RECORDED + PAUSE + EACH * number for number in range(len(shown))]
    whole = lit[-1] + EACH + HELD
    born = {id(dot): RECORDED * n / len(dots) for n, dot in enumerate(dots)}
    bottom = TOP + ROW * max(dot.row for dot in dots)
    parts = [
        words(WORDS[0], 26, 0.0, RECORDED, whole, False),
        words(WORDS[1], 26, RECORDED, whole, whole, True),
    ]
    for dot in dots:
        y = TOP + ROW * dot.row
        for each in dot.operands:
            line = (
                f'x1="{each.x:.1f}" y1="{TOP + ROW * each.row:.1f}" x2="{dot.x:.1f}" y2="{y:.1f}"'
            )
            parts.append(f"<line {line}>{appear(born[id(dot)], whole)}</line>")
    for dot in dots:
        colour = COLOURS[dot.batch % len(COLOURS)]
        moves = appear(born[id(dot)], whole) + change(
            "fill", "#ffffff", colour, lit[dot.batch], whole
        )
        where = f'cx="{dot.x:.1f}" cy="{TOP + ROW * dot.row:.1f}" r="{RADIUS}"'
        parts.append(f'<circle {where} fill="{colour}">{moves}</circle>')
    height = bottom
    x = width
    for number, batch in enumerate(shown):
        text = f"{batch.facts.operation.removesuffix('_bias')} x {batch.size}"
        needed = 8.0 * len(text) + 38
        if x + needed > width:
            x, height = LEFT, height + 26
        y = height + 12
        dot = f'<circle cx="{x + 6:.1f}" cy="{y - 4:.1f}" r="6" fill="{COLOURS[number % len(COLOURS)]}"/>'
        label = f'<text x="{x + 18:.1f}" y="{y:.1f}">{text}</text>'
        parts.append(f"<g>{appear(lit[number], whole)}{dot}{label}</g>")
        x += needed
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height + 28:.0f}"'
    box = f'viewBox="0 0 {width:.0f} {height + 28:.0f}"'
    ground = f'<rect width="{width:.0f}" height="{height + 28:.0f}" rx="6" fill="white"/>'
    return "\n".join([f"{head} {box}>", f"<style>{STYLE}</style>", ground, *parts, "</svg>\n"])


def appear(at: float, whole: float) -> str:
    """The animation of something that is not there before a time."""
    return change("opacity", "0", "1", at, whole)


def change(attribute: str, before: str, after: str, at: float, whole: float) -> str:
    """The animation of an attribute that changes at a time, over and over again."""
    share = max(at / whole, 1e-4)
    times = f"0;{share:.4f};{min(share + 0.004, 0.9999):.4f};1"
    values = f"{before};{before};{after};{after}"
    return (
        f'<animate attributeName="{attribute}" values="{values}" keyTimes="{times}" '
        f'dur="{whole:.1f}s" repeatCount="indefinite"/>'
    )


def words(text: str, y: float, begin: float, end: float, whole: float, stays: bool) -> str:
    """A line of text that is seen between two times, or, where nothing moves, if it `stays`."""
    first, last = begin / whole, end / whole
    times = f"0;{first:.4f};{last:.4f};1"
    values = "0;1;0;0" if not stays else "0;1;1;1"
    shown = 1 if stays else 0
    return (
        f'<text x="{LEFT}" y="{y}" opacity="{shown}">{text}<animate attributeName="opacity" calcMode="discrete" '
        f'values="{values}" keyTimes="{times}" dur="{whole:.1f}s" repeatCount="indefinite"/></text>'
    )
