"""The batches of a run as an SVG drawing.

It takes a run of an `Explanation` and writes a file that a browser opens: a box for each batch with operation, number
of rows, shape and the user's line, arrows to the batches that read from it; batches that copy their operands in
another colour. `layout` places the boxes.
"""

from __future__ import annotations

import os
from html import escape
from typing import TYPE_CHECKING

from weft.debug.drawing import (
    BOX,
    HEAD,
    LETTER,
    LIMIT,
    MARGIN,
    ROW,
    draw_arrow,
    svg_page,
)
from weft.debug.layout import BoxLayout, lay_out
from weft.errors import ArgumentError

if TYPE_CHECKING:
    from weft.debug.explanation import Batch, BatchSearch

COLOURS = {
    True: ("#fde3c8", "#d9822b"),
    False: ("#eef7ea", "#6aa84f"),
}  # by whether a batch copies operands
MEANINGS = {True: "operands are gathered", False: "operands in place or shared"}


def draw_run(runs: list[BatchSearch], path: str | os.PathLike[str], number: int | None) -> str:
    """Draw one run (counted from 1; None: the one with the most operations) and return the path."""
    if not runs or (number is not None and not 1 <= number <= len(runs)):
        raise ArgumentError(
            "explain: there is no such run to draw",
            expected=f"a number from 1 to {len(runs)}" if runs else "something that was batched",
            got="nothing that ran" if number is None else str(number),
            fix="leave it out" if runs else "run a step within the block",
        )
    if number is None:
        sizes = [sum(made.size for made in run.batches) for run in runs]
        number = sizes.index(max(sizes)) + 1
    text = svg_of(runs[number - 1], f"run {number} of {len(runs)}, at {runs[number - 1].where}")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return os.fspath(path)


def svg_of(run: BatchSearch, title: str) -> str:
    """The drawing of a run as SVG."""
    shown = run.batches[:LIMIT]
    if len(shown) < len(run.batches):
        title += f"; the first {LIMIT} of {len(run.batches)} batches"
    labels = [_labels(made) for made in shown]
    widths = [LETTER * max(map(len, lines)) + 16 for lines in labels]
    arrows = [(source, made.number) for made in shown for source in made.sources]
    layout = lay_out(widths, arrows)
    parts = [draw_arrow(layout, arrow, "value", MARGIN) for arrow in dict.fromkeys(arrows)]
    parts += [_box(layout, made, widths[made.number], labels[made.number]) for made in shown]
    width = max(layout.width + 2 * MARGIN, LETTER * 1.1 * len(title) + 2 * MARGIN)
    return svg_page(width, layout, [*_head(title), *parts])


def _labels(made: Batch) -> tuple[str, str, str]:
    facts = made.facts
    copied = [str(operand) for operand in made.operands if operand.nbytes]
    return (
        f"{facts.operation} x {made.size}",
        f"{facts.dtype}{made.shape}" + (f", {', '.join(copied)}" if copied else ""),
        facts.where(),
    )


def _box(layout: BoxLayout, made: Batch, width: float, lines: tuple[str, str, str]) -> str:
    fill, border = COLOURS[made.nbytes > 0]
    center = layout.centers[made.number] + MARGIN
    top = HEAD + layout.rows[made.number] * ROW
    texts = "".join(
        f'<text x="{center:.1f}" y="{top + y:.1f}" text-anchor="middle"{style}>{escape(line)}</text>'
        for line, y, style in zip(lines, (15, 29, 41), ("", "", ' class="small"'), strict=True)
    )
    return (
        f'<rect x="{center - width / 2:.1f}" y="{top:.1f}" width="{width:.1f}" height="{BOX:.0f}" rx="4" '
        f'fill="{fill}" stroke="{border}"/>{texts}'
    )


def _head(title: str) -> list[str]:
    parts = [f'<text x="{MARGIN}" y="22" class="title">{escape(title)}</text>']
    x = MARGIN
    for copies, (fill, border) in COLOURS.items():
        parts.append(
            f'<rect x="{x:.0f}" y="32" width="12" height="12" rx="3" fill="{fill}" stroke="{border}"/>'
            f'<text x="{x + 17:.0f}" y="42" class="small">{MEANINGS[copies]}</text>'
        )
        x += 34 + 6.2 * len(MEANINGS[copies])
    return parts
