# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False, annotation_typing=False
"""Combination of gradient accumulations: the contributions of many steps of a loop become one operation before they
are added.

It takes the contributions to one cotangent, recorded and not yet run, and returns fewer of them with the same sum.
Cotangents of rows that were taken out one by one are zeros with a block in them: the blocks are concatenated.
Gradients of a weight that was used at each step are products over a few rows: they become one product over all rows (a
GEMM with a longer K), if concatenating the rows moves less memory than the products do. Sums over rows likewise. The
replaced contributions have no readers and never run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import cython
from cython.cimports.weft.engine.ir.primitive import MATMUL, OF_ELEMENTS, PERMUTE, UPDATE

from weft._build.compiled import require
from weft.engine.backward.batching.batched_vjp import is_zero
from weft.engine.devices.api import device_at
from weft.engine.frontend.resolve import value_of
from weft.engine.frontend.tensor_lifecycle import wrap_node
from weft.engine.ir.node import PENDING_STATE
from weft.engine.ir.strides import contiguous_strides
from weft.ops.primitives import concat, full, matmul, reduce, reshape, transpose

if TYPE_CHECKING:
    from weft.engine.frontend.tensor import Tensor
    from weft.engine.ir.node import Node
    from weft.engine.ir.primitive import Primitive

require(__name__, cython.compiled)


def join(parts: list[Tensor], shape: tuple[int, ...]) -> list[Any]:
    """Contributions with the same sum as `parts`, tensors of one shape."""
    kinds: dict[str, list[Any]] = {}
    others = []
    for part in parts:
        node = value_of(part)
        free = node.state == PENDING_STATE and node.quotient is None
        rule = _rule_of(node.op) if free else None
        if rule is not None and _FITS[rule](node, shape):
            kinds.setdefault(rule, []).append((part, node))
        else:
            others.append(part)
    joins = []
    for rule in _FITS:
        found = kinds.get(rule, ())
        operations = None
        if len(found) > 1 and _MAY_JOIN[rule](found, shape):
            operations = [_Operation(part, node) for part, node in found]
        joins.append((rule, found, operations))
    for rule, found, operations in joins:
        others += [p for p, _ in found] if operations is None else _JOINS[rule](operations, shape)
    return others


def _rule_of(op: Primitive) -> str | None:
    """The name of the rule that may join contributions of an operation, or None."""
    if op.form == UPDATE:
        return "rows"
    if op.form == MATMUL:
        return "products"
    return "sums" if op.sums == OF_ELEMENTS else None


@cython.cclass
class _Operation:
    """The recorded operation of a contribution: params, operands, and the matrix that an operand is the transpose of
    (or None). It holds handles, because pending nodes may run while others are joined, and then forget their inputs.
    """

    part = cython.declare(object, visibility="readonly")
    params = cython.declare(object, visibility="readonly")
    operands = cython.declare(list, visibility="readonly")
    transposed = cython.declare(object, visibility="readonly")

    def __init__(self, part: Tensor, node: Node) -> None:
        self.part, self.params = part, node.params
        self.operands = [wrap_node(source) for source in node.inputs]
        self.transposed = _turned_from(node.inputs[0])


# -- blocks of rows in zeros -----------------------------------------------------------------------


def _is_rows(node: Node, shape: tuple[int, ...]) -> bool:
    """True if a value is zeros but for whole neighbouring rows of the first dimension."""
    base, block = node.inputs
    offset, strides = node.params
    row = _row_size(shape)
    return (
        row > 0
        and block.numel > 0
        and offset % row == 0
        and block.numel % row == 0
        and _dense(block.shape, strides)
        and is_zero(base)
    )


def _row_size(shape: tuple[int, ...]) -> int:
    size = 1 if shape else 0
    for length in shape[1:]:
        size *= length
    return size


def _dense(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """True if strides are row-major; those of dimensions with one element do not matter."""
    if not shape:
        return True
    own = contiguous_strides(shape)
    return all([size == 1 or a == b for size, a, b in zip(shape, strides, own, strict=True)])


def _lie_apart(found: list[tuple[Tensor, Node]], shape: tuple[int, ...]) -> bool:
    """True if no two blocks of rows overlap."""
    ends = []
    for _, node in found:
        start = node.params[0]
        ends.append((start, start + node.inputs[1].numel))
    ends.sort()
    return all([ends[number][1] <= ends[number + 1][0] for number in range(len(ends) - 1)])


def _join_rows(operations: list[_Operation], shape: tuple[int, ...]) -> list[Any]:
    """The blocks concatenated, with zeros in the gaps."""
    row = _row_size(shape)
    blocks = []
    for number, operation in enumerate(operations):
        block = operation.operands[1]
        blocks.append((operation.params[0] // row, block.numel() // row, number, block))
    blocks.sort(key=lambda block: block[:3])
    pieces, reached = [], 0
    for start, count, _, block in blocks:
        if start > reached:
            pieces.append(_zeros(block, (start - reached, *shape[1:])))
        pieces.append(reshape(block, (count, *shape[1:])))
        reached = start + count
    if reached < shape[0]:
        pieces.append(_zeros(block, (shape[0] - reached, *shape[1:])))
    return [concat(tuple(pieces), 0)]


def _zeros(like: Tensor, shape: tuple[int, ...]) -> Any:
    return full(shape, 0, like.dtype)


# -- products and sums over rows -------------------------------------------------------------------


def _below_each_other(rows: Iterable[Tensor]) -> Any:
    """All rows as one value, marked so that batching leaves it alone, which would gather each part. Backward meets a
    loop's last step first; the first step comes first here, as in the layout of a sequence's cotangent, so that CSE
    makes one of both."""
    joined = concat(tuple(rows), 0)
    value_of(joined).batch_seen = True
    return joined


def _is_thin(node: Node, shape: tuple[int, ...]) -> bool:
    """True if a value is a product over so few rows that concatenating them moves less memory than writing the
    product, reading it and writing the sum."""
    left, right = node.inputs
    if len(left.shape) != 2 or len(right.shape) != 2:
        return False
    m, rows = left.shape
    n = right.shape[1]
    return bool(rows * (m + n) <= 2 * m * n)


def _join_products(operations: list[_Operation], shape: tuple[int, ...]) -> list[Any]:
    """a₁ b₁ + a₂ b₂ + ... as one product of [a₁ a₂ ...] and [b₁ b₂ ...] below each other."""
    left = _below_each_other(
        _transposed(operation) for operation in reversed(operations)
    )  # (rows, m)
    right = _below_each_other(
        operation.operands[1] for operation in reversed(operations)
    )  # (rows, n)
    return [matmul(transpose(left), right)]


def _turned_from(node: Node) -> Any:
    """The handle of the matrix that a pending node transposes; None if the node is no transpose."""
    transposed = node.op.form == PERMUTE and node.params == (1, 0)
    free = node.state == PENDING_STATE and node.quotient is None
    return wrap_node(node.inputs[0]) if transposed and free else None


def _transposed(operation: _Operation) -> Any:
    """The transpose of the left operand: what it was turned from, as a rule."""
    transposed = operation.transposed
    return transpose(operation.operands[0]) if transposed is None else transposed


def _is_column_sum(node: Node, shape: tuple[int, ...]) -> bool:
    rows = node.inputs[0]
    tuning = device_at(rows.device).tuning.batching
    small = rows.numel * rows.dtype.itemsize <= tuning.joined_sum_bytes
    return small and len(rows.shape) == 2 and node.params == ((0,), False)


def _are_many(found: list[tuple[Tensor, Node]], shape: tuple[int, ...]) -> bool:
    """True if so many sums go to one gradient that they become one."""
    tuning = device_at(found[0][1].device).tuning.batching
    return len(found) >= tuning.fewest_joined_sums


def _join_sums(operations: list[_Operation], shape: tuple[int, ...]) -> list[Any]:
    """One sum over all rows. If the rows come from products with a weight, the weight's gradient is a product of the
    same concatenated rows, which are then in memory once."""
    rows = _below_each_other(operation.operands[0] for operation in reversed(operations))
    return [reduce("sum", rows, (0,))]


_FITS: dict[str, Callable[[Any, tuple[int, ...]], bool]] = {
    "rows": _is_rows,
    "products": _is_thin,
    "sums": _is_column_sum,
}
_MAY_JOIN: dict[str, Callable[[list[Any], tuple[int, ...]], bool]] = {
    "rows": _lie_apart,
    "products": lambda found, shape: True,
    "sums": _are_many,
}
_JOINS: dict[str, Callable[[list[Any], tuple[int, ...]], list[Any]]] = {
    "rows": _join_rows,
    "products": _join_products,
    "sums": _join_sums,
}
