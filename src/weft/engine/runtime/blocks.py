"""Blocks: values that lie in memory behind one another, and that a program reads as one.

The rows of a batch that has run are such a block. A program that reads it whole is known by its rows, which is all that
a fingerprint taken before batches are formed can name; `RowBlock` says how they have to lie when it runs again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from weft.engine.ir.primitive import SCALAR_OP

if TYPE_CHECKING:
    from weft.engine.ir.node import Node


class RowBlock(NamedTuple):
    """The places of a value's rows among the values from outside, and how many bytes each lies behind the first."""

    places: tuple[int, ...]
    distances: tuple[int, ...]


class ValuesByBlock:
    """The values from outside by the memory that they lie in."""

    def __init__(self, external: Sequence[Node]) -> None:
        self.by_buffer: dict[int, list[tuple[int, int, int]]] = {}  # (offset, end, place)
        for place, node in enumerate(external):
            if node.op is not SCALAR_OP and node.buffer is not None and node.strides is None:
                end = node.offset + node.numel * node.dtype.itemsize
                self.by_buffer.setdefault(id(node.buffer), []).append((node.offset, end, place))
        for rows in self.by_buffer.values():
            rows.sort()

    def block_of(self, root: Node) -> RowBlock | None:
        """The rows that a value consists of, from the first byte to the last; None where some of it is no row."""
        if root.buffer is None or root.strides is not None:
            return None
        reached, stop = root.offset, root.offset + root.numel * root.dtype.itemsize
        places, distances = [], []
        for offset, end, place in self.by_buffer.get(id(root.buffer), ()):
            if root.offset <= offset <= reached and end <= stop:
                places.append(place)
                distances.append(offset - root.offset)
                reached = max(reached, end)
        if reached < stop or not places:
            return None
        return RowBlock(tuple(places), tuple(distances))
