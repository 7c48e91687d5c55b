"""Collective operations on tensors: PyTorch's functions, each a call that is agreed on and steps that move its data.

A collective runs what its inputs wait for, moves bytes, and gives its result to tensors that existed before. With
`async_op` it goes on while the program does, and `Work.wait` hands over what came. Where a rank's data are few bytes
they travel with the agreement (`agreement`).
"""

from __future__ import annotations

import pdb  # noqa: T100 - a debugger is what is asked for
import sys
from collections.abc import Sequence
from datetime import timedelta
from itertools import accumulate

import numpy as np

import weft
from weft._typing import Array
from weft.distributed.buffers import Received, as_bytes, elements, need_tensor
from weft.distributed.collectives.agreement import (
    CollectiveCall,
)
from weft.distributed.collectives.reduction import ReduceOp
from weft.distributed.collectives.sparse import sum_sparse
from weft.distributed.collectives.steps import (
    RankReduction,
    collected,
    exchanged,
    gathered,
    ready,
    sent_from,
    spread,
)
from weft.distributed.group import Group, ProcessGroup
from weft.distributed.peers import MONITORED
from weft.distributed.work import Work
from weft.distributed.world import current_world, joined, seconds
from weft.engine.frontend.tensor import Tensor
from weft.errors import ArgumentError, user_line
from weft.tensor.reading.values import describe

# -- arguments --------------------------------------------------------------------------------------


def need_op(op: object) -> ReduceOp:
    """The reduction that an argument names. Errors: ValueError for anything else."""
    if isinstance(op, ReduceOp):
        return op
    raise ArgumentError(
        f"unsupported reduction {op!r}",
        expected="a ReduceOp",
        got=repr(op),
        fix="pass weft.distributed.ReduceOp.SUM",
    )


def need_alike(
    name: str, tensors: Sequence[Tensor], like: Tensor, count: int, argument: str
) -> list[Tensor]:
    """A list of `count` tensors of the shape and type of another. Errors: ValueError for any other."""
    found = [need_tensor(name, tensor, argument) for tensor in tensors]
    wrong = next((t for t in found if describe(t) != describe(like)), None)
    if len(found) != count or wrong is not None:
        raise ArgumentError(
            f"{name}: a list of {len(found)} for a group of {count}"
            if len(found) != count
            else f"{name}: {argument} has a tensor of another shape or dtype",
            expected=f"{count} tensors, each {describe(like)}",
            got=f"{len(found)} tensors" if wrong is None else describe(wrong),
            fix="make the list by get_world_size(group), of tensors like the one that is sent",
        )
    return found


def need_multiple(name: str, large: Tensor, small: Tensor, group: ProcessGroup) -> None:
    """Errors: ValueError unless one tensor has as many elements as another has on all ranks together."""
    fits = large.numel() == small.numel() * group.size() and large.dtype is small.dtype
    if not fits:
        raise ArgumentError(
            f"{name}: the large tensor must be world size times the size of the small one",
            expected=f"{small.numel() * group.size()} elements of {small.dtype.name}",
            got=describe(large),
            fix="make it by get_world_size(group)",
        )


def call_of(name: str, terms: str, *operands: Tensor) -> CollectiveCall:
    """A call at the user's line."""
    shapes = tuple(
        (*operand.shape, 2) if operand.is_complex() else tuple(operand.shape)
        for operand in operands
    )
    return CollectiveCall(name, terms, user_line(), shapes)


# -- collectives ------------------------------------------------------------------------------------


def barrier(
    group: Group = None,
    async_op: bool = False,
    device_ids: object = None,
    timeout: timedelta | None = None,
) -> Work | None:
    """Wait until all ranks of the group have come here, for at most `timeout` (by default the group's).

    Args:
        group: the processes that take part; None: all.
        async_op: True: return at once with a `Work`, whose `wait` ends it; False: return when it is done.
        device_ids: accepted, without effect: there is one device; None: the same.
        timeout: how long to wait; None: as long as the group waits.

    Example:
        >>> import weft.distributed as dist
        >>> dist.init_process_group()
        >>> dist.barrier()  # nobody goes on before all are here
        >>> dist.destroy_process_group()
    """
    if (found := joined(group, "barrier")) is None:
        return None
    call = call_of("barrier", "")
    within = seconds(timeout, found.timeout)
    return found.collective(call, ready(found, call), None, async_op, within)


