"""Placements of an operation's operands and of its result, by the labels of its rule, so that it runs on parts.

For each dimension of the mesh one label is shared out: the one whose operands have most elements that lie so already.
Operands with that label lie so, others are whole. Where the result lacks the label it is a sum that is still to be
taken. In-place operations keep the placements of what they write to.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import weft
from weft.distributed.device_mesh import DeviceMesh
from weft.distributed.placements import Partial, Placement, Replicate, Shard
from weft.distributed.sharding.layout import MeshLayout, Placements, need_group
from weft.distributed.sharding.redistribute import redistribute, used_in_parts
from weft.distributed.sharding.rules import Label, Labels, ShardingPlan
from weft.engine.frontend.tensor import Tensor
from weft.errors import NotDefinedError

Column = list[Placement]  # of one dimension of the mesh, for each operand


def place(plan: ShardingPlan, layouts: Sequence[MeshLayout]) -> tuple[list[Placements], Placements]:
    """Placements for each operand, and of the result, over all dimensions of the mesh."""
    columns = [_column(plan, layouts, dim) for dim in range(layouts[0].mesh.ndim)]
    operands = [tuple(column[n] for column, _ in columns) for n in range(len(layouts))]
    return operands, tuple(result for _, result in columns)


def _column(
    plan: ShardingPlan, layouts: Sequence[MeshLayout], dim: int
) -> tuple[Column, Placement]:
    """Placements of operands and result over one dimension of the mesh."""
    label, shard = _most_shared(plan, layouts, dim)
    if label is None:
        return _without_shards(plan, layouts, dim)
    result: Placement = Partial()
    if label in plan.result:
        result = shard.along(plan.result.index(label))
    column: Column = [Replicate()] * len(layouts)
    for number, labels in enumerate(plan.operands):
        if label in labels:
            column[number] = shard.along(labels.index(label))
        elif number in plan.added and result.is_partial():
            column[number] = result
    return column, result


def _most_shared(
    plan: ShardingPlan, layouts: Sequence[MeshLayout], dim: int
) -> tuple[Label, Shard]:
    """The label of which most elements are shared out already, and how; None if there is none."""
    found: dict[Label, int] = {}
    shards: dict[Label, Shard] = {None: Shard(0)}
    for labels, layout in zip(plan.operands, layouts, strict=True):
        placement = layout.placements[dim]
        if isinstance(placement, Shard) and (label := labels[placement.dim]) is not None:
            found[label] = found.get(label, 0) + weft.Size(layout.shape).numel()
            shards.setdefault(label, placement)
    most = max(found, key=lambda label: found[label]) if found else None
    return most, shards[most]


def _without_shards(
    plan: ShardingPlan, layouts: Sequence[MeshLayout], dim: int
) -> tuple[Column, Placement]:
    """Operands that are whole, or sums still to be taken where the operation passes them on."""
    before = [layout.placements[dim] for layout in layouts]
    sums = [number for number, placement in enumerate(before) if placement.is_partial("sum")]
    column: Column = [Replicate()] * len(layouts)
    if sums and plan.added and len(sums) == len(layouts) and plan.added == set(sums):
        return [Partial()] * len(layouts), Partial()
    if len(sums) == 1 and sums[0] in plan.linear:
        column[sums[0]] = Partial()
        return column, Partial()
    return column, Replicate()


def place_in(
    plan: ShardingPlan, layouts: Sequence[MeshLayout], name: str
) -> tuple[list[Placements], Placements]:
    """The same for an operation that writes to its first operand, which keeps its placements. Errors: RuntimeError for
    writes to a sum that is still to be taken, of what cannot be added to it."""
    target = layouts[0]
    columns = [_column_in(plan, layouts, dim, name) for dim in range(target.mesh.ndim)]
    operands = [tuple(column[n] for column in columns) for n in range(len(layouts))]
    return operands, target.placements


def _column_in(plan: ShardingPlan, layouts: Sequence[MeshLayout], dim: int, name: str) -> Column:
    placement = layouts[0].placements[dim]
    rest = [layout.placements[dim] for layout in layouts]
    if placement.is_replicate():
        return [Replicate()] * len(layouts)
    if isinstance(placement, Shard):
        label = plan.operands[0][placement.dim]
        if label is not None and label in plan.result:
            return [
                placement.along(o.index(label)) if label in o else Replicate()
                for o in plan.operands
            ]
    elif len(layouts) == len(plan.added):
        return [placement] * len(layouts)
    elif 0 in plan.linear and all(other.is_replicate() for other in rest[1:]):
        return rest
    raise NotDefinedError(
        f"{name}: a tensor that lies as {placement} cannot be written to so",
        expected="operations on elements",
        got=name,
        fix="redistribute(placements=[Replicate()]) first",
    )


def moved(part: Tensor, layout: MeshLayout, placements: Placements, result: Placements) -> Any:
    """This rank's part of an operand, as an operation takes it whose result lies so: a whole operand that goes into
    parts of a result has its cotangents summed."""
    part = redistribute(part, layout, placements)
    for dim, (own, made) in enumerate(zip(placements, result, strict=True)):
        if own.is_replicate() and not made.is_replicate():
            part = used_in_parts(part, need_group(layout.mesh.get_group(dim)))
    return part


def result_layout(
    plan: ShardingPlan,
    layouts: Sequence[MeshLayout],
    placements: Placements,
    mesh: DeviceMesh,
    shape: Sequence[int],
) -> MeshLayout:
    """The layout of a result of which this rank's part has a shape."""
    if plan.shape:
        return MeshLayout(mesh, placements, plan.shape)
    return MeshLayout(mesh, placements, _whole_shape(plan.result, plan.operands, layouts, shape))


def _whole_shape(
    result: Labels, operands: Sequence[Labels], layouts: Sequence[MeshLayout], shape: Sequence[int]
) -> tuple[int, ...]:
    if not result:
        return tuple(shape)
    sizes = sizes_of(operands, layouts)
    return tuple(sizes.get(label, size) for label, size in zip(result, shape, strict=True))


def sizes_of(operands: Sequence[Labels], layouts: Sequence[MeshLayout]) -> dict[Label, int]:
    """The sizes of labelled dimensions."""
    return {
        label: layout.shape[dim]
        for labels, layout in zip(operands, layouts, strict=True)
        for dim, label in enumerate(labels)
        if label is not None
    }
