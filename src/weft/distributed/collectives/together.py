"""Several tensors at once: gradients averaged, parameters broadcast.

The tensors and their order are the same on all ranks; that is agreed on first. Which gradients there are may differ:
a missing one counts as zeros, and one that no rank has stays missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np

import weft
from weft.distributed.buffers import Received, as_bytes, elements
from weft.distributed.collectives.agreement import CollectiveCall
from weft.distributed.collectives.carrier import record
from weft.distributed.collectives.operations import call_of, hand_out
from weft.distributed.collectives.reduction import ReduceOp
from weft.distributed.collectives.steps import gathered, sent_from
from weft.distributed.data_parallel.blocks import dtype_of_sums
from weft.distributed.group import ProcessGroup
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir.dtype import DType
from weft.tensor.modes import no_grad
from weft.tensor.reading.values import describe


def _by_dtype(tensors: Sequence[Tensor]) -> dict[DType, list[Tensor]]:
    """Tensors in their order, by dtype in the order of first occurrence."""
    found: dict[DType, list[Tensor]] = {}
    for tensor in tensors:
        found.setdefault(tensor.dtype, []).append(tensor)
    return found


def _call(name: str, tensors: Sequence[Tensor]) -> CollectiveCall:
    """A call that is the same on ranks that have the same tensors."""
    shapes = ", ".join(map(describe, tensors))
    digest = blake2b(shapes.encode(), digest_size=4).hexdigest()
    return call_of(name, f"of {len(tensors)} tensors: {shapes:.200} ({digest})")


def broadcast_together(group: ProcessGroup, tensors: Sequence[Tensor], root: int) -> None:
    """Replace tensors by those of a member of the group."""
    call = _call("broadcast", tensors)
    for dtype, some in _by_dtype(tensors).items():
        received = Received(dtype, sum(tensor.numel() for tensor in some))
        if group.rank() == root:
            received.elements[...] = np.concatenate([elements(tensor) for tensor in some])
        steps = sent_from(group, call, as_bytes(received.elements), root)
        group.collective(call, steps)
        if group.rank() != root:
            hand_out(received, some)


def average_gradients(
    group: ProcessGroup, parameters: Sequence[Tensor], scale: float = 1.0, absent: bool = False
) -> None:
    """Replace the gradients of parameters by their mean over the ranks, times `scale`. With `absent` this rank counts
    as one without gradients, and keeps those that it has.

    The means are recorded, the last parameters' first, whose gradients a backward computes first: each is under way
    as soon as the gradient is there, while the rest is computed."""
    own = [None if absent else parameter.grad for parameter in parameters]
    with no_grad():
        for index in reversed(_present_anywhere(group, parameters, own)):
            parameter, grad = parameters[index], own[index]
            dense = weft.zeros_like(parameter) if grad is None else _dense(grad)
            mean = record("all_reduce", dense.detach(), group, ReduceOp.AVG)
            if not absent:
                _give(parameter, mean if scale == 1.0 else mean * scale)


def mean_of_sums(
    group: ProcessGroup, parameters: Sequence[Tensor], sums: Sequence[Tensor | None], count: int
) -> None:
    """Give parameters the sums of all ranks, divided by `count`, as their gradients."""
    with no_grad():
        for index in reversed(_present_anywhere(group, parameters, sums)):
            parameter, own = parameters[index], sums[index]
            dtype = dtype_of_sums(parameter.dtype)
            total = weft.zeros(parameter.shape, dtype=dtype) if own is None else own.detach()
            parameter.grad = (record("all_reduce", total, group) / count).to(parameter.dtype)


def gradients_anywhere(
    group: ProcessGroup, parameters: Sequence[Tensor], absent: bool = False
) -> list[int]:
    """The parameters that have a gradient on any rank; with `absent` this one counts as one that has none."""
    own = [None if absent else parameter.grad for parameter in parameters]
    return _present_anywhere(group, parameters, own)


def _present_anywhere(
    group: ProcessGroup, parameters: Sequence[Tensor], own: Sequence[Tensor | None]
) -> list[int]:
    """The parameters that have a gradient on any rank."""
    present = np.packbits([grad is not None for grad in own])
    table = np.empty((group.size(), present.nbytes), np.uint8)
    call = _call("gradients", parameters)
    group.collective(call, gathered(group, call, present, table.reshape(-1)))
    anywhere = np.unpackbits(np.bitwise_or.reduce(table), count=len(own))
    return list(np.flatnonzero(anywhere).tolist())


def _give(parameter: Tensor, mean: Tensor) -> None:
    """Give a parameter its gradient: in the tensor that it has, if that is dense."""
    grad = parameter.grad
    if grad is None or grad.is_sparse:
        parameter.grad = mean
    else:
        grad.detach().copy_(mean)


def _dense(grad: Tensor) -> Tensor:
    return grad.to_dense() if grad.is_sparse else grad
