# cython: language_level=3
"""Merging batches of different flushes in one backward: equal groups that are ready together run one rule.

When values are read in between, as in `weft.map`, equal operations run in a batch for each flush, and backward reaches
all of these batches. It takes groups of executed members; `merge_key` says which two are equal, `merge_batches` makes
one group of all their members, and `residuals_of_merged` gives the residuals for its rule. Residuals are copied
together, so batches that are large already stay apart.
"""

import cython
from cython.cimports.weft.engine.backward.batching.batched_vjp import (
    Group,
    RowContributions,
    new_group,
    new_row_contributions,
)
from cython.cimports.weft.engine.capi.int_array import Integers, extend, integers, push
from cython.cimports.weft.engine.frontend.tensor import Tensor
from cython.cimports.weft.engine.frontend.tensor_lifecycle import wrap
from cython.cimports.weft.engine.ir.batch import batch_of
from cython.cimports.weft.engine.ir.node import DONE, RESULT_SHIFT, Node
from cython.cimports.weft.engine.ir.primitive import Primitive
from cython.cimports.weft.engine.ir.residual_mask import is_saved
from cython.cimports.weft.engine.pipeline.batching.segment_gather import gather
from cython.cimports.weft.engine.pipeline.segment_index import segment_index_of

from weft._build.compiled import require
from weft.engine.ir.primitive import COMPOSITE
from weft.engine.pipeline.batching.batched_residuals import BatchedResiduals

require(__name__, cython.compiled)

_MOST_BYTES = cython.declare(cython.longlong, 1 << 18)


def merge_key(group: Group):
    """A key that groups share whose derivative may be recorded once for all; None where it may not."""
    first: Node = group.at(0)
    quotient: Node = group.quotient
    if (
        quotient.state != DONE
        or quotient.numel * quotient.dtype.itemsize > _MOST_BYTES
        or quotient.operand_shapes is None
        or first.op.kind == COMPOSITE
        or group.ragged
    ):
        return None
    flags: tuple = batch_of(quotient).flags
    parts: list = [
        first.op.code,
        first.params,
        first.shape,
        first.dtype.code,
        first.residual_mask,
        flags,
    ]
    # Recorded at the same place: what one step of a program does in two places would be gathered from both.
    parts.append((id(first.code), first.offset_in_code, first.library_site))
    index: cython.Py_ssize_t
    for index in range(len(flags)):
        shape: tuple = quotient.operand_shapes[index]
        saved: Node = quotient.inputs[index] if is_saved(first.residual_mask, index) else None
        if saved is not None and saved.numel * saved.dtype.itemsize > 4 * _MOST_BYTES:
            return None
        edge = first.edges[index]
        if flags[index]:
            parts.append((shape[1:], edge is None))
        else:
            parts.append((shape, id(edge), 0 if saved is None else id(saved)))
    return tuple(parts)


def merge_batches(groups: list) -> Group:
    """One group of the members of all."""
    group: Group = groups[0]
    whole: Group = new_group(group.known, group.quotient, 0)
    whole.parts = groups
    contribution: RowContributions
    row: cython.int
    for group in groups:
        start: cython.int = cython.cast(cython.int, whole.members.count)
        for contribution in group.row_contributions:
            _bring(
                whole, contribution.cotangent, contribution.rows, contribution.member_numbers, start
            )
        for cotangent in group.dense:
            rows: Integers = integers(0, 0)
            for row in range(cython.cast(cython.int, group.members.count)):
                push(rows, row)
            _bring(whole, cotangent, rows, rows, start)
        extend(whole.members, group.members, 0)
        group.dense, group.row_contributions = [], []
    return whole


@cython.cfunc
def _bring(
    group: Group, cotangent: Tensor, rows: Integers, places: Integers, start: cython.int
) -> cython.void:
    """Add rows of a cotangent for members from number `start` on, to the contribution of the same cotangent if there
    is one."""
    contribution: RowContributions
    for contribution in group.row_contributions:
        if contribution.cotangent is cotangent:
            break
    else:
        contribution = new_row_contributions(cotangent)
        group.row_contributions.append(contribution)
    extend(contribution.rows, rows, 0)
    extend(contribution.member_numbers, places, start)


def residuals_of_merged(group: Group) -> BatchedResiduals:
    """The residuals of all members for the rule, copied together."""
    first: Node = group.at(0)
    quotient: Node = group.quotient
    op: Primitive = first.op
    flags: tuple = batch_of(quotient).flags
    count: cython.Py_ssize_t = group.members.count
    inputs: list = [None] * len(flags)
    shapes: list = []
    index: cython.Py_ssize_t
    for index in range(len(flags)):
        shape: tuple = quotient.operand_shapes[index]
        shapes.append((count, *shape[1:]) if flags[index] else shape)
        if is_saved(first.residual_mask, index):
            inputs[index] = (
                _saved(group, index) if flags[index] else wrap(quotient.inputs[index], None)
            )
    result = _saved(group, -1) if first.residual_mask >> RESULT_SHIFT & 1 else None
    params = first.params
    if op.batch is not None:
        own: tuple = (
            first.operand_shapes
            if first.operand_shapes is not None
            else (first.shape,) * len(flags)
        )
        params = op.batch(first.params, own, flags, count)
    return BatchedResiduals(
        params, tuple(shapes), (count, *quotient.shape[1:]), inputs, result, flags
    )


@cython.cfunc
def _saved(group: Group, index: cython.Py_ssize_t) -> Tensor:
    """The rows of all members of a saved input, or (-1) of the results."""
    sources: list = []
    numbers: Integers = integers(0, 0)
    rows: Integers = integers(0, 0)
    part: Group
    member: Node
    for part in group.parts:
        quotient: Node = part.quotient
        for member in part.nodes():
            push(numbers, cython.cast(cython.int, len(sources)))
            push(rows, cython.cast(cython.int, member.qrow))
        sources.append(quotient if index < 0 else quotient.inputs[index])
    first: Node = sources[0]
    shape: tuple = (rows.count, *first.shape[1:])
    return wrap(
        gather(tuple(sources), segment_index_of(numbers, rows, None), shape, first.dtype), None
    )
