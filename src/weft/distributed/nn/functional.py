"""Collectives with derivatives: each gives new tensors, and its backward is the collective of the other direction.

They are nodes of the graph, which run with what is recorded around them: a result is waited for where it is read. All
ranks of the group have to run the backward, too, in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import weft
from weft.distributed import _functional_collectives as functional
from weft.distributed.collectives.carrier import record
from weft.distributed.collectives.operations import need_op, split_sizes
from weft.distributed.collectives.reduction import ReduceOp
from weft.distributed.group import Group
from weft.distributed.world import resolve
from weft.engine.frontend.tensor import Tensor

__all__ = [
    "all_gather", "all_reduce", "all_to_all", "all_to_all_single", "broadcast", "gather", "reduce", "reduce_scatter",
    "scatter",
]  # fmt: skip


def _rows(tensor: Tensor) -> Any:
    """As one row of a table of all ranks."""
    return tensor.unsqueeze(0)


def _listed(table: Tensor) -> tuple[Any, ...]:
    """The rows of a table of all ranks."""
    return tuple(table.unbind(0))


def all_reduce(tensor: Tensor, op: ReduceOp = ReduceOp.SUM, group: Group = None) -> Any:
    """The combination of the tensors of all ranks, on each.

    Args:
        tensor: this rank's tensor.
        op: how tensors are combined. Default: their sum.
        group: the ranks that take part; None: all.

    Example:
        >>> import weft
        >>> import weft.distributed as dist
        >>> from weft.distributed.nn import all_reduce
        >>> dist.init_process_group()
        >>> x = weft.tensor([1.0, 2.0], requires_grad=True)
        >>> all_reduce(x * x).sum().backward()  # gradients cross ranks too
        >>> x.grad
        tensor([2., 4.])
        >>> dist.destroy_process_group()
    """
    return record("all_reduce", tensor, resolve(group), need_op(op))


def broadcast(tensor: Tensor, src: int, group: Group = None) -> Any:
    """The tensor of one rank, on each; its cotangent is the sum of all.

    Args:
        tensor: this rank's tensor.
        src: the rank that has it.
        group: the ranks that take part; None: all.

    Example:
        >>> import weft
        >>> import weft.distributed as dist
        >>> from weft.distributed.nn import broadcast
        >>> dist.init_process_group()
        >>> x = weft.tensor([1.0, 2.0], requires_grad=True)
        >>> broadcast(x, src=0).sum().backward()
        >>> x.grad
        tensor([1., 1.])
        >>> dist.destroy_process_group()
    """
    found = resolve(group)
    return record("broadcast", tensor, found, root=found.group_rank(src))


def reduce(tensor: Tensor, dst: int, op: ReduceOp = ReduceOp.SUM, group: Group = None) -> Any:
    """The combination of the tensors of all ranks on one; the others get their own tensor.

    Args:
        tensor: this rank's tensor.
        dst: the rank that gets it.
        op: how tensors are combined. Default: their sum.
        group: the ranks that take part; None: all.

    Example:
        >>> import weft
        >>> import weft.distributed as dist
        >>> from weft.distributed.nn import reduce
        >>> dist.init_process_group()
        >>> x = weft.tensor([1.0, 2.0], requires_grad=True)
        >>> reduce(x * 3, dst=0).sum().backward()
        >>> x.grad
        tensor([3., 3.])
        >>> dist.destroy_process_group()
    """
    found = resolve(group)
    return record("reduce", tensor, found, need_op(op), found.group_rank(dst))


def gather(tensor: Tensor, dst: int = 0, group: Group = None) -> Any:
    """The tensors of all ranks on one; zeros on the others.

    Args:
        tensor: this rank's tensor.
        dst: the rank that gets it. Default: 0.
        group: the ranks that take part; None: all.

    Example:
        >>> import weft
        >>> import weft.distributed as dist
        >>> from weft.distributed.nn import gather
        >>> dist.init_process_group()
        >>> x = weft.tensor([1.0, 2.0], requires_grad=True)
        >>> weft.stack(gather(x * 3, dst=0)).sum().backward()
        >>> x.grad
        tensor([3., 3.])
        >>> dist.destroy_process_group()
    """
    found = resolve(group)
    return _listed(record("gather", _rows(tensor), found, root=found.group_rank(dst)))


def scatter(tensors: Sequence[Tensor], src: int = 0, group: Group = None) -> Any:
    """This rank's entry of the list of one; the lists of the others only say shapes.

    Args:
        tensors: a tensor for each rank.
        src: the rank that has it. Default: 0.
        group: the ranks that take part; None: all.

    Example:
        >>> import weft
        >>> import weft.distributed as dist
        >>> from weft.distributed.nn import scatter
        >>> dist.init_process_group()
        >>> x = weft.tensor([1.0, 2.0], requires_grad=True)
        >>> scatter([x * 3], src=0).sum().backward()
        >>> x.grad
        tensor([3., 3.])
        >>> dist.destroy_process_group()
    """
    found = resolve(group)
    return record("scatter", weft.stack(list(tensors)), found, root=found.group_rank(src)).squeeze(
        0
    )


def all_gather(tensor: Tensor, group: Group = None) -> Any:
    """The tensors of all ranks, on each; the cotangent is the sum of those that all ranks have for this one.

    Args:
        tensor: this rank's tensor.
        group: the ranks that take part; None: all.

    Example:
        >>> import weft
        >>> import weft.distributed as dist
        >>> from weft.distributed.nn import all_gather
        >>> dist.init_process_group()
        >>> x = weft.tensor([1.0, 2.0], requires_grad=True)
        >>> weft.cat(all_gather(x * x)).sum().backward()
        >>> x.grad
        tensor([2., 4.])
        >>> dist.destroy_process_group()
    """
    return _listed(record("all_gather", _rows(tensor), resolve(group)))


def _all_gather_base(output_tensor: Tensor, input_tensor: Tensor, group: Group = None) -> Any:
    """The tensors of all ranks, one after the other, in a tensor of the shape of `output_tensor`."""
    return record("all_gather", _rows(input_tensor), resolve(group)).reshape(output_tensor.shape)


def reduce_scatter(
    output: Tensor, input_list: Sequence[Tensor], op: ReduceOp = ReduceOp.SUM, group: Group = None
) -> Any:
    """This rank's entry of the combined lists of all ranks; `output` says nothing more.

    Args:
        output: a tensor of the shape of the result.
        input_list: a tensor for each rank.
        op: how tensors are combined. Default: their sum.
        group: the ranks that take part; None: all.

    Example:
        >>> import weft
        >>> import weft.distributed as dist
        >>> from weft.distributed.nn import reduce_scatter
        >>> dist.init_process_group()
        >>> x = weft.tensor([1.0, 2.0], requires_grad=True)
        >>> reduce_scatter(weft.empty(2), [x * 3]).sum().backward()
        >>> x.grad
        tensor([3., 3.])
        >>> dist.destroy_process_group()
    """
    table = weft.stack(list(input_list))
    return record("reduce_scatter", table, resolve(group), need_op(op)).squeeze(0)


def all_to_all(
    output_tensor_list: Sequence[Tensor], input_tensor_list: Sequence[Tensor], group: Group = None
) -> Any:
    """The tensors that the ranks send to this one, like those of `output_tensor_list`.

    Args:
        output_tensor_list: tensors of the shapes of those that come.
        input_tensor_list: a tensor for each rank.
        group: the ranks that take part; None: all.

    Example:
        >>> import weft
        >>> import weft.distributed as dist
        >>> from weft.distributed.nn import all_to_all
        >>> dist.init_process_group()
        >>> x = weft.tensor([1.0, 2.0], requires_grad=True)
        >>> all_to_all([weft.empty(2)], [x * 3])[0].sum().backward()
        >>> x.grad
        tensor([3., 3.])
        >>> dist.destroy_process_group()
    """
    sent = [tensor.numel() for tensor in input_tensor_list]
    shapes = [tuple(tensor.shape) for tensor in output_tensor_list]
    received = [prod(shape) for shape in shapes]
    flat = weft.cat([tensor.reshape(-1) for tensor in input_tensor_list])
    arrived = record("all_to_all", flat, resolve(group), sent=sent, received=received)
    return tuple(
        part.reshape(shape) for part, shape in zip(arrived.split(received), shapes, strict=True)
    )


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Group = None,
) -> Any:
    """The rows that each rank sends to this one, in a tensor like `output`.

    Args:
        output: a tensor of the shape of the result.
        input: the rows for each rank, joined.
        output_split_sizes: how many rows come from each rank; None: as many from all.
        input_split_sizes: how many rows go to each rank; None: as many to all.
        group: the ranks that take part; None: all.

    Example:
        >>> import weft
        >>> import weft.distributed as dist
        >>> from weft.distributed.nn import all_to_all_single
        >>> dist.init_process_group()
        >>> x = weft.tensor([1.0, 2.0], requires_grad=True)
        >>> all_to_all_single(weft.empty(2), x * 3).sum().backward()
        >>> x.grad
        tensor([3., 3.])
        >>> dist.destroy_process_group()
    """
    found = resolve(group)
    rows = output.shape[0] if output.ndim else 1
    received = split_sizes("all_to_all_single", rows, output_split_sizes, found)
    return functional.all_to_all_single(input, received, input_split_sizes, found)
