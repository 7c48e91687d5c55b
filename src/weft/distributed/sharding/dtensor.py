"""DTensor: this rank's rows of a tensor that lies over the ranks of a mesh.

It is a tensor of those rows, and operations on it are operations on them: an optimizer that is given sharded
parameters has sharded state. `full_tensor` brings the whole to every rank. The rows are dealt out as PyTorch does: each
rank has as many, but the last ones, which have fewer or none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import weft
from weft.distributed.carrier import record
from weft.distributed.device_mesh import DeviceMesh
from weft.distributed.group import ProcessGroup
from weft.distributed.placements import Placement, Replicate, Shard
from weft.distributed.reduction import ReduceOp
from weft.engine.frontend.tensor import Tensor
from weft.engine.replay.conditions import add_plain_kind
from weft.errors import ArgumentError, NotDefinedError
from weft.nn.parameter import Parameter


class Layout(NamedTuple):
    """The layout of a tensor over a mesh: rows of it over one dimension (`sharded`), copies over the others."""

    mesh: DeviceMesh
    placements: tuple[Placement, ...]
    shape: tuple[int, ...]

    @property
    def sharded(self) -> int | None:
        """The dimension of the mesh that shares out the rows; None where each rank has all."""
        return next((dim for dim, p in enumerate(self.placements) if p.is_shard()), None)

    def group(self, dim: int | None) -> ProcessGroup | None:
        """This rank's group along a dimension of the mesh."""
        return None if dim is None else self.mesh.get_group(dim)

    @property
    def size(self) -> int:
        """The number of ranks that share out the rows."""
        return 1 if self.sharded is None else self.mesh.size(self.sharded)

    @property
    def most_rows(self) -> int:
        """The rows of a rank that has not fewer."""
        return -(-self.shape[0] // self.size) if self.shape else 0

    def rows(self, index: int | None = None) -> tuple[int, int]:
        """The first row, and how many there are, of this rank or of another one of those that share them out."""
        if self.sharded is None:
            return 0, self.shape[0] if self.shape else 0
        at = self.mesh.get_local_rank(self.sharded) if index is None else index
        first = min(at * self.most_rows, self.shape[0])
        return first, min(self.most_rows, self.shape[0] - first)

    def owners(self) -> list[int]:
        """The ranks that have the rows, in their order: of copies, the first."""
        if self.sharded is None:
            return [int(self.mesh.mesh.flatten()[0])]
        lines = self.mesh.mesh.movedim(self.sharded, -1).reshape(-1, self.size)
        return list(lines[0].tolist())

    def own_rows(self, whole: Tensor) -> Tensor:
        """This rank's rows of a tensor that has all."""
        return whole if self.sharded is None else whole.narrow(0, *self.rows())

    def padded(self, rows: Tensor) -> Tensor:
        """A rank's rows, with zeros to make them as many as others have."""
        return with_rows(rows, self.most_rows)

    def whole(self, rows: Tensor) -> Tensor:
        """The tensor of which all ranks have rows, on each."""
        if self.sharded is None:
            return rows
        gathered = record("all_gather", self.padded(rows), need_group(self.group(self.sharded)))
        return first_rows(gathered, self.shape[0])


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


def with_rows(tensor: Tensor, count: int) -> Any:
    """A tensor with rows of zeros behind its own, so that there are `count`."""
    missing = count - tensor.shape[0]
    if missing == 0:
        return tensor
    return weft.cat([tensor, tensor.new_zeros(missing, *tensor.shape[1:])])


def first_rows(tensor: Tensor, count: int) -> Any:
    """The first rows of a tensor."""
    return tensor if tensor.shape[0] == count else tensor.narrow(0, 0, count)


class DTensor(Parameter):
    """This rank's rows of a tensor; `shape` is that of the rows, `spread.shape` that of the whole."""

    spread: Layout

    def __new__(cls, rows: Tensor, layout: Layout, requires_grad: bool = False) -> Self:
        made: Self = Tensor._make_subclass(cls, rows.detach(), requires_grad)
        made.spread = layout
        return made

    @property
    def device_mesh(self) -> DeviceMesh:
        """The ranks that it lies over."""
        return self.spread.mesh

    @property
    def placements(self) -> tuple[Placement, ...]:
        """For each dimension of the mesh, how it holds the tensor."""
        return self.spread.placements

    def to_local(self, *, grad_placements: object = None) -> Tensor:
        """This rank's rows, as an ordinary tensor of the same memory."""
        return self.view_as(self)

    def full_tensor(self, *, grad_placements: object = None) -> Tensor:
        """The whole tensor, on each rank; all ranks of the mesh call it."""
        return self.spread.whole(self)

    @staticmethod
    def from_local(
        local_tensor: Tensor,
        device_mesh: DeviceMesh,
        placements: Sequence[Placement],
        *,
        run_check: bool = False,
        shape: Sequence[int] | None = None,
        stride: object = None,
    ) -> DTensor:
        """A tensor of which each rank gives its rows; without `shape` all give as many."""
        layout = Layout(device_mesh, need_placements(placements, device_mesh), ())
        whole = shape or (local_tensor.shape[0] * layout.size, *local_tensor.shape[1:])
        return DTensor(local_tensor, layout._replace(shape=tuple(whole)))

    def detach(self) -> DTensor:  # type: ignore[override]
        """The same rows, without a gradient."""
        return DTensor(super().detach(), self.spread)

    def like(self, rows: object) -> Any:
        """Rows that lie as this tensor's do; anything else as it is."""
        fits = isinstance(rows, Tensor) and rows.shape == self.shape and rows.ndim > 0
        return DTensor(rows, self.spread) if fits else rows  # type: ignore[arg-type]

    def own_rows(self, value: Tensor) -> Tensor:
        """This rank's rows of a tensor that has all of them; anything else as it is."""
        if isinstance(value, DTensor) or tuple(value.shape) != self.spread.shape:
            return value
        return self.spread.own_rows(value)

    def over_ranks(self, value: Tensor, is_largest: bool = False) -> Any:
        """The sum, or the largest, of a value over the ranks that share out the rows."""
        dim = self.spread.sharded
        if dim is None:
            return value
        op = ReduceOp.MAX if is_largest else ReduceOp.SUM
        return record("all_reduce", value, need_group(self.spread.group(dim)), op)

    def __deepcopy__(self, memo: dict[int, DTensor]) -> DTensor:  # type: ignore[override]
        if id(self) not in memo:
            memo[id(self)] = DTensor(self.detach().clone(), self.spread, self.requires_grad)
        return memo[id(self)]

    def __reduce_ex__(self, protocol: object) -> tuple[Any, ...]:
        raise NotDefinedError(
            "DTensor: rows of one rank are not a tensor to be saved",
            expected="a whole tensor, or a distributed checkpoint",
            got=f"{list(self.shape)} of {list(self.spread.shape)}",
            fix="call weft.distributed.checkpoint.save, or full_tensor() on all ranks",
        )

    def __repr__(self, **options: object) -> str:
        rows = Tensor.__repr__(self, **options)
        return f"DTensor(local_tensor={rows}, device_mesh={self.device_mesh}, placements={self.placements})"


add_plain_kind(DTensor)


def need_placements(
    placements: Sequence[Placement] | None, mesh: DeviceMesh
) -> tuple[Placement, ...]:
    """Placements, one for each dimension of a mesh. Errors: ValueError for what no tensor here can have."""
    found = (
        (Shard(0),) + (Replicate(),) * (mesh.ndim - 1) if placements is None else tuple(placements)
    )
    shards = [p for p in found if p.is_shard()]
    fits = len(found) == mesh.ndim and len(shards) <= 1 and all(p.is_shard(0) for p in shards)
    if fits and not any(p.is_partial() for p in found):
        return found
    raise ArgumentError(
        f"DTensor: a tensor cannot lie as {list(found)} over {mesh}",
        expected=f"{mesh.ndim} placements: at most one Shard(0), and Replicate()",
        got=str(list(found)),
        fix="shard along dimension 0",
    )


def distribute_tensor(
    tensor: Tensor,
    device_mesh: DeviceMesh,
    placements: Sequence[Placement] | None = None,
    *,
    src_data_rank: int | None = 0,
) -> DTensor:
    """A tensor laid over a mesh: each rank keeps its rows of what the rank `src_data_rank` of each line of the mesh
    has, or, where that is None, of its own."""
    found = need_placements(placements, device_mesh)
    with weft.no_grad():
        if src_data_rank is not None:
            for dim in range(device_mesh.ndim):
                group = need_group(device_mesh.get_group(dim))
                tensor = record("broadcast", tensor.detach(), group, root=src_data_rank)
        layout = Layout(device_mesh, found, tuple(tensor.shape))
        return DTensor(layout.own_rows(tensor).clone(), layout, tensor.requires_grad)
