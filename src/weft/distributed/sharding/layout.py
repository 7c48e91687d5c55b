"""Layouts: which part of a tensor each rank of a mesh has.

Parts are dealt out as PyTorch does: along a dimension each rank has as many elements, but the last ones, which have
fewer or none. Where several dimensions of a mesh share out one dimension of the tensor, a later one shares out what an
earlier one left; a strided shard, which `fully_shard` makes of what tensor parallel has shared out, what all others
left.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import weft
from weft.distributed.collectives.carrier import record
from weft.distributed.collectives.objects import all_gather_object
from weft.distributed.device_mesh import DeviceMesh
from weft.distributed.group import ProcessGroup
from weft.distributed.placements import (
    Partial,
    Placement,
    Replicate,
    Shard,
    _StridedShard,
)
from weft.engine.frontend.tensor import Tensor
from weft.errors import ArgumentError

Placements = tuple[Placement, ...]


def share(count: int, ranks: int, index: int) -> tuple[int, int]:
    """The first of `count` elements that fall to a rank, and how many do."""
    most = -(-count // ranks)
    first = min(index * most, count)
    return first, min(most, count - first)


def outermost_first(placements: Sequence[Placement]) -> list[int]:
    """The dimensions of a mesh in the order in which they share out a tensor, each what those before it left: as they
    stand, but for strided shards, which come last."""
    return sorted(
        range(len(placements)), key=lambda dim: isinstance(placements[dim], _StridedShard)
    )


class MeshLayout(NamedTuple):
    """The layout of a tensor of a shape over a mesh: for each dimension of the mesh a placement."""

    mesh: DeviceMesh
    placements: Placements
    shape: tuple[int, ...]

    def bounds(self, coordinate: Sequence[int] | None = None) -> list[tuple[int, int]]:
        """For each dimension of the tensor, the first index and the count that this rank, or the one at a coordinate of
        the mesh, has."""
        at = self.mesh.get_coordinate() if coordinate is None else coordinate
        found = [(0, size) for size in self.shape]
        for mesh_dim in outermost_first(self.placements):
            placement = self.placements[mesh_dim]
            if isinstance(placement, Shard):
                begin, count = found[placement.dim]
                first, own = share(count, self.mesh.shape[mesh_dim], at[mesh_dim] if at else 0)
                found[placement.dim] = (begin + first, own)
        return found

    @property
    def local_shape(self) -> tuple[int, ...]:
        """The shape of this rank's part."""
        return tuple(count for _, count in self.bounds())

    def before(self, mesh_dim: int) -> MeshLayout:
        """The layout without what this dimension of the mesh, and those that share out what it leaves, do."""
        order = outermost_first(self.placements)
        kept = order[: order.index(mesh_dim)]
        found = [p if dim in kept else Replicate() for dim, p in enumerate(self.placements)]
        return self._replace(placements=tuple(found))

    def own_part(self, whole: Tensor) -> Any:
        """This rank's part of a tensor that has all."""
        for dim, (first, count) in enumerate(self.bounds()):
            if count != whole.shape[dim]:
                whole = whole.narrow(dim, first, count)
        return whole

    def of_cotangents(self) -> MeshLayout:
        """The layout of cotangents: that of values, but whole where values are still to be summed."""
        placements = [Replicate() if p.is_partial() else p for p in self.placements]
        return self._replace(placements=tuple(placements))

    def group(self, dim: int | None) -> ProcessGroup | None:
        """This rank's group along a dimension of the mesh."""
        return None if dim is None else self.mesh.get_group(dim)

    # -- one dimension of the tensor over one of the mesh, as `fully_shard` has them -------------------------------

    @property
    def is_rows(self) -> bool:
        """True if at most one dimension of the mesh shares out anything, and that rows."""
        shards = [p for p in self.placements if not p.is_replicate()]
        return len(shards) <= 1 and all(p.is_shard(0) for p in shards)

    @property
    def sharded(self) -> int | None:
        """The first dimension of the mesh that shares out something; None where each rank has all."""
        return next((dim for dim, p in enumerate(self.placements) if p.is_shard()), None)

    @property
    def size(self) -> int:
        """The number of ranks that share out the rows."""
        return 1 if self.sharded is None else self.mesh.size(self.sharded)

    @property
    def sharded_dim(self) -> int:
        """The dimension of the tensor that is shared out; the first one where each rank has all."""
        placement = None if self.sharded is None else self.placements[self.sharded]
        return placement.dim if isinstance(placement, Shard) else 0

    @property
    def most_rows(self) -> int:
        """The rows, or entries of the dimension that is shared out, of a rank that has not fewer."""
        return -(-self.shape[self.sharded_dim] // self.size) if self.shape else 0

    def padded(self, rows: Tensor) -> Tensor:
        """A rank's rows, with zeros to make them as many as others have."""
        return with_more(rows, 0, self.most_rows)

    def as_rows(self, tensor: Tensor) -> Any:
        """A tensor as it goes to other ranks, with the dimension that is shared out as its first."""
        dim = self.sharded_dim
        return tensor if dim == 0 else tensor.movedim(dim, 0)

    def whole_of(self, rows: Tensor) -> Any:
        """The whole tensor of all ranks' rows."""
        return self.from_rows(rows, self.shape[self.sharded_dim])

    def part_of(self, rows: Tensor) -> Any:
        """This rank's part of a tensor, of its rows."""
        return self.from_rows(rows, self.local_shape[self.sharded_dim])

    def from_rows(self, rows: Tensor, count: int) -> Any:
        """The first `count` rows of what came from other ranks, with dimensions where they belong."""
        dim, kept = self.sharded_dim, first_of(rows, 0, count)
        return kept if dim == 0 else kept.movedim(0, dim).contiguous()


def compute_local_shape_and_global_offset(
    global_shape: Sequence[int], mesh: DeviceMesh, placements: Sequence[Placement]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shape of this rank's part of a tensor, and the first index of it in each dimension.

    Args:
        global_shape: the shape of the whole.
        mesh: the ranks.
        placements: for each dimension of the mesh, how the tensor lies along it.
    """
    bounds = MeshLayout(mesh, tuple(placements), tuple(global_shape)).bounds()
    return tuple(count for _, count in bounds), tuple(first for first, _ in bounds)


def need_group(group: ProcessGroup | None) -> ProcessGroup:
    """The group itself. Errors: ValueError on ranks outside of it."""
    if group is not None:
        return group
    raise ArgumentError(
        "this process is not in the mesh",
        expected="a rank of the mesh",
        got="another one",
        fix="leave the tensor to the ranks of its mesh",
    )


def with_more(tensor: Tensor, dim: int, count: int) -> Any:
    """A tensor with zeros behind its elements along a dimension, so that there are `count`."""
    missing = count - tensor.shape[dim]
    if missing == 0:
        return tensor
    shape = list(tensor.shape)
    shape[dim] = missing
    return weft.cat([tensor, tensor.new_zeros(shape)], dim)


def first_of(tensor: Tensor, dim: int, count: int) -> Any:
    """The first elements of a tensor along a dimension."""
    return tensor if tensor.shape[dim] == count else tensor.narrow(dim, 0, count)


def gathered(part: Tensor, dim: int, group: ProcessGroup, count: int) -> Any:
    """The parts of all ranks, one behind the other along a dimension, of which the whole has `count` elements."""
    most = -(-count // group.size())
    rows = with_more(part, dim, most).movedim(dim, 0)
    return first_of(record("all_gather", rows, group), 0, count).movedim(0, dim)


def summed_part(whole: Tensor, dim: int, group: ProcessGroup) -> Any:
    """This rank's part along a dimension of the sum of all ranks' tensors."""
    count, ranks = whole.shape[dim], group.size()
    most = -(-count // ranks)
    rows = with_more(whole, dim, most * ranks).movedim(dim, 0)
    own = share(count, ranks, group.rank())[1]
    return first_of(record("reduce_scatter", rows, group), 0, own).movedim(0, dim)


def swapped(
    part: Tensor, old: int, new: int, group: ProcessGroup, old_count: int, new_count: int
) -> Any:
    """This rank's part along the dimension `new` of what the ranks share out along `old`; the counts are those of the
    whole. Each rank gets what it needs from each other, and no more."""
    ranks, own = range(group.size()), group.rank()
    pieces = [part.narrow(new, *share(new_count, len(ranks), rank)) for rank in ranks]
    kept = share(new_count, len(ranks), own)[1]
    shapes = []
    for rank in ranks:
        shape = list(part.shape)
        shape[old], shape[new] = share(old_count, len(ranks), rank)[1], kept
        shapes.append(shape)
    sent, received = [piece.numel() for piece in pieces], [math.prod(shape) for shape in shapes]
    flat = weft.cat([piece.reshape(-1) for piece in pieces])
    found = record("all_to_all", flat, group, sent=sent, received=received).split(received)
    return weft.cat([one.view(shape) for one, shape in zip(found, shapes, strict=True)], old)


def need_placements(
    placements: Sequence[Placement] | None, mesh: DeviceMesh, ndim: int | None = None
) -> Placements:
    """Placements, one for each dimension of a mesh, with dimensions of the tensor counted from its first. Errors:
    ValueError for another number of them, and for dimensions that a tensor of `ndim` lacks."""
    if placements is None:
        return (Shard(0), *[Replicate()] * (mesh.ndim - 1)) if ndim else (Replicate(),) * mesh.ndim
    found = tuple(_counted(placement, ndim) for placement in placements)
    fits = all(isinstance(p, (Shard, Replicate, Partial)) for p in found)
    if len(found) == mesh.ndim and fits and all(_has(p, ndim) for p in found):
        return found
    if len(found) != mesh.ndim:
        problem = (
            "`placements` must have the same length as `device_mesh.ndim`! "
            f"Found placements length: {len(found)}, and device_mesh.ndim: {mesh.ndim}."
        )
    else:
        problem = f"DTensor: a tensor cannot lie as {list(found)} over {mesh}"
    raise ArgumentError(
        problem,
        expected=f"{mesh.ndim} placements: Shard of a dimension, Replicate() or Partial()",
        got=str(list(found)),
        fix="name one placement for each dimension of the mesh",
    )


def _counted(placement: Placement, ndim: int | None) -> Placement:
    if isinstance(placement, Shard) and placement.dim < 0 and ndim is not None:
        return placement.along(placement.dim + ndim)
    return placement


def _has(placement: Placement, ndim: int | None) -> bool:
    is_other = not isinstance(placement, Shard) or ndim is None
    return is_other or 0 <= placement.dim < ndim  # type: ignore[attr-defined, operator]


def need_both(shape: Sequence[int] | None, stride: object) -> None:
    """Errors: RuntimeError for a shape without strides, or the reverse."""
    if (shape is None) != (stride is None):
        raise ArgumentError(
            f"Found shape:{shape}, stride:{stride}. Please pass both shape and stride at the same time.",
            expected="shape= and stride=, or neither",
            got="one of them",
            fix="pass shape=whole.shape, stride=whole.stride()",
        )


def need_alike(part: Tensor, layout: MeshLayout) -> None:
    """Errors: ValueError on all ranks where they give tensors of different shapes, strides or types."""
    own = [list(part.shape), list(part.stride()), part.dtype.name, part.requires_grad]
    for dim in range(layout.mesh.ndim):
        group = need_group(layout.group(dim))
        said: list[Any] = [None] * group.size()
        all_gather_object(said, own, group)
        if any(one != said[0] for one in said):
            raise ArgumentError(
                "Inconsistent tensor metadata (including shape and stride) across ranks.",
                expected="parts of one shape, stride and dtype",
                got=", ".join(f"rank {rank}: {one}" for rank, one in enumerate(said)),
                fix="give equal parts, or leave run_check out and pass shape= and stride=",
            )
