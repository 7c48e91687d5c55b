"""Layered layout of a directed acyclic graph: rows by distance from the sources, few crossings, short arrows.

It takes the widths of boxes and the arrows between them, and returns a position for each box and a path for each
arrow. After Sugiyama, Tagawa and Toda, "Methods for Visual Understanding of Hierarchical System Structures" (IEEE SMC
1981): an arrow over several rows gets a point on each, rows are ordered by the mean position of their neighbours, and
positions are moved towards those means as far as the neighbours in the row allow.
"""

from __future__ import annotations

from dataclasses import dataclass, field

POINT_WIDTH = 8.0
SWEEPS = 12


@dataclass(eq=False)
class Spot:
    """A box, or a point of a long arrow."""

    box: int  # -1 for a point
    row: int
    width: float
    x: float = 0.0
    above: list[Spot] = field(default_factory=list)
    below: list[Spot] = field(default_factory=list)


@dataclass
class BoxLayout:
    """`centers` and `rows` per box, the x of each point of an arrow (row by row), and the extent."""

    centers: list[float]
    rows: list[int]
    paths: dict[tuple[int, int], list[tuple[float, int]]]
    width: float
    height: int


def lay_out(widths: list[float], arrows: list[tuple[int, int]], gap: float = 24.0) -> BoxLayout:
    """Place boxes, numbered so that every arrow (from, to) goes to a higher number."""
    rows = _rows(len(widths), arrows)
    spots = [Spot(box, rows[box], width) for box, width in enumerate(widths)]
    layers: list[list[Spot]] = [[] for _ in range(max(rows, default=0) + 1)]
    for spot in spots:
        layers[spot.row].append(spot)
    paths = {arrow: _chain(spots, arrow, layers) for arrow in dict.fromkeys(arrows)}
    for sweep in range(SWEEPS):
        _order(layers, downwards=sweep % 2 == 0)
    _place(layers, gap)
    left = min((spot.x - spot.width / 2 for layer in layers for spot in layer), default=0.0)
    for layer in layers:
        for spot in layer:
            spot.x -= left
    right = max((spot.x + spot.width / 2 for layer in layers for spot in layer), default=0.0)
    lines = {arrow: [(spot.x, spot.row) for spot in path] for arrow, path in paths.items()}
    return BoxLayout([spot.x for spot in spots], rows, lines, right, len(layers))


def _rows(count: int, arrows: list[tuple[int, int]]) -> list[int]:
    """The longest way from a source; sources that are used late move down to just above their first use."""
    rows = [0] * count
    users: list[list[int]] = [[] for _ in range(count)]
    has_source = [False] * count
    for start, end in sorted(arrows, key=lambda arrow: arrow[1]):
        rows[end] = max(rows[end], rows[start] + 1)
        users[start].append(end)
        has_source[end] = True
    for box in range(count):
        if not has_source[box] and users[box]:
            rows[box] = min(rows[user] for user in users[box]) - 1
    return rows


def _chain(spots: list[Spot], arrow: tuple[int, int], layers: list[list[Spot]]) -> list[Spot]:
    """The spots of an arrow, with a point on each row between."""
    start, end = spots[arrow[0]], spots[arrow[1]]
    path = [start]
    for row in range(start.row + 1, end.row):
        point = Spot(-1, row, POINT_WIDTH)
        layers[row].append(point)
        path.append(point)
    path.append(end)
    for upper, lower in zip(path, path[1:], strict=False):
        upper.below.append(lower)
        lower.above.append(upper)
    return path


def _order(layers: list[list[Spot]], downwards: bool) -> None:
    """One sweep: sort each row by the mean place of its neighbours in the row before."""
    places = {spot: float(place) for layer in layers for place, spot in enumerate(layer)}
    for layer in layers[1:] if downwards else layers[-2::-1]:
        means = {}
        for spot in layer:
            neighbours = spot.above if downwards else spot.below
            means[spot] = (
                sum(places[other] for other in neighbours) / len(neighbours)
                if neighbours
                else places[spot]
            )
        layer.sort(key=lambda spot: means[spot])
        places.update({spot: float(place) for place, spot in enumerate(layer)})


def _place(layers: list[list[Spot]], gap: float) -> None:
    """x positions: packed first, then moved towards the neighbours' mean, both ways."""
    for layer in layers:
        x = 0.0
        for spot in layer:
            spot.x = x + spot.width / 2
            x += spot.width + gap
        for spot in layer:
            spot.x -= x / 2
    for sweep in range(2 * SWEEPS):
        for layer in layers if sweep % 2 == 0 else layers[::-1]:
            _pull(layer, gap, sweep % 2 == 0)


def _pull(layer: list[Spot], gap: float, downwards: bool) -> None:
    """Move a row's spots to where they want to be; those that would overlap form blocks and share the difference."""
    blocks: list[tuple[float, float, list[Spot]]] = []  # (sum of wanted first places, count, spots)
    for spot in layer:
        neighbours = (spot.above if downwards else spot.below) or spot.above or spot.below
        wanted = sum(other.x for other in neighbours) / len(neighbours) if neighbours else spot.x
        block = (wanted, 1.0, [spot])
        while blocks and _left(blocks[-1]) + _extent(blocks[-1][2], gap) > _left(block):
            before = blocks.pop()
            shift = _extent(before[2], gap)
            shift += before[2][0].width / 2 - block[2][0].width / 2
            block = (
                before[0] + block[0] - block[1] * shift,
                before[1] + block[1],
                before[2] + block[2],
            )
        blocks.append(block)
    for block in blocks:
        x = _left(block)
        for spot in block[2]:
            spot.x = x + spot.width / 2
            x += spot.width + gap


def _left(block: tuple[float, float, list[Spot]]) -> float:
    """The left end of a block whose first spot's centre is at the mean of what its spots want."""
    return block[0] / block[1] - block[2][0].width / 2


def _extent(spots: list[Spot], gap: float) -> float:
    return sum(spot.width + gap for spot in spots)