def monitored_barrier(
    group: Group = None, timeout: timedelta | None = None, wait_all_ranks: bool = False
) -> None:
    """Wait until all ranks have come here, for at most `timeout`; an error names those that did not.

    Args:
        group: the processes that take part; None: all.
        timeout: how long to wait; None: as long as the group waits.
        wait_all_ranks: accepted: the error names all ranks that have not come in any case.

    Example:
        >>> from datetime import timedelta
        >>> import weft.distributed as dist
        >>> dist.init_process_group()
        >>> dist.monitored_barrier(timeout=timedelta(seconds=30))  # names the ranks that do not come
        >>> dist.destroy_process_group()
    """
    if (found := joined(group, "monitored_barrier")) is None:
        return
    call = call_of(MONITORED, "")
    found.collective(call, ready(found, call), timeout=seconds(timeout, found.timeout))


_passed: dict[int, int] = {}  # by line, how often a breakpoint there has been come to


def breakpoint(rank: int = 0, skip: int = 0, timeout_s: float = 3600.0) -> None:  # noqa: A001
    """Begin a debugger on one rank, while the others wait for it.

    Args:
        rank: the rank.
        skip: how many calls on this line pass first.
        timeout_s: how many seconds the others wait.
    """
    caller = sys._getframe(1)
    _passed[caller.f_lineno] = _passed.get(caller.f_lineno, 0) + 1
    if _passed[caller.f_lineno] <= skip:
        return
    if current_world().group.rank() == rank:
        pdb.Pdb().set_trace(caller)
    barrier(timeout=timedelta(seconds=timeout_s))


def all_reduce(
    tensor: Tensor, op: ReduceOp = ReduceOp.SUM, group: Group = None, async_op: bool = False
) -> Work | None:
    """Replace a tensor by the combination of those of all ranks: the same bits on each.

    Args:
        tensor: this rank's operand, of one shape and dtype on all ranks; the result is written to it. Of sparse ones
            ranks may have different numbers of entries.
        op: how elements are combined, a `ReduceOp`; SUM for sparse tensors.
        group: the processes that take part; None: all.
        async_op: True: return at once with a `Work`, whose `wait` ends it; False: return when it is done.

    Example:
        >>> import weft
        >>> import weft.distributed as dist
        >>> dist.init_process_group()
        >>> loss = weft.tensor(0.5)
        >>> dist.all_reduce(loss)  # in place: the sum over all ranks, here of one
        >>> loss / dist.get_world_size()
        tensor(0.5000)
        >>> dist.destroy_process_group()
    """
    is_sparse = isinstance(tensor, Tensor) and tensor.layout is weft.sparse_coo
    if not is_sparse:
        need_tensor("all_reduce", tensor)
    if (found := joined(group, "all_reduce")) is None:
        return None
    call = call_of("all_reduce", f"{need_op(op).value} {describe(tensor)}", tensor)
    if is_sparse:
        return sum_sparse(tensor, op, found, call, async_op)
    received = Received(tensor.dtype, tensor.numel())
    steps = RankReduction(found, call, op, tensor.dtype).to_all(elements(tensor), received.elements)
    return found.collective(call, steps, lambda _: received.fill(tensor), async_op)


