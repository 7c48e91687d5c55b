"""Collectives with derivatives: each gives new tensors, and its backward is the collective of the other direction.

All ranks of the group have to run the backward, too, in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import weft
from weft.autograd.function import Function
from weft.distributed import collectives
from weft.distributed.group import Group
from weft.distributed.ranks import get_rank, get_world_size
from weft.distributed.reduction import ReduceOp
from weft.engine.frontend.tensor import Tensor

__all__ = [
    "all_gather", "all_reduce", "all_to_all", "all_to_all_single", "broadcast", "gather", "reduce", "reduce_scatter",
    "scatter",
]  # fmt: skip


Run = Callable[..., Any]


class _Collective(Function):
    """A collective of tensors: `run` gives its results, `back` the cotangents of its inputs from those of results."""

    @staticmethod
    def forward(ctx: Any, run: Run, back: Run, *tensors: Tensor) -> Any:
        """The results of the collective."""
        ctx.back = back
        ctx.set_materialize_grads(True)
        return run(*tensors)

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> Any:
        """The cotangents of the inputs."""
        found = ctx.back(*cotangents)
        return (None, None, *(found if isinstance(found, tuple) else (found,)))


def _copy(tensor: Tensor) -> Tensor:
    return tensor.detach().clone()


def _alike(tensor: Tensor, count: int) -> list[Tensor]:
    return [weft.empty_like(tensor) for _ in range(count)]


# -- values, without derivatives ---------------------------------------------------------------------


def _reduced_everywhere(tensor: Tensor, op: ReduceOp, group: Group) -> Tensor:
    made = _copy(tensor)
    collectives.all_reduce(made, op, group)
    return made


def _broadcast(tensor: Tensor, src: int, group: Group) -> Tensor:
    made = _copy(tensor)
    collectives.broadcast(made, src, group)
    return made


def _reduced(tensor: Tensor, dst: int, op: ReduceOp, group: Group) -> Tensor:
    made = _copy(tensor)
    collectives.reduce(made, dst, op, group)
    return made


def _gathered(tensor: Tensor, dst: int, group: Group) -> tuple[Tensor, ...]:
    made = [weft.zeros_like(tensor) for _ in range(get_world_size(group))]
    collectives.gather(tensor, made if get_rank() == dst else None, dst, group)
    return tuple(made)


def _scattered(src: int, group: Group, *tensors: Tensor) -> Tensor:
    made = weft.empty_like(tensors[0])
    collectives.scatter(made, list(tensors) if get_rank() == src else None, src, group)
    return made


def _all_gathered(tensor: Tensor, group: Group) -> tuple[Tensor, ...]:
    made = _alike(tensor, get_world_size(group))
    collectives.all_gather(made, tensor, group)
    return tuple(made)


def _reduce_scattered(op: ReduceOp, group: Group, *tensors: Tensor) -> Tensor:
    made = weft.empty_like(tensors[get_rank(group)])
    collectives.reduce_scatter(made, list(tensors), op, group)
    return made


def _exchanged(outputs: Sequence[Tensor], group: Group, *tensors: Tensor) -> tuple[Tensor, ...]:
    made = [weft.empty_like(tensor) for tensor in outputs]
    collectives.all_to_all(made, list(tensors), group)
    return tuple(made)


# -- functions ----------------------------------------------------------------------------------------


def all_reduce(tensor: Tensor, op: ReduceOp = ReduceOp.SUM, group: Group = None) -> Any:
    """The combination of the tensors of all ranks, on each."""

    def run(x: Tensor) -> Tensor:
        return _reduced_everywhere(x, op, group)

    return _Collective.apply(run, run, tensor)


def broadcast(tensor: Tensor, src: int, group: Group = None) -> Any:
    """The tensor of one rank, on each; its cotangent is the sum of all."""

    def back(g: Tensor) -> Tensor:
        total = _reduced(g, src, ReduceOp.SUM, group)
        return total if get_rank() == src else weft.zeros_like(total)

    return _Collective.apply(lambda x: _broadcast(x, src, group), back, tensor)


def reduce(tensor: Tensor, dst: int, op: ReduceOp = ReduceOp.SUM, group: Group = None) -> Any:
    """The combination of the tensors of all ranks on one; the others get their own tensor."""
    return _Collective.apply(
        lambda x: _reduced(x, dst, op, group), lambda g: _broadcast(g, dst, group), tensor
    )


def gather(tensor: Tensor, dst: int = 0, group: Group = None) -> Any:
    """The tensors of all ranks on one; zeros on the others."""
    return _Collective.apply(
        lambda x: _gathered(x, dst, group), lambda *gs: _scattered(dst, group, *gs), tensor
    )


def scatter(tensors: Sequence[Tensor], src: int = 0, group: Group = None) -> Any:
    """This rank's entry of the list of one; the lists of the others only say shapes."""
    return _Collective.apply(
        lambda *xs: _scattered(src, group, *xs), lambda g: _gathered(g, src, group), *tensors
    )


def all_gather(tensor: Tensor, group: Group = None) -> Any:
    """The tensors of all ranks, on each; the cotangent is the sum of those that all ranks have for this one."""
    return _Collective.apply(
        lambda x: _all_gathered(x, group),
        lambda *gs: _reduce_scattered(ReduceOp.SUM, group, *gs),
        tensor,
    )


def _all_gather_base(output_tensor: Tensor, input_tensor: Tensor, group: Group = None) -> Any:
    """The tensors of all ranks, one after the other, in a tensor of the shape of `output_tensor`."""
    return weft.cat(all_gather(input_tensor, group)).reshape(output_tensor.shape)


def reduce_scatter(
    output: Tensor, input_list: Sequence[Tensor], op: ReduceOp = ReduceOp.SUM, group: Group = None
) -> Any:
    """This rank's entry of the combined lists of all ranks; `output` says nothing more."""
    return _Collective.apply(
        lambda *xs: _reduce_scattered(op, group, *xs),
        lambda g: _all_gathered(g, group),
        *input_list,
    )


def all_to_all(
    output_tensor_list: Sequence[Tensor], input_tensor_list: Sequence[Tensor], group: Group = None
) -> Any:
    """The tensors that the ranks send to this one, like those of `output_tensor_list`."""
    sent = [tensor.detach() for tensor in input_tensor_list]
    return _Collective.apply(
        lambda *xs: _exchanged(output_tensor_list, group, *xs),
        lambda *gs: _exchanged(sent, group, *gs),
        *input_tensor_list,
    )


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Group = None,
) -> Any:
    """The rows that each rank sends to this one, in a tensor like `output`."""
    like = input.detach()

    def run(x: Tensor) -> Tensor:
        made = weft.empty_like(output)
        sizes = (output_split_sizes, input_split_sizes)
        collectives.all_to_all_single(made, x, *sizes, group)
        return made

    def back(g: Tensor) -> Tensor:
        made = weft.empty_like(like)
        sizes = (input_split_sizes, output_split_sizes)
        collectives.all_to_all_single(made, g, *sizes, group)
        return made

    return _Collective.apply(run, back, input)
