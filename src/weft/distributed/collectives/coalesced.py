"""Collectives of several tensors of one type at once, in one call: PyTorch's `..._coalesced`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import weft
from weft._typing import Array
from weft.distributed.buffers import Received, as_bytes, elements, need_tensor
from weft.distributed.collectives.operations import call_of, hand_out, need_alike, need_op
from weft.distributed.collectives.reduction import ReduceOp
from weft.distributed.collectives.steps import RankReduction, gathered
from weft.distributed.errors import DistError
from weft.distributed.group import Group
from weft.distributed.work import Work
from weft.distributed.world import joined
from weft.engine.frontend.tensor import Tensor
from weft.errors import ArgumentError
from weft.tensor.reading.values import describe


def _all(name: str, tensors: Sequence[Tensor], argument: str, as_reals: bool) -> list[Tensor]:
    """Tensors of one type, or also (`as_reals`) of a complex one and that of its parts. Errors: DistError for some of
    several types."""
    found = [need_tensor(name, tensor, argument) for tensor in tensors]
    dtypes = {
        (tensor.real if as_reals and tensor.is_complex() else tensor).dtype for tensor in found
    }
    if len(dtypes) > 1:
        raise DistError(
            f"{name}: tensors of several types",
            expected="one dtype",
            got=", ".join(sorted({tensor.dtype.name for tensor in found})),
            fix="make a call for each dtype",
        )
    return found


def _real_elements(tensor: Tensor) -> Array:
    """The elements of a tensor, of complex ones both parts."""
    return elements(weft.view_as_real(tensor.detach()) if tensor.is_complex() else tensor)


def _hand_out_reals(received: Received, tensors: Sequence[Tensor]) -> list[Tensor]:
    """Give received elements to tensors, one after the other; to complex ones both parts."""
    first = 0
    for tensor in tensors:
        shape = (*tensor.shape, 2) if tensor.is_complex() else tensor.shape
        values = received.tensor(shape, first)
        first += values.numel()
        with weft.no_grad():
            tensor.copy_(weft.view_as_complex(values) if tensor.is_complex() else values)
    return list(tensors)


def all_reduce_coalesced(
    tensors: Sequence[Tensor],
    op: ReduceOp = ReduceOp.SUM,
    group: Group = None,
    async_op: bool = False,
) -> Work | None:
    """`all_reduce` of several tensors of one type at once.

    Args:
        tensors: this rank's operands, of the same shapes and one dtype on all ranks; results are written to them.
        op: how elements are combined, a `ReduceOp`.
        group: the processes that take part; None: all.
        async_op: True: return at once with a `Work`, whose `wait` ends it; False: return when it is done.

    Example:
        >>> import weft
        >>> import weft.distributed as dist
        >>> dist.init_process_group()
        >>> sums = [weft.ones(2), weft.tensor([3.0])]
        >>> dist.all_reduce_coalesced(sums)  # several tensors, one message
        >>> sums
        [tensor([1., 1.]), tensor([3.])]
        >>> dist.destroy_process_group()
    """
    name = "all_reduce_coalesced"
    is_sum = need_op(op) in (ReduceOp.SUM, ReduceOp.AVG)
    found_tensors = _all(name, tensors, "tensors", as_reals=is_sum)
    if (found := joined(group, name)) is None or not found_tensors:
        return None
    terms = f"{op.value} " + ", ".join(map(describe, found_tensors))
    call = call_of(name, terms, *found_tensors)
    take, give = (_real_elements, _hand_out_reals) if is_sum else (elements, hand_out)
    first = found_tensors[0]
    dtype = first.real.dtype if is_sum and first.is_complex() else first.dtype
    data = np.concatenate([take(tensor) for tensor in found_tensors])
    received = Received(dtype, data.size)
    steps = RankReduction(found, call, op, dtype).to_all(data, received.elements)
    return found.collective(call, steps, lambda _: give(received, found_tensors), async_op)


def all_gather_coalesced(
    output_tensor_lists: Sequence[Sequence[Tensor]],
    input_tensor_list: Sequence[Tensor],
    group: Group = None,
    async_op: bool = False,
) -> Work | None:
    """`all_gather` of several tensors of one type at once.

    Args:
        output_tensor_lists: for each rank, in their order, a list of tensors like those that are given; they are
            overwritten.
        input_tensor_list: what this rank gives, of the same shapes and one dtype on all ranks.
        group: the processes that take part; None: all.
        async_op: True: return at once with a `Work`, whose `wait` ends it; False: return when it is done.

    Errors: ValueError for another number of lists, or of tensors in one.

    Example:
        >>> import weft
        >>> import weft.distributed as dist
        >>> dist.init_process_group()
        >>> mine = [weft.ones(2), weft.zeros(3)]
        >>> found = [[weft.empty(2), weft.empty(3)] for _ in range(dist.get_world_size())]
        >>> dist.all_gather_coalesced(found, mine)
        >>> found
        [[tensor([1., 1.]), tensor([0., 0., 0.])]]
        >>> dist.destroy_process_group()
    """
    name = "all_gather_coalesced"
    sent = _all(name, input_tensor_list, "input_tensor_list", as_reals=False)
    if (found := joined(group, name)) is None or not sent:
        return None
    lists = [list(one) for one in output_tensor_lists]
    if len(lists) != found.size() or any(len(one) != len(sent) for one in lists):
        raise ArgumentError(
            f"{name}: output_tensor_lists do not fit",
            expected=f"{found.size()} lists of {len(sent)} tensors",
            got=str([len(one) for one in lists]),
            fix="make a list like input_tensor_list for each rank",
        )
    columns = [
        need_alike(name, column, like, found.size(), "output_tensor_lists")
        for column, like in zip(zip(*lists, strict=True), sent, strict=True)
    ]
    targets = [tensor for row in zip(*columns, strict=True) for tensor in row]
    call = call_of(name, ", ".join(map(describe, sent)), *sent)
    data = np.concatenate([elements(tensor) for tensor in sent])
    received = Received(sent[0].dtype, data.size * found.size())
    steps = gathered(found, call, as_bytes(data), as_bytes(received.elements))
    return found.collective(call, steps, lambda _: hand_out(received, targets), async_op)