def reduce(
    tensor: Tensor,
    dst: int | None = None,
    op: ReduceOp = ReduceOp.SUM,
    group: Group = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Replace the tensor of one rank by the combination of those of all.

    Args:
        tensor: this rank's operand, of one shape and dtype on all ranks; the receiver's gets the result.
        dst, group_dst: the receiver, by its rank in the world or number in the group; None in one: the other says it.
        op: how elements are combined, a `ReduceOp`.
        group: the processes that take part; None: all.
        async_op: True: return at once with a `Work`, whose `wait` ends it; False: return when it is done.

    Example:
        >>> import weft
        >>> import weft.distributed as dist
        >>> dist.init_process_group()
        >>> total = weft.tensor([2.0, 3.0])
        >>> dist.reduce(total, dst=0, op=dist.ReduceOp.MAX)  # rank 0 has the largest of all
        >>> total
        tensor([2., 3.])
        >>> dist.destroy_process_group()
    """
    need_tensor("reduce", tensor)
    if (found := joined(group, "reduce")) is None:
        return None
    root = found.member(dst, group_dst, "dst")
    call = call_of(
        "reduce", f"{need_op(op).value} {describe(tensor)} to {found.ranks[root]}", tensor
    )
    is_root = found.rank() == root
    received = Received(tensor.dtype, tensor.numel() if is_root else 0)
    reduction = RankReduction(found, call, op, tensor.dtype)
    steps = reduction.to_one(elements(tensor), received.elements, root)
    deliver = (lambda _: received.fill(tensor)) if is_root else None
    return found.collective(call, steps, deliver, async_op)


def broadcast(
    tensor: Tensor,
    src: int | None = None,
    group: Group = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Replace the tensors of all ranks by that of one.

    Args:
        tensor: what is sent, or where it is received: of one shape and dtype on all ranks.
        src, group_src: the sender, by its rank in the world or number in the group; None in one: the other says it.
        group: the processes that take part; None: all.
        async_op: True: return at once with a `Work`, whose `wait` ends it; False: return when it is done.

    Example:
        >>> import weft
        >>> import weft.distributed as dist
        >>> dist.init_process_group()
        >>> weight = weft.tensor([1.0, 2.0])
        >>> dist.broadcast(weight, src=0)  # in place: every rank has rank 0's
        >>> weight
        tensor([1., 2.])
        >>> dist.destroy_process_group()
    """
    need_tensor("broadcast", tensor)
    if (found := joined(group, "broadcast")) is None:
        return None
    root = found.member(src, group_src, "src")
    call = call_of("broadcast", f"{describe(tensor)} from {found.ranks[root]}", tensor)
    if found.rank() == root:
        steps = sent_from(found, call, as_bytes(elements(tensor)), root)
        return found.collective(call, steps, lambda _: tensor, async_op)
    received = Received(tensor.dtype, tensor.numel())
    steps = sent_from(found, call, as_bytes(received.elements), root)
    return found.collective(call, steps, lambda _: received.fill(tensor), async_op)


def all_gather(
    tensor_list: Sequence[Tensor], tensor: Tensor, group: Group = None, async_op: bool = False
) -> Work | None:
    """Put the tensors of all ranks into a list of tensors, on every rank.

    Args:
        tensor_list: a tensor for each rank, in their order, all like `tensor`; they are overwritten.
        tensor: what this rank gives.
        group: the processes that take part; None: all.
        async_op: True: return at once with a `Work`, whose `wait` ends it; False: return when it is done.

    Example:
        >>> import weft
        >>> import weft.distributed as dist
        >>> dist.init_process_group()
        >>> found = [weft.zeros(2) for _ in range(dist.get_world_size())]
        >>> dist.all_gather(found, weft.tensor([1.0, 2.0]))  # found[r] is that of rank r
        >>> found
        [tensor([1., 2.])]
        >>> dist.destroy_process_group()
    """
    need_tensor("all_gather", tensor)
    if (found := joined(group, "all_gather")) is None:
        return None
    targets = need_alike("all_gather", tensor_list, tensor, found.size(), "tensor_list")
    call = call_of("all_gather", describe(tensor), tensor)
    received = Received(tensor.dtype, tensor.numel() * found.size())
    steps = gathered(found, call, as_bytes(elements(tensor)), as_bytes(received.elements))
    return found.collective(call, steps, lambda _: hand_out(received, targets), async_op)


def hand_out(received: Received, targets: Sequence[Tensor]) -> list[Tensor]:
    """Give received elements to tensors, one after the other."""
    starts = accumulate((tensor.numel() for tensor in targets), initial=0)
    return [received.fill(tensor, first) for tensor, first in zip(targets, starts, strict=False)]


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: Group = None, async_op: bool = False
) -> Work | None:
    """Put the tensors of all ranks one after the other into a tensor, on every rank.

    Args:
        output_tensor: where the tensors of all ranks are written, of world size times the elements.
        input_tensor: what this rank gives.
        group: the processes that take part; None: all.
        async_op: True: return at once with a `Work`, whose `wait` ends it; False: return when it is done.

    Example:
        >>> import weft
        >>> import weft.distributed as dist
        >>> dist.init_process_group()
        >>> rows = weft.zeros(2 * dist.get_world_size())
        >>> dist.all_gather_into_tensor(rows, weft.tensor([1.0, 2.0]))  # one behind the other
        >>> rows
        tensor([1., 2.])
        >>> dist.destroy_process_group()
    """
    name = "all_gather_into_tensor"
    need_tensor(name, output_tensor, "output_tensor")
    need_tensor(name, input_tensor, "input_tensor")
    if (found := joined(group, name)) is None:
        return None
    need_multiple(name, output_tensor, input_tensor, found)
    call = call_of(name, describe(input_tensor), input_tensor)
    received = Received(input_tensor.dtype, output_tensor.numel())
    steps = gathered(found, call, as_bytes(elements(input_tensor)), as_bytes(received.elements))
    return found.collective(call, steps, lambda _: received.fill(output_tensor), async_op)


