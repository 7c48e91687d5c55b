"""From one layout to another, with derivatives.

What each rank computes of a tensor's cotangent follows a rule: the cotangent of a shard is its shard, and that of a
replicated or partial value is whole, the same on all ranks. So each step below has a partner that takes cotangents
back: `all_gather` and taking a part, `reduce_scatter` and `all_gather`, `all_reduce` and nothing. A replicated value
that ranks use differently, each with its shard of others, is `used_in_parts`: its cotangents are summed (the f of
Megatron-LM, Shoeybi et al. 2019; `pvary` in JAX).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn, Protocol

import weft
from weft.autograd import Function
from weft.distributed.collectives.carrier import record
from weft.distributed.collectives.reduction import ReduceOp
from weft.distributed.group import ProcessGroup, run_recorded
from weft.distributed.placements import Partial, Placement, Replicate, Shard
from weft.distributed.sharding.layout import (
    MeshLayout,
    Placements,
    gathered,
    need_group,
    outermost_first,
    share,
    summed_part,
    swapped,
)
from weft.engine.frontend.tensor import Tensor
from weft.errors import NotDefinedError

Map = Callable[[Tensor], Any]
_OPS = {op.value: op for op in ReduceOp}


class _Context(Protocol):
    there: Map
    back: Map


class _Linear(Function):
    """A linear map of this rank's part with the one that takes its cotangents back."""

    @staticmethod
    def forward(ctx: _Context, x: Tensor, there: Map, back: Map) -> Any:
        """The result of `there`."""
        ctx.there, ctx.back = there, back
        return there(x)

    @staticmethod
    def backward(ctx: _Context, g: Tensor) -> Any:
        """The result of `back`, which has a derivative in its turn."""
        return linear_map(g, ctx.back, ctx.there), None, None


def begun(tensor: Tensor) -> Tensor:
    """The tensor, whose collectives begin now where no gradient is recorded: other ranks may read what this one drops,
    before it does anything else for long."""
    if not tensor.requires_grad:
        run_recorded()
    return tensor


def linear_map(x: Tensor, there: Map, back: Map) -> Any:
    """The result of a map whose cotangents `back` takes to those of its operand."""
    if weft.is_grad_enabled() and x.requires_grad:
        return _Linear.apply(x, there, back)
    return there(x)


def _same(x: Tensor) -> Any:
    return x.view_as(x)


def used_in_parts(x: Tensor, group: ProcessGroup) -> Any:
    """A replicated value, for operations of which each rank does a part: cotangents are summed over the ranks."""
    return linear_map(x, _same, lambda g: record("all_reduce", g, group))


def _own(dim: int, group: ProcessGroup) -> Map:
    def take(x: Tensor) -> Any:
        return x.narrow(dim, *share(x.shape[dim], group.size(), group.rank()))

    return take


def _whole(dim: int, group: ProcessGroup, count: int) -> Map:
    return lambda x: gathered(x, dim, group, count)


def _to_whole(x: Tensor, placement: Placement, group: ProcessGroup, count: int) -> Any:
    """The value that is shared out, or to be combined, by one dimension of the mesh."""
    if isinstance(placement, Shard):
        dim = placement.dim
        return linear_map(x, _whole(dim, group, count), _own(dim, group))
    assert isinstance(placement, Partial)
    name, size = placement.reduce_op, group.size()
    op = _OPS[name]
    back = {"sum": _same, "avg": lambda g: g / size}.get(name, _no_derivative(name))
    return linear_map(x, lambda v: record("all_reduce", v, group, op), back)


def _exchanged(x: Tensor, there: Shard, back: Shard, group: ProcessGroup, count: int) -> Any:
    """This rank's part along another dimension, of which the ranks have `count` elements of the old one: each sends to
    each other the part of its part that falls there."""
    sizes = count, x.shape[there.dim]

    def swap(old: int, new: int, old_count: int, new_count: int) -> Map:
        return lambda v: swapped(v, old, new, group, old_count, new_count)

    return linear_map(
        x,
        swap(back.dim, there.dim, *sizes),
        swap(there.dim, back.dim, *reversed(sizes)),
    )


