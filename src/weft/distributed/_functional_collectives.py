"""Functional collectives, with PyTorch's names: each takes a tensor and gives a new one, which is waited for when it is
read.

They are nodes (`carrier`): a flush begins them as soon as their operands are there and goes on with what does not read
the result. So `wait_tensor` has nothing to do. All have derivatives.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import weft
from weft.distributed.collectives.carrier import record
from weft.distributed.collectives.operations import split_sizes
from weft.distributed.collectives.reduction import ReduceOp
from weft.distributed.device_mesh import DeviceMesh
from weft.distributed.group import ProcessGroup
from weft.distributed.world import current_world, resolve
from weft.engine.frontend.tensor import Tensor
from weft.errors import ArgumentError

__all__ = [
    "all_gather_into_tensor_coalesced", "all_gather_single", "all_gather_single_autograd",
    "all_gather_single_coalesced", "all_gather_tensor", "all_gather_tensor_autograd",
    "all_reduce", "all_reduce_coalesced", "all_to_all_single",
    "all_to_all_single_autograd", "broadcast", "permute_tensor", "reduce_scatter_single",
    "reduce_scatter_single_autograd", "reduce_scatter_single_coalesced", "reduce_scatter_tensor",
    "reduce_scatter_tensor_autograd", "reduce_scatter_tensor_coalesced", "wait_tensor",
]  # fmt: skip

GroupLike = ProcessGroup | DeviceMesh | tuple[DeviceMesh, int] | str | None


def _group(group: GroupLike) -> ProcessGroup:
    """The group that an argument means: itself, by its name, a mesh of one dimension, a dimension of a mesh."""
    if isinstance(group, str):
        return current_world().member_group(group)
    if isinstance(group, DeviceMesh):
        group = (group, 0)
    if isinstance(group, tuple):
        group = group[0].get_group(group[1])
    return resolve(group)


def _op(name: str) -> ReduceOp:
    """The reduction of a name. Errors: ValueError for an unknown one."""
    found = ReduceOp.__members__.get(name.upper())
    if found is None:
        raise ArgumentError(
            f"unsupported reduction {name!r}",
            expected="one of " + ", ".join(op.value for op in ReduceOp),
            got=repr(name),
            fix="pass 'sum'",
        )
    return found


def wait_tensor(tensor: Tensor) -> Tensor:
    """The tensor: reading it waits."""
    return tensor


def all_reduce(self: Tensor, reduceOp: str, group: GroupLike = None, tag: str = "") -> Any:  # noqa: N803
    """The combination ("sum", "avg", ...) of the tensors of all ranks."""
    return record("all_reduce", self, _group(group), _op(reduceOp))


def broadcast(self: Tensor, src: int, group: GroupLike = None, tag: str = "") -> Any:
    """The tensor of a rank of the world, on each rank of the group."""
    found = _group(group)
    return record("broadcast", self, found, root=found.group_rank(src))


def all_gather_tensor(self: Tensor, gather_dim: int, group: GroupLike = None, tag: str = "") -> Any:
    """The tensors of all ranks, one behind the other along a dimension."""
    found = _group(group)
    gathered = record("all_gather", self.unsqueeze(0), found)
    if gather_dim == 0:
        return gathered.flatten(0, 1)
    return weft.cat(list(gathered.unbind(0)), gather_dim)


def _need_even(self: Tensor, dim: int, group: ProcessGroup) -> None:
    """Errors: ValueError for a dimension that cannot be dealt out."""
    if self.shape[dim] % group.size():
        raise ArgumentError(
            "reduce_scatter_tensor: the dimension cannot be dealt out evenly",
            expected=f"a multiple of {group.size()} along dimension {dim}",
            got=str(list(self.shape)),
            fix="pad the tensor",
        )


def reduce_scatter_tensor(
    self: Tensor,
    reduceOp: str,
    scatter_dim: int,
    group: GroupLike = None,
    tag: str = "",  # noqa: N803
) -> Any:
    """This rank's part, along a dimension, of the combination of the tensors of all ranks."""
    found = _group(group)
    _need_even(self, scatter_dim, found)
    if scatter_dim:
        self = weft.cat(list(self.chunk(found.size(), scatter_dim)))
    return record("reduce_scatter", self, found, _op(reduceOp))


def all_to_all_single(
    self: Tensor,
    output_split_sizes: Sequence[int] | None,
    input_split_sizes: Sequence[int] | None,
    group: GroupLike = None,
    tag: str = "",
) -> Any:
    """The rows that each rank sends to this one; evenly many by default."""
    found = _group(group)
    rows = self.shape[0] if self.ndim else 1
    sent = split_sizes("all_to_all_single", rows, input_split_sizes, found)
    expected = None if output_split_sizes else rows
    received = split_sizes("all_to_all_single", expected, output_split_sizes, found)
    return record("all_to_all", self, found, sent=sent, received=received)


def permute_tensor(
    self: Tensor, src_dst: Sequence[int], group: GroupLike = None, tag: str = ""
) -> Any:
    """The elements, as a vector, of the rank that sends to this one: rank m sends to `src_dst[m]`."""
    found = _group(group)
    count, own = self.numel(), found.rank()
    sent = [count if rank == src_dst[own] else 0 for rank in range(found.size())]
    received = [count if to == own else 0 for to in src_dst]
    return all_to_all_single(self.flatten(), received, sent, found)


def all_reduce_coalesced(
    self: Sequence[Tensor],
    reduceOp: str,
    group: GroupLike = None,
    tag: str = "",  # noqa: N803
) -> list[Any]:
    """`all_reduce` of several tensors, which go together."""
    return [all_reduce(tensor, reduceOp, group) for tensor in self]


def all_gather_into_tensor_coalesced(
    self: Sequence[Tensor], group: GroupLike = None, tag: str = ""
) -> list[Any]:
    """`all_gather_tensor` of several tensors, along their first dimension."""
    return [all_gather_tensor(tensor, 0, group) for tensor in self]


def reduce_scatter_tensor_coalesced(
    inputs: Sequence[Tensor],
    reduceOp: str,  # noqa: N803
    scatter_dim: Sequence[int],
    group: GroupLike = None,
    tag: str = "",
) -> list[Any]:
    """`reduce_scatter_tensor` of several tensors."""
    return [
        reduce_scatter_tensor(tensor, reduceOp, dim, group)
        for tensor, dim in zip(inputs, scatter_dim, strict=True)
    ]


# PyTorch has these apart, since only they have derivatives there, and under newer names.
all_gather_single = all_gather_single_autograd = all_gather_tensor_autograd = all_gather_tensor
all_gather_single_coalesced = all_gather_into_tensor_coalesced
reduce_scatter_single = reduce_scatter_single_autograd = reduce_scatter_tensor
reduce_scatter_tensor_autograd = reduce_scatter_tensor
reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced
all_to_all_single_autograd = all_to_all_single