all_gather_single = all_gather_into_tensor


def gather(
    tensor: Tensor,
    gather_list: list[Tensor] | None = None,
    dst: int | None = None,
    group: Group = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Put the tensors of all ranks into a list of tensors of one rank; the others give no list.

    Args:
        tensor: what this rank gives.
        gather_list: on the receiver a tensor for each rank, which is overwritten; None: elsewhere.
        dst, group_dst: the receiver, by its rank in the world or its number in the group; None in both: rank 0.
        group: the processes that take part; None: all.
        async_op: True: return at once with a `Work`, whose `wait` ends it; False: return when it is done.

    Example:
        >>> import weft
        >>> import weft.distributed as dist
        >>> dist.init_process_group()
        >>> found = [weft.empty(2) for _ in range(dist.get_world_size())]
        >>> dist.gather(weft.ones(2), found if dist.get_rank() == 0 else None, dst=0)
        >>> found
        [tensor([1., 1.])]
        >>> dist.destroy_process_group()
    """
    need_tensor("gather", tensor)
    if (found := joined(group, "gather")) is None:
        return None
    root = found.member(0 if dst is None and group_dst is None else dst, group_dst, "dst")
    call = call_of("gather", f"{describe(tensor)} to {found.ranks[root]}", tensor)
    is_root = found.rank() == root
    targets = (
        need_alike("gather", gather_list or [], tensor, found.size(), "gather_list")
        if is_root
        else []
    )
    received = Received(tensor.dtype, tensor.numel() * len(targets))
    memory = as_bytes(received.elements)
    steps = collected(found, call, as_bytes(elements(tensor)), memory, root)
    return found.collective(call, steps, lambda _: hand_out(received, targets), async_op)


def scatter(
    tensor: Tensor,
    scatter_list: list[Tensor] | None = None,
    src: int | None = None,
    group: Group = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Replace each rank's tensor by its entry of one rank's list; the others give no list.

    Args:
        tensor: where this rank's part is written.
        scatter_list: on the sender a tensor for each rank, all like `tensor`; None: elsewhere.
        src, group_src: the sender, by its rank in the world or its number in the group; None in both: rank 0.
        group: the processes that take part; None: all.
        async_op: True: return at once with a `Work`, whose `wait` ends it; False: return when it is done.

    Example:
        >>> import weft
        >>> import weft.distributed as dist
        >>> dist.init_process_group()
        >>> mine = weft.empty(2)
        >>> dist.scatter(mine, [weft.full((2,), float(r)) for r in range(dist.get_world_size())], src=0)
        >>> mine
        tensor([0., 0.])
        >>> dist.destroy_process_group()
    """
    need_tensor("scatter", tensor)
    if (found := joined(group, "scatter")) is None:
        return None
    root = found.member(0 if src is None and group_src is None else src, group_src, "src")
    call = call_of("scatter", f"{describe(tensor)} from {found.ranks[root]}", tensor)
    data = np.zeros(0, np.uint8)
    if found.rank() == root:
        sent = need_alike("scatter", scatter_list or [], tensor, found.size(), "scatter_list")
        data = as_bytes(np.concatenate([elements(one) for one in sent]))
    received = Received(tensor.dtype, tensor.numel())
    steps = spread(found, call, data, as_bytes(received.elements), root)
    return found.collective(call, steps, lambda _: received.fill(tensor), async_op)


def reduce_scatter(
    output: Tensor,
    input_list: Sequence[Tensor],
    op: ReduceOp = ReduceOp.SUM,
    group: Group = None,
    async_op: bool = False,
) -> Work | None:
    """Combine the lists of all ranks entry by entry, and give each rank its entry.

    Args:
        output: where this rank's part of the result is written.
        input_list: a tensor for each rank, in their order, all like `output`.
        op: how elements are combined, a `ReduceOp`.
        group: the processes that take part; None: all.
        async_op: True: return at once with a `Work`, whose `wait` ends it; False: return when it is done.

    Example:
        >>> import weft
        >>> import weft.distributed as dist
        >>> dist.init_process_group()
        >>> mine = weft.empty(2)
        >>> dist.reduce_scatter(mine, [weft.ones(2) for _ in range(dist.get_world_size())])
        >>> mine
        tensor([1., 1.])
        >>> dist.destroy_process_group()
    """
    need_tensor("reduce_scatter", output, "output")
    if (found := joined(group, "reduce_scatter")) is None:
        return None
    sent = need_alike("reduce_scatter", input_list, output, found.size(), "input_list")
    data = np.concatenate([elements(one) for one in sent])
    return _reduce_scatter("reduce_scatter", output, sent, data, op, found, async_op)


def reduce_scatter_tensor(
    output: Tensor,
    input: Tensor,
    op: ReduceOp = ReduceOp.SUM,
    group: Group = None,
    async_op: bool = False,
) -> Work | None:
    """Combine the tensors of all ranks, and give each rank its part.

    Args:
        output: where this rank's part of the result is written.
        input: the parts for all ranks, one after the other: world size times the elements of `output`.
        op: how elements are combined, a `ReduceOp`.
        group: the processes that take part; None: all.
        async_op: True: return at once with a `Work`, whose `wait` ends it; False: return when it is done.

    Example:
        >>> import weft
        >>> import weft.distributed as dist
        >>> dist.init_process_group()
        >>> mine = weft.empty(2)
        >>> dist.reduce_scatter_single(mine, weft.ones(2 * dist.get_world_size()))
        >>> mine
        tensor([1., 1.])
        >>> dist.destroy_process_group()
    """
    name = "reduce_scatter_tensor"
    need_tensor(name, output, "output")
    need_tensor(name, input, "input")
    if (found := joined(group, name)) is None:
        return None
    need_multiple(name, input, output, found)
    return _reduce_scatter(name, output, [input], elements(input), op, found, async_op)


reduce_scatter_single = reduce_scatter_tensor


def _reduce_scatter(
    name: str,
    output: Tensor,
    sent: Sequence[Tensor],
    data: Array,
    op: ReduceOp,
    group: ProcessGroup,
    async_op: bool,
) -> Work | None:
    call = call_of(name, f"{need_op(op).value} {describe(output)}", *sent)
    received = Received(output.dtype, output.numel())
    steps = RankReduction(group, call, op, output.dtype).to_parts(data, received.elements)
    return group.collective(call, steps, lambda _: received.fill(output), async_op)


def all_to_all(
    output_tensor_list: Sequence[Tensor],
    input_tensor_list: Sequence[Tensor],
    group: Group = None,
    async_op: bool = False,
) -> Work | None:
    """Send each rank an entry of a list, and put what comes from it into an entry of another.

    Args:
        output_tensor_list: for each rank the tensor that what comes from it is written to.
        input_tensor_list: for each rank the tensor that it is sent.
        group: the processes that take part; None: all.
        async_op: True: return at once with a `Work`, whose `wait` ends it; False: return when it is done.

    Example:
        >>> import weft
        >>> import weft.distributed as dist
        >>> dist.init_process_group()
        >>> came = [weft.empty(2) for _ in range(dist.get_world_size())]
        >>> dist.all_to_all(came, [weft.ones(2) for _ in came])  # the r-th goes to rank r
        >>> came
        [tensor([1., 1.])]
        >>> dist.destroy_process_group()
    """
    if (found := joined(group, "all_to_all")) is None:
        return None
    sent = [need_tensor("all_to_all", t, "input_tensor_list") for t in input_tensor_list]
    targets = [need_tensor("all_to_all", t, "output_tensor_list") for t in output_tensor_list]
    if len(sent) != found.size() or len(targets) != found.size():
        raise ArgumentError(
            f"all_to_all: a list of {len(sent)} and one of {len(targets)} for a group of {found.size()}",
            expected=f"{found.size()} tensors in each",
            got=f"{len(sent)} and {len(targets)}",
            fix="make the lists by get_world_size(group)",
        )
    dtype = targets[0].dtype
    data = np.concatenate([elements(one) for one in sent])
    received = Received(dtype, sum(tensor.numel() for tensor in targets))
    width = dtype.itemsize
    call = call_of("all_to_all", dtype.name, *sent)
    steps = exchanged(
        found,
        call,
        as_bytes(data),
        [tensor.numel() * width for tensor in sent],
        as_bytes(received.elements),
        [tensor.numel() * width for tensor in targets],
    )
    return found.collective(call, steps, lambda _: hand_out(received, targets), async_op)


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Group = None,
    async_op: bool = False,
) -> Work | None:
    """Send each rank some rows of a tensor, and put the rows that come into another; equally many by default.

    Args:
        output: where the rows that come are written, in the order of ranks.
        input: the rows that are sent, in the order of ranks.
        output_split_sizes, input_split_sizes: how many rows come from each rank, and go to it; None: equally many.
        group: the processes that take part; None: all.
        async_op: True: return at once with a `Work`, whose `wait` ends it; False: return when it is done.

    Example:
        >>> import weft
        >>> import weft.distributed as dist
        >>> dist.init_process_group()
        >>> came = weft.empty(4)
        >>> dist.all_to_all_single(came, weft.arange(4.0))  # each rank gets an equal part
        >>> came
        tensor([0., 1., 2., 3.])
        >>> dist.destroy_process_group()
    """
    name = "all_to_all_single"
    need_tensor(name, output, "output")
    need_tensor(name, input, "input")
    if (found := joined(group, name)) is None:
        return None
    received = Received(output.dtype, output.numel())
    call = call_of(name, f"{output.dtype.name} of rows {list(output.shape[1:])}", input)
    steps = exchanged(
        found,
        call,
        as_bytes(elements(input)),
        _split_bytes(name, input, input_split_sizes, found),
        as_bytes(received.elements),
        _split_bytes(name, output, output_split_sizes, found),
    )
    return found.collective(call, steps, lambda _: received.fill(output), async_op)


def split_sizes(
    name: str, rows: int | None, sizes: Sequence[int] | None, group: ProcessGroup
) -> list[int]:
    """The rows of each rank: as given, or equally many of `rows`, which are None where they follow from the sizes.
    Errors: ValueError where rows and ranks do not fit."""
    count = group.size()
    found = list(sizes) if sizes else [(rows or 0) // count] * count
    if len(found) != count or (rows is not None and sum(found) != rows):
        raise ArgumentError(
            f"{name}: split sizes {found} for {sum(found) if rows is None else rows} rows and {count} ranks",
            expected=f"{count} sizes" + ("" if rows is None else f" that add up to {rows}"),
            got=str(found),
            fix="pass a size for each rank, or make the rows a multiple of the ranks",
        )
    return found


def _split_bytes(
    name: str, tensor: Tensor, sizes: Sequence[int] | None, group: ProcessGroup
) -> list[int]:
    """The bytes of each rank's rows."""
    rows = tensor.shape[0] if tensor.ndim else 1
    sizes = split_sizes(name, rows, sizes, group)
    width = tensor.numel() // rows * tensor.dtype.itemsize if rows else 0
    return [size * width for size in sizes]