def _no_derivative(name: str) -> Map:
    def refuse(g: Tensor) -> NoReturn:
        raise NotDefinedError(
            f"redistribute: Partial({name!r}) has no derivative",
            expected="Partial('sum') or Partial('avg')",
            got=repr(name),
            fix="redistribute under no_grad()",
        )

    return refuse


def _scattered(x: Tensor, dim: int, group: ProcessGroup) -> Any:
    """This rank's part of a sum that is still to be taken."""
    count = x.shape[dim]
    return linear_map(x, lambda v: summed_part(v, dim, group), _whole(dim, group, count))


def _from_whole(x: Tensor, placement: Placement, group: ProcessGroup) -> Any:
    """This rank's part of a value that all have."""
    if isinstance(placement, Shard):
        dim = placement.dim
        return linear_map(x, _own(dim, group), _whole(dim, group, x.shape[dim]))
    if placement.is_partial("sum"):  # the first rank's value, which all the others add nothing to
        is_first = group.rank() == 0
        return linear_map(x, lambda v: _same(v) if is_first else weft.zeros_like(v), _same)
    return x  # the mean or the largest of equal values is each of them


def _dirty(now: Placements, then: Placements) -> list[bool]:
    """For each dimension of the mesh, whether values have to be whole over it between the layouts: it has another
    placement afterwards, or shares out what is left of a dimension that an outer one shares out before or
    afterwards."""
    dirty = [a != b for a, b in zip(now, then, strict=True)]
    changed = [dim for dim, changes in enumerate(dirty) if changes]
    for placements in (now, then):
        order = outermost_first(placements)
        for dim in changed:
            touched = {p.dim for p in (now[dim], then[dim]) if isinstance(p, Shard)}
            for inner in order[order.index(dim) + 1 :]:
                placement = now[inner]
                dirty[inner] |= isinstance(placement, Shard) and placement.dim in touched
    return dirty


def _is_shared_out(
    layout: MeshLayout, now: Sequence[Placement], then: Placements, dim: int
) -> bool:
    """True if another dimension of the mesh shares out, before or afterwards, what this one did or is to."""
    touched = _shared_out(now[dim], then[dim])
    return any(touched & _shared_out(now[k], then[k]) for k in range(len(now)) if k != dim)


def _shared_out(*placements: Placement) -> set[int]:
    """The dimensions of a tensor that some placements share out."""
    return {placement.dim for placement in placements if isinstance(placement, Shard)}


def redistribute(local: Tensor, layout: MeshLayout, placements: Sequence[Placement]) -> Any:
    """This rank's part under other placements."""
    then = tuple(placements)
    dirty = _dirty(layout.placements, then)
    now = list(layout.placements)
    innermost_last = outermost_first(then)
    for dim in reversed(outermost_first(now)):
        placement, group = now[dim], layout.mesh.get_group(dim)
        if not dirty[dim] or placement.is_replicate():
            continue
        target = then[dim]
        waits = isinstance(target, Shard) and any(
            dirty[k] and target.dim in _shared_out(now[k], then[k])
            for k in range(len(now))
            if k != dim
        )
        if placement.is_partial("sum") and isinstance(target, Shard) and not waits:
            local, now[dim] = _scattered(local, target.dim, need_group(group)), target
            continue
        count = 0
        if isinstance(placement, Shard):
            count = layout._replace(placements=tuple(now)).before(dim).local_shape[placement.dim]
            if isinstance(target, Shard) and not _is_shared_out(layout, now, then, dim):
                some = (target, placement, need_group(group), count)
                local, now[dim] = _exchanged(local, *some), target
                continue
        local, now[dim] = _to_whole(local, placement, need_group(group), count), Replicate()
    for dim in innermost_last:
        if now[dim] != then[dim]:
            local = _from_whole(local, then[dim], need_group(layout.mesh.get_group(dim)))
    return local
