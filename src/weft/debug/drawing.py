"""The recorded graph of a tensor as an SVG drawing.

It takes a tensor and writes a file that a browser opens: a box per record with operation, type and the user's line;
arrows for values, dashed ones for gradients that go elsewhere; leaves and parameters in colour. `layout` places the
boxes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from html import escape

from weft.debug.graph import Entry, collect_graph
from weft.debug.layout import BoxLayout, lay_out
from weft.engine.frontend.tensor import Tensor
from weft.errors import ArgumentError

LIMIT = 400
ROW = 84.0
BOX = 46.0
MARGIN = 24.0
HEAD = 58.0
LETTER = 7.3
COLOURS = {  # kind: (fill, border)
    "leaf": ("#fde3c8", "#d9822b"),
    "value": ("#ececec", "#8a8a8a"),
    "operation": ("#e3eefb", "#4a7ebb"),
    "view": ("#eef7ea", "#6aa84f"),
    "function": ("#f3e6fa", "#8e5bb5"),
    "result": ("#cfe2ff", "#1c4f9c"),
}
MEANINGS = {
    "leaf": "leaf that gathers a gradient",
    "value": "value",
    "operation": "operation",
    "view": "view or region",
    "function": "custom Function",
    "result": "the tensor",
}
STYLE = """text { font-family: ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace;
  font-size: 12px; fill: #222 }
.small { font-size: 10px; fill: #666 } .title { font-size: 13px }
.value { fill: none; stroke: #555; stroke-width: 1.2 }
.gradient { fill: none; stroke: #b5547a; stroke-width: 1.1; stroke-dasharray: 5 4 }"""


class Drawing(str):
    """The text of an SVG drawing, which a notebook shows as a picture."""

    def _repr_svg_(self) -> str:
        return str(self)


def draw(
    tensor: Tensor,
    path: str | os.PathLike[str] | None = None,
    names: Mapping[str, Tensor] | None = None,
    limit: int = LIMIT,
) -> str:
    """Draw the graph of a tensor into an SVG file and return the path; without a path, return the drawing itself, which
    a notebook shows. Nothing is computed. `names` gives leaves names.

    Of a graph with more than `limit` records the newest are drawn, and the drawing says so. Errors: ValueError on a
    limit below 1.

    Args:
        tensor: the tensor.
        path: where the SVG file is written; None: nowhere.
        names: leaves by name, for example `dict(model.named_parameters())`; None: leaves have no names.
        limit: the largest number of records that are drawn.

    Example:
        >>> import weft
        >>> x = weft.tensor([1.0, -2.0])
        >>> str(weft.debug.draw((x * 2).relu()))[:4]  # a drawing, which a notebook shows
        '<svg'
    """
    if limit < 1:
        raise ArgumentError("draw", expected="limit >= 1", got=str(limit), fix="leave limit out")
    entries = collect_graph(tensor, names)
    shown = entries if len(entries) <= limit else _newest(entries, limit)
    text = svg_text(shown, len(entries))
    if path is None:
        return Drawing(text)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return os.fspath(path)


def _newest(entries: list[Entry], limit: int) -> list[Entry]:
    """The newest records, and as many of the leaves that they use as there is room for."""
    return [entry for entry in entries if entry.number >= len(entries) - limit]


def svg_text(entries: list[Entry], total: int) -> str:
    """The drawing of entries as SVG; `total` is how many there are in all."""
    position = {id(entry): place for place, entry in enumerate(entries)}
    arrows = _arrows(entries, position)
    labels = [_labels(entry, place == len(entries) - 1) for place, entry in enumerate(entries)]
    widths = [
        max(LETTER * max(len(line) for line in lines[:2]), 5.9 * len(lines[2])) + 20
        for lines, _ in labels
    ]
    layout = lay_out(widths, list(arrows))
    width = max(
        layout.width + 2 * MARGIN, LETTER * 1.1 * len(_summary(entries, total)) + 2 * MARGIN
    )
    shift = MARGIN + max(0.0, (width - 2 * MARGIN - layout.width) / 2)
    parts = [draw_arrow(layout, arrow, kind, shift) for arrow, kind in arrows.items()]
    shown = {entry.number for entry in entries}
    parts += [
        _cut_mark(layout, place, shift)
        for place, entry in enumerate(entries)
        if any(source.number not in shown for source in entry.sources())
    ]
    parts += [
        _box(layout, place, widths[place], *labels[place], shift) for place in range(len(entries))
    ]
    return svg_page(width, layout, [*_head(entries, total), *parts])


def svg_page(width: float, layout: BoxLayout, parts: list[str]) -> str:
    """A whole SVG file of a layout's parts."""
    height = HEAD + layout.height * ROW + MARGIN
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
            f'viewBox="0 0 {width:.0f} {height:.0f}">',
            f"<style>{STYLE}</style>",
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
            '<path d="M0,0 L8,4 L0,8 z" fill="#555"/></marker></defs>',
            f'<rect width="{width:.0f}" height="{height:.0f}" fill="white"/>',
            *parts,
            "</svg>",
            "",
        ]
    )


def _arrows(entries: list[Entry], position: dict[int, int]) -> dict[tuple[int, int], str]:
    """(from, to) by position, and whether it is a value's way or only a gradient's."""
    arrows: dict[tuple[int, int], str] = {}
    for place, entry in enumerate(entries):
        for part in entry.edges:
            if isinstance(part, Entry) and id(part) in position:
                arrows[position[id(part)], place] = "gradient"
        for part in (*entry.operands, entry.value):
            if isinstance(part, Entry) and id(part) in position:
                arrows[position[id(part)], place] = "value"
    return arrows


def _labels(entry: Entry, is_result: bool) -> tuple[tuple[str, str, str], str]:
    """Three lines of text and the colour of a box."""
    numbers = [
        repr(part) for part in entry.operands if not isinstance(part, Entry) and part is not None
    ]
    title = entry.operation + (f" ({', '.join(numbers)})" if numbers else "")
    kind = "result" if is_result else entry.kind
    if kind == "operation" and entry.record.op.strides is not None:
        kind = "view"
    return (title, entry.type or entry.gradient, entry.where), kind


def _box(
    layout: BoxLayout,
    place: int,
    width: float,
    lines: tuple[str, str, str],
    kind: str,
    shift: float,
) -> str:
    fill, border = COLOURS[kind]
    center = layout.centers[place] + shift
    top = HEAD + layout.rows[place] * ROW
    corner = 14 if kind in ("leaf", "value") else 4
    texts = "".join(
        f'<text x="{center:.1f}" y="{top + y:.1f}" text-anchor="middle"{style}>{escape(line)}</text>'
        for line, y, style in zip(lines, (15, 29, 41), ("", "", ' class="small"'), strict=True)
        if line
    )
    return (
        f'<rect x="{center - width / 2:.1f}" y="{top:.1f}" width="{width:.1f}" height="{BOX:.0f}" rx="{corner}" '
        f'fill="{fill}" stroke="{border}"/>{texts}'
    )


def _cut_mark(layout: BoxLayout, place: int, shift: float) -> str:
    """Dots above a box of whose sources some are not drawn."""
    x, y = layout.centers[place] + shift, HEAD + layout.rows[place] * ROW - 4
    return f'<text x="{x - 22:.1f}" y="{y:.1f}" class="small">\u22ef</text>'


def draw_arrow(layout: BoxLayout, arrow: tuple[int, int], kind: str, shift: float) -> str:
    """A smooth line from the bottom of one box through its points to the top of another."""
    points = layout.paths[arrow]
    x, row = points[0]
    path = f"M{x + shift:.1f},{HEAD + row * ROW + BOX:.1f}"
    for index, (x, row) in enumerate(points[1:], 1):
        before = points[index - 1][0] + shift
        start = HEAD + (row - 1) * ROW + BOX
        end = HEAD + row * ROW
        middle = (start + end) / 2
        path += (
            f" C{before:.1f},{middle:.1f} {x + shift:.1f},{middle:.1f} {x + shift:.1f},{end:.1f}"
        )
        if index < len(points) - 1:
            path += f" L{x + shift:.1f},{end + BOX:.1f}"
    return f'<path class="{kind}" d="{path}" marker-end="url(#tip)"/>'


def _summary(entries: list[Entry], total: int) -> str:
    if len(entries) == total:
        return f"{total} records; values flow down, gradients up; dashed: only a gradient"
    return f"the newest {len(entries)} of {total} records (draw(..., limit={total}) draws all); dashed: only a gradient"


def _head(entries: list[Entry], total: int) -> list[str]:
    """The title of the drawing, and the legend of its colours."""
    parts = [f'<text x="{MARGIN}" y="22" class="title">{escape(_summary(entries, total))}</text>']
    x = MARGIN
    for kind in dict.fromkeys(_labels(entry, entry is entries[-1])[1] for entry in entries):
        fill, border = COLOURS[kind]
        parts.append(
            f'<rect x="{x:.0f}" y="32" width="12" height="12" rx="3" fill="{fill}" stroke="{border}"/>'
            f'<text x="{x + 17:.0f}" y="42" class="small">{MEANINGS[kind]}</text>'
        )
        x += 34 + 6.2 * len(MEANINGS[kind])
    return parts
