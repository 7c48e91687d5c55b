"""Error propagation: which values fail when index checks of a program fail, and which do not.

It takes a program that has run, its memory, and the positions of the kernels that failed, and returns an error for
each node that has no value. Of a batch, only the examples with a bad index fail (`FailedRows`). The indices are still
in memory: the pipeline keeps them when it runs a failed program again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.engine.ir.index_range import range_error
from weft.engine.ir.node import DONE_STATE as DONE
from weft.engine.ir.primitive import FORMS, ROWS, SCALAR_OP
from weft.engine.pipeline.batching.membership import batched_operands, rows_along
from weft.engine.runtime.numpy_views import readable
from weft.errors import WeftError
from weft.ops.limits import limit_error_of_op
from weft.ops.structure.indexing import public_name

if TYPE_CHECKING:
    from weft._typing import Array
    from weft.engine.ir.node import Node
    from weft.engine.pipeline.program_ir import MemRef, Program

SELECT = FORMS["view"]["select"]


class FailedRows(dict[int, WeftError]):
    """The examples of a batch that have no value, with their errors; the others have theirs."""

    def first_of(self, rows: Iterable[int]) -> WeftError | None:
        """The error of the first failed one among these rows."""
        return next((self[row] for row in rows if row in self), None)


Failure = WeftError | FailedRows


def poison(program: Program, memory: Any, run: Any, kernels: list[int]) -> dict[Any, Failure]:
    """The failures by root: of the index checks, and of everything computed from failed or partly failed values."""
    failed: dict[Any, Failure] = {
        memref.root: memref.root.error
        for memref in program.memrefs
        if memref.root.state == DONE and memref.root.error is not None
    }
    if not kernels and not failed:
        return failed
    for kernel in program.kernels:
        for node in kernel.nodes:
            found = list(_inherited(node, program, failed))
            if kernel.position in kernels:
                found.append(index_failure(node, value_in(node.inputs[1], program, memory, run)))
            joined = _joined(found)
            if joined:
                failed[node] = joined
    return failed


def failure_of(node: Node, memref: MemRef, failure: Failure) -> WeftError | None:
    """The error of a value in a region of a failed one; None if the region has no failed row."""
    if not isinstance(failure, FailedRows):
        return failure
    return failure.first_of(_rows_of(memref.root, memref.offset, node.shape, memref.strides))


def failure_by_rows(node: Node, source: Node) -> WeftError | None:
    """The error of a node that reads a batch which has failed in part: what picks rows may pick others."""
    if node.op.kind == ROWS:
        numbers, rows, _ = node.info
        chosen = [r for n, r in zip(numbers, rows, strict=True) if node.inputs[n] is source]
        return failure_of_all(source) if -1 in chosen else source.error.first_of(chosen)
    if node.op.form == SELECT and node.params[0] == 0:
        return source.error.first_of([node.params[1]])
    return failure_of_all(source)


def failure_of_all(source: Node) -> WeftError:
    """The first error among the rows of a batch."""
    error: WeftError = next(iter(source.error.values()))
    return error


def _joined(found: list[Failure]) -> Failure | None:
    """One failure of several: of the whole where one is."""
    rows = FailedRows()
    for failure in found:
        if not isinstance(failure, FailedRows):
            return failure
        for row, error in failure.items():
            rows.setdefault(row, error)
    return rows or None


def _inherited(node: Node, program: Program, failed: dict[Node, Failure]) -> Iterator[Failure]:
    """The failures that a node inherits from its operands."""
    flags = batched_operands(node)
    for number, source in enumerate(node.inputs):
        memref = program.memref(source)
        failure = failed.get(memref.root)
        if failure is None:
            continue
        if node.op.kind == ROWS:
            yield _gathered(node, number, memref, failure)
        elif flags is not None and flags[number] and isinstance(failure, FailedRows):
            yield _row_by_row(node, source, memref, failure)
        else:
            error = failure_of(source, memref, failure)
            if error is not None:
                yield error


def _row_by_row(node: Node, source: Node, memref: MemRef, failure: FailedRows) -> FailedRows:
    """Examples of a batch fail with their own operand."""
    found = FailedRows()
    axis = rows_along(node) + len(source.shape) - len(node.shape)
    for row in range(node.info.count):
        error = _failure_of_row(source, row, memref, failure, max(axis, 0))
        if error is not None:
            found[row] = error
    return found


def _gathered(node: Node, number: int, memref: MemRef, failure: Failure) -> FailedRows:
    """Gathered rows fail with those that they are made of."""
    numbers, rows, offsets = node.info
    source = node.inputs[number]
    found = FailedRows()
    for row in range(node.shape[0]):
        entries = range(row, row + 1) if offsets is None else range(offsets[row], offsets[row + 1])
        for entry in entries:
            if numbers[entry] != number:
                continue
            error = _failure_of_row(source, rows[entry], memref, failure)
            if error is not None:
                found.setdefault(row, error)
    return found


def _failure_of_row(
    source: Node, row: int, memref: MemRef, failure: Failure, axis: int = 0
) -> WeftError | None:
    """The error of one row of a value along a dimension, or of all of it (row -1)."""
    if row < 0 or not isinstance(failure, FailedRows):
        return failure_of(source, memref, failure)
    start = memref.offset + row * memref.strides[axis]
    shape, strides = source.shape[axis + 1 :], memref.strides[axis + 1 :]
    return failure.first_of(_rows_of(memref.root, start, shape, strides))


def _rows_of(root: Node, offset: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> range:
    """The rows of a batch that a strided region of it touches, and those between them; if the region takes whole rows
    at equal distances, only these."""
    if 0 in shape:
        return range(0)
    length = max(root.numel // root.shape[rows_along(root)], 1)
    if shape and strides[0] > length and strides[0] % length == 0:
        one = _rows_of(root, offset, shape[1:], strides[1:])
        if len(one) == 1:
            step = strides[0] // length
            return range(one[0], one[0] + (shape[0] - 1) * step + 1, step)
    spans = [(size - 1) * stride for size, stride in zip(shape, strides, strict=True)]
    first = offset + sum(span for span in spans if span < 0)
    last = offset + sum(span for span in spans if span > 0)
    return range(first // length, last // length + 1)


def index_failure(node: Node, values: Array) -> Failure:
    """The failure of a node whose index is out of range, by its values; of a batch, by example."""
    flags = batched_operands(node)
    axis = node.params[0]
    size = node.inputs[0].shape[axis]
    name, wraps = public_name(node.op)
    if wraps:  # negative positions have been wrapped: what is still negative was farther out
        values = np.where(values < 0, values - size, values)
    if flags is None or not flags[1]:
        return _outside(name, values, size, axis, wraps, node.where)
    least = -size if wraps else 0
    rows = values.reshape(values.shape[rows_along(node)], -1)
    outside = ((rows < least) | (rows >= size)).any(1)
    axis -= flags[0]
    return FailedRows(
        (int(row), _outside(name, rows[row], size, axis, wraps, node.where))
        for row in np.flatnonzero(outside)
    )


def _outside(
    name: str, values: Array, size: int, axis: int, wraps: bool, where: str | None
) -> WeftError:
    """The error of an index out of range, or of what an index was made to find."""
    outside = f"{int((values != 0).sum())} of {values.size} elements outside"
    error: WeftError = limit_error_of_op(name, outside, where) or range_error(
        name, values, size, axis, wraps, where
    )
    return error


def value_in(node: Node, program: Program, memory: Any, run: Any) -> Array:
    """A copy of a value that a program holds in a slot it keeps."""
    memref = program.memref(node)
    slot = memref.value.slot
    if memref.root.op is SCALAR_OP:
        return np.full(node.shape, memref.root.params, np.int64)
    buffer = run.buffers[slot]
    memory_of_slot = np.frombuffer(readable(buffer), np.uint8)
    start = run.addresses[slot] - buffer.address + memref.offset * memref.root.dtype.itemsize
    array = np.ndarray(
        node.shape,
        node.dtype.numpy,
        memory_of_slot,
        start,
        [stride * node.dtype.itemsize for stride in memref.strides],
    )
    return array.copy()
