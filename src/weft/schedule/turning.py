"""Weights that many products read across: turned once for a program.

A recurrent layer multiplies few rows by the same weight at each time, and its weight lies along k, where columns of
the product would be read beside each other. Turning it for a product is a sixth of its time. So a matrix that many
products of a program read in this way is copied into the other order before the first of them. Each element of a
product is the same chain; no bit depends on it.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from weft.graph.rows import CONTRACT

OFTEN = 16  # products of a few rows that pay for a copy
ROWS = ("matmul", "linear", "linear_bias")
DTYPES = ("float32", "float64")
FEWEST, MOST = (
    9,
    84,
)  # rows: fewer have a kernel that turns it in registers, for more it is a small part
COLUMNS = 32


class Turned:
    """The matrices of a program that enough products read across: where each has been copied, None for not yet; and
    the launches of copies that have to come before the gang in hand, whose members are put in another order."""

    def __init__(self, program: Any) -> None:
        products = [kernel.nodes[0] for kernel in program.kernels if kernel.kind == CONTRACT]
        if len(products) < OFTEN:
            products = []
        counts = Counter(_key(program, node) for node in products)
        self.places: dict[Any, Any] = {
            key: None for key, count in counts.items() if key is not None and count >= OFTEN
        }
        self.copies: list[Any] = []

    def take_copies(self) -> list[Any]:
        """The launches that come before a gang; the next one has its own."""
        copies, self.copies = self.copies, []
        return copies


def turned(lowering: Any, node: Any, right: Any) -> Any:
    """(slot, byte offset, strides) of the right operand (k, n) of a product: its copy along n, if that pays."""
    if lowering.turned is None:
        lowering.turned = Turned(lowering.program)
    known = lowering.turned
    key = _key(lowering.program, node) if known.places else None
    if key is None or key not in known.places:
        return right
    place = known.places[key]
    if place is None:
        n, k = node.shape[-1], node.inputs[0].shape[-1]
        place = (lowering.scratch_slot(n * k * node.dtype.itemsize), 0, (n, 1))
        own, lowering.launches = lowering.launches, []
        lowering.copy(node.dtype, (k, n), right, place)
        known.copies.extend(lowering.launches)
        lowering.launches = own
        known.places[key] = place
    return place


def _key(program: Any, node: Any) -> Any:
    """What a product of few rows reads across as its right operand: (root, offset, strides); else None."""
    if node.row.name not in ROWS or node.dtype.name not in DTYPES:
        return None
    weight = node.inputs[1]
    if len(weight.shape) != 2 or node.shape[-1] < COLUMNS:
        return None
    if not FEWEST <= node.numel // node.shape[-1] <= MOST:
        return None
    place = program.place(weight)
    along_k, along_n = place.strides if node.row.name == "matmul" else place.strides[::-1]
    if along_k != 1 or along_n == 1 or isinstance(along_n, tuple):
        return None
    return place.root, place.offset, along_n, weight.numel
