"""Several tensors at once: gradients averaged, parameters broadcast, as one call and one buffer for each dtype.

The tensors and their order are the same on all ranks; that is agreed on first. Which gradients there are may differ:
a missing one counts as zeros, and one that no rank has stays missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np

from weft._typing import Array
from weft.distributed.agreement import Call
from weft.distributed.buffers import Received, as_bytes, elements
from weft.distributed.collectives import Reduction, call_of, gathered, hand_out, sent_from
from weft.distributed.group import ProcessGroup
from weft.distributed.progress import Steps
from weft.distributed.reduction import ReduceOp
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir.dtype import DType
from weft.tensor.reading.values import describe


def _by_dtype(tensors: Sequence[Tensor]) -> dict[DType, list[Tensor]]:
    """Tensors in their order, by dtype in the order of first occurrence."""
    found: dict[DType, list[Tensor]] = {}
    for tensor in tensors:
        found.setdefault(tensor.dtype, []).append(tensor)
    return found


def _call(name: str, tensors: Sequence[Tensor]) -> Call:
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
    as one without gradients, and keeps those that it has."""
    own = [None if absent else parameter.grad for parameter in parameters]
    call = _call("gradients", parameters)
    average = _Average(group, call, parameters, own)
    group.collective(call, average.steps())
    if not absent:
        average.deliver(scale)


class _Average:
    """The mean of gradients: which of them any rank has, then a reduction for each dtype."""

    def __init__(
        self,
        group: ProcessGroup,
        call: Call,
        parameters: Sequence[Tensor],
        own: Sequence[Tensor | None],
    ) -> None:
        self._group, self._call = group, call
        self._parameters = parameters
        self._data = [None if grad is None else elements(_dense(grad)) for grad in own]
        self._reduced: list[tuple[list[int], Received]] = []

    def steps(self) -> Steps[None]:
        """Agree, learn what there is, and combine it."""
        present = np.packbits([data is not None for data in self._data])
        table = np.empty((self._group.size(), present.nbytes), np.uint8)
        yield from gathered(self._group, self._call, present, table.reshape(-1))
        anywhere = np.unpackbits(np.bitwise_or.reduce(table), count=len(self._data))
        indices: dict[DType, list[int]] = {}
        for index in np.flatnonzero(anywhere).tolist():
            indices.setdefault(self._parameters[index].dtype, []).append(index)
        for dtype, some in indices.items():
            data = np.concatenate([self._elements_of(index) for index in some])
            received = Received(dtype, data.size)
            reduction = Reduction(self._group, self._call, ReduceOp.AVG, dtype)
            yield from reduction.agreed_to_all(data, received.elements)
            self._reduced.append((some, received))

    def _elements_of(self, index: int) -> Array:
        """A gradient's elements, or zeros."""
        data = self._data[index]
        if data is not None:
            return data
        parameter = self._parameters[index]
        return Received(parameter.dtype, parameter.numel()).zeros()

    def deliver(self, scale: float) -> None:
        """Give the parameters their gradients."""
        for some, received in self._reduced:
            if scale != 1.0:
                received.elements[...] *= scale
            first = 0
            for index in some:
                parameter = self._parameters[index]
                grad = parameter.grad
                if grad is None or grad.is_sparse:
                    parameter.grad = received.tensor(parameter.shape, first)
                else:
                    received.fill(grad, first)
                first += parameter.numel()


def _dense(grad: Tensor) -> Tensor:
    return grad.to_dense() if grad.is_sparse else grad
