"""Collectives as nodes: how they are recorded, and the carrier, which brings their operands to the other ranks.

`record` puts one on the tape and gives its result, which is there when it is read. The flush that runs what was
recorded asks the carrier to begin collectives as soon as their operands are there. Neighbours that do the same with one
dtype in one group go as one operation, but for large ones that would have to be copied; ranks whose flushes end at
different places agree on how many (`agree_on_several`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from weft._typing import Array
from weft.distributed.buffers import Received, as_bytes, elements
from weft.distributed.collectives.agreement import CollectiveCall
from weft.distributed.collectives.reduction import ReduceOp
from weft.distributed.collectives.steps import (
    RankReduction,
    collected,
    exchanged,
    sent_from,
    several_gathered,
    spread,
)
from weft.distributed.group import ProcessGroup
from weft.distributed.progress import Steps
from weft.distributed.work import Work
from weft.distributed.world import current_world
from weft.engine.frontend.collective import set_carrier
from weft.engine.frontend.tensor import Tensor
from weft.engine.frontend.tensor_lifecycle import wrap_node
from weft.engine.ir.node import Node
from weft.errors import WeftError
from weft.ops.structure.collective import Collective, collective
from weft.tensor.reading.values import describe

# Of a lot of gathers or of their adjoints, which are copied to lie one behind the other and back.
MOST_BYTES_JOINED = 1 << 22


def record(
    name: str,
    tensor: Tensor,
    group: ProcessGroup,
    reduction: ReduceOp = ReduceOp.SUM,
    root: int = 0,
    sent: Sequence[int] = (),
    received: Sequence[int] = (),
) -> Any:
    """The result of a collective of the name, with a derivative; `root` is a member of the group."""
    params = Collective(
        name, group.group_name, group.size(), reduction.value, root, tuple(sent), tuple(received)
    )
    return collective(tensor, params)


# -- steps ---------------------------------------------------------------------------------------------------------


class _Part(NamedTuple):
    """A collective that begins: who takes part, what is called, the operand, and the memory of the result, or of those
    of several that go together."""

    group: ProcessGroup
    call: CollectiveCall
    params: Collective
    operand: Tensor
    targets: list[Array]

    @property
    def target(self) -> Array:
        """The memory of the only result, or of those that lie one behind the other."""
        return self.targets[0]


def _reduction(part: _Part) -> RankReduction:
    return RankReduction(part.group, part.call, ReduceOp(part.params.reduction), part.operand.dtype)


def _broadcast(part: _Part, data: Array) -> Steps[None]:
    if part.group.rank() == part.params.root:
        part.target[...] = data
    return sent_from(part.group, part.call, as_bytes(part.target), part.params.root)


def _reduce(part: _Part, data: Array) -> Steps[None]:
    part.target[...] = data if part.params.name == "reduce" else 0
    return _reduction(part).to_one(data, part.target, part.params.root)


def _gather(part: _Part, data: Array) -> Steps[None]:
    part.target[...] = 0
    bytes_in, bytes_out = as_bytes(data), as_bytes(part.target)
    return collected(part.group, part.call, bytes_in, bytes_out, part.params.root)


def _all_to_all(part: _Part, data: Array) -> Steps[None]:
    row = data.itemsize * math.prod(part.operand.shape[1:])  # also where this rank sends nothing
    return exchanged(
        part.group,
        part.call,
        as_bytes(data),
        [count * row for count in part.params.sent],
        as_bytes(part.target),
        [count * row for count in part.params.received],
    )


# Those of which several go together: their steps take several calls and operands.
_TOGETHER: dict[str, Callable[[_Part, Sequence[CollectiveCall], Sequence[Array]], Steps[None]]] = {
    "all_reduce": lambda part, calls, data: _reduction(part).several_to_all(
        calls, data, part.target
    ),
    "all_gather": lambda part, calls, data: several_gathered(part.group, calls, data, part.targets),
    "reduce_scatter": lambda part, calls, data: _reduction(part).several_to_parts(
        calls, data, part.targets
    ),
}
_APART = ("all_gather", "reduce_scatter")  # whose results have memory of their own
_STEPS: dict[str, Callable[[_Part, Array], Steps[None]]] = {
    "broadcast": _broadcast,
    "reduce": _reduce,
    "sum_at_root": _reduce,
    "gather": _gather,
    "scatter": lambda part, data: spread(
        part.group, part.call, as_bytes(data), as_bytes(part.target), part.params.root
    ),
    "all_to_all": _all_to_all,
}


def _terms(params: Collective, operand: Tensor) -> str:
    """The terms of a collective, which are the same on all ranks."""
    if params.name == "all_to_all":
        return f"{operand.dtype.name} of rows {list(operand.shape[1:])}"
    reduces = "reduc" in params.name or "sum" in params.name
    rooted = params.name in ("broadcast", "reduce", "sum_at_root", "gather", "scatter")
    said = [f"{params.reduction} "] if reduces else []
    said.append(describe(operand))
    said += [f" with {params.root}"] if rooted else []
    return "".join(said)


# -- the carrier ---------------------------------------------------------------------------------------------------


class _Arrival(NamedTuple):
    """A collective under way: its node, what it waits for (or the error that it could not begin), the memory that its
    result comes to, and where in it; the operands, which live as long."""

    node: Node
    work: Work | WeftError
    received: Received
    first: int
    operands: list[Tensor]


class Carrier:
    """Brings the operands of recorded collectives to the other ranks, and results to nodes."""

    def __init__(self) -> None:
        self._under_way: dict[int, _Arrival] = {}

    def begin(self, nodes: Sequence[Node]) -> None:
        """Begin those that are not under way since a flush that was interrupted, in this order."""
        for lot in _neighbours([node for node in nodes if id(node) not in self._under_way]):
            operands = [wrap_node(node.inputs[0]) for node in lot]
            counts = [node.numel for node in lot]
            are_apart = lot[0].params.name in _APART
            memory = [Received(lot[0].dtype, n) for n in (counts if are_apart else [sum(counts)])]
            try:
                work: Work | WeftError = _start(lot, operands, [one.elements for one in memory])
            except WeftError as error:
                work = error
            first = 0
            for number, node in enumerate(lot):
                received = memory[number if are_apart else 0]
                self._under_way[id(node)] = _Arrival(node, work, received, first, operands)
                first += 0 if are_apart else node.numel

    def take(self, node: Node) -> tuple[object, int] | WeftError:
        """Wait for a result: its memory and where it begins there, or an error."""
        arrival = self._under_way[id(node)]
        outcome = _outcome(arrival)
        del self._under_way[id(node)]  # not where the wait was interrupted
        return outcome


def _outcome(arrival: _Arrival) -> tuple[object, int] | WeftError:
    if isinstance(arrival.work, WeftError):
        return arrival.work
    try:
        arrival.work.wait()
    except WeftError as error:
        return error
    return arrival.received.memory, arrival.first * arrival.node.dtype.itemsize


def _neighbours(nodes: Sequence[Node]) -> Iterator[list[Node]]:
    """Neighbours that go together; others alone."""
    lot: list[Node] = []
    for node in nodes:
        if lot and not _joins(node, lot):
            yield lot
            lot = []
        lot.append(node)
    if lot:
        yield lot


def _joins(node: Node, lot: list[Node]) -> bool:
    """True if a collective goes together with some: they do the same with one dtype in one group, and little is
    copied."""
    first = lot[0]
    if node.params.name not in _TOGETHER or node.params != first.params:
        return False
    if node.dtype is not first.dtype:
        return False
    return node.params.name == "all_reduce" or sum(map(_nbytes, (*lot, node))) <= MOST_BYTES_JOINED


def _nbytes(node: Node) -> int:
    """The bytes of a collective's operand or result, whichever has more."""
    return int(max(node.numel, node.inputs[0].numel) * node.dtype.itemsize)


def _start(lot: list[Node], operands: list[Tensor], targets: list[Array]) -> Work:
    """Begin some collectives as one operation. Errors: DistError for a group that is gone, or has lost a rank."""
    params: Collective = lot[0].params
    group = current_world().member_group(params.group)
    calls = [
        CollectiveCall(params.name, _terms(params, operand), node.where)
        for node, operand in zip(lot, operands, strict=True)
    ]
    data = [elements(operand) for operand in operands]
    part = _Part(group, calls[0], params, operands[0], targets)
    if params.name in _TOGETHER:
        steps = _TOGETHER[params.name](part, calls, data)
    else:
        steps = _STEPS[params.name](part, data[0])
    return group.begin(calls[0], steps, len(calls))


set_carrier(Carrier())
