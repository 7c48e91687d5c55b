"""The origin of a value that is not finite.

It takes nodes whose values are nan or infinite, and what is known of their computation: a snapshot of pending nodes,
or the residuals of a graph that has run. Their ancestors are computed once more, each value by itself, and the first
operation that made a non-finite value of finite inputs is described: the user's line, its operands, the path from
there to the loss. `anomaly` decides when to look.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.engine.backward.pending_snapshot import PendingSnapshot
from weft.engine.backward.reachability import target_for
from weft.engine.frontend.node_factory import make_node
from weft.engine.frontend.resolve import value_of
from weft.engine.frontend.tensor_lifecycle import wrap_node
from weft.engine.ir.grad_edges import AccumulateGrad
from weft.engine.ir.node import DONE_STATE as DONE
from weft.engine.ir.node import PENDING_STATE as PENDING
from weft.engine.ir.node import Node
from weft.engine.ir.primitive import COMPOSITE, SCALAR_OP, SOURCE, VALUE_OP
from weft.engine.pipeline.batching import batched_residuals
from weft.engine.pipeline.segment_index import SegmentIndex
from weft.engine.runtime.array_pieces import is_finite, pieces, without_repeats

if TYPE_CHECKING:
    from weft.autograd.custom.node import FunctionNode


Unit = tuple[Any, int, int, list[Any], list[Any]]


@dataclass(frozen=True)
class OperandStatistics:
    """One input of an operation in numbers: the extremes and the mean are of its finite elements."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    low: float
    high: float
    mean: float
    not_finite: int

    def __str__(self) -> str:
        size = math.prod(self.shape)
        text = f"{self.name} {self.dtype}{list(self.shape)}"
        if size > self.not_finite:
            text += f": min {self.low:.4g}, max {self.high:.4g}, mean {self.mean:.4g}"
        return f"{text}, {self.not_finite} of {size} not finite"


@dataclass(frozen=True)
class Anomaly:
    """The first operation that made a value that is not finite."""

    operation: str  # as the op table calls it
    record: str  # the gradient record that it belongs to, or the operation again
    where: str  # the user's line of the forward call
    phase: str  # "forward" or "backward"
    kind: str  # "nan" or "inf"
    operands: tuple[OperandStatistics, ...]
    path: tuple[str, ...]  # the records from there to the loss, with their lines

    def __str__(self) -> str:
        return "\n".join((self.headline, *self.notes()))

    @property
    def summary(self) -> str:
        """A sentence on the operation that made the value."""
        if self.operation == "value":
            return f"{self.record} was given a value that was {self.kind} from the start"
        of = "" if self.record == self.operation else f" of {self.record}"
        return f"{self.operation}{of} made {self.kind} in the {self.phase} pass"

    @property
    def headline(self) -> str:
        """A sentence on the operation that made the value, with its call site."""
        return f"{self.summary}, {self.where}"

    def notes(self) -> list[str]:
        """The operands, and the way to the loss."""
        notes = [f"  input     {operand}" for operand in self.operands]
        return [*notes, f"  to loss   {' -> '.join(self.path)}"] if self.path else notes


# -- values once more ----------------------------------------------------------------------------------------------


class Values:
    """The values of nodes, computed again one by one where they are not there any more."""

    def __init__(self, snapshot: PendingSnapshot) -> None:
        self.snapshot = snapshot
        self.owners: dict[Any, Any] = {}  # composites, by the node of their value
        self._copies: dict[Any, Any] = {}
        self._handles: list[Any] = []
        self._inputs: dict[Any, tuple[Any, ...]] = {}
        self._state: dict[Any, tuple[bool, bool] | None] = {}

    def inputs_of(self, node: Node) -> tuple[Any, ...]:
        """The inputs of a node as far as they are known; None if they are not."""
        if node not in self._inputs:
            self._inputs[node] = self._find_inputs(node)
        return self._inputs[node]

    def _find_inputs(self, node: Node) -> tuple[Any, ...]:
        if node in self.snapshot.inputs:
            return tuple(self.snapshot.inputs[node])
        if node.inputs is not None and (node.state == PENDING or node.op.kind == COMPOSITE):
            return tuple(node.inputs)
        if node.edges is None:
            owner = self.owners.get(node)
            return () if owner is None else self.inputs_of(owner)
        return tuple(_input_value(node, index) for index in range(len(node.edges)))

    def add(self, targets: Iterable[Node]) -> None:
        """Make the values of some nodes, and of all that they were computed from."""
        waiting = [(target, False) for target in targets]
        while waiting:
            node, ready = waiting.pop()
            if node is None or node in self._copies:
                continue
            sources = self._value_sources(node)
            if ready or not sources:
                self._copies[node] = self._copy(node, sources)
            else:
                waiting.append((node, True))
                waiting.extend((source, False) for source in sources)
            if not ready:
                waiting.extend((source, False) for source in self.inputs_of(node))

    def _value_sources(self, node: Node) -> tuple[Any, ...]:
        if node.op.kind == COMPOSITE:
            return () if node.result is None else (node.result,)
        return () if self.is_whole(node) else self.inputs_of(node)

    def is_whole(self, node: Node) -> bool:
        """True if a node is the value of a composite that has run, whose parts are forgotten."""
        return node in self.owners and node.state == DONE and node not in self.snapshot.inputs

    def _copy(self, node: Node, sources: tuple[Node | None, ...]) -> Any:
        """A node with the same value, which stays; None where it cannot be had."""
        if node.op is SCALAR_OP or (node.state == DONE and node.buffer is not None):
            return node
        kept = self.snapshot.values.get(node)
        if kept is not None:
            return kept
        copies = [self._copies.get(source) for source in sources]
        if not copies and node.op.kind != SOURCE or None in copies:
            return None
        if node.op.kind == COMPOSITE:
            return copies[0]
        made = make_node(node.op, tuple(copies), node.params, node.shape, node.dtype)
        made.operand_shapes = node.operand_shapes
        if isinstance(
            node.info, SegmentIndex
        ):  # where its rows lie; of other nodes it says nothing of the value
            made.info = node.info
        self._handles.append(wrap_node(made))
        return made

    def array(self, node: Node) -> Any:
        """The value as an array; None where it is not known."""
        from weft.engine.pipeline.driver import array_of

        copy = self._copies.get(node)
        if copy is None:
            return None
        array = array_of(copy)
        if copy.dtype.numpy is None:
            return (array.astype(np.uint32) << np.uint32(16)).view(np.float32)
        return array

    def state(self, node: Node) -> tuple[bool, bool] | None:
        """(has a nan, has something not finite); None where that is not known."""
        if node is None:
            return None
        if node not in self._state:
            array = self.array(node)
            self._state[node] = None if array is None else _state_of(array)
        return self._state[node]


def _state_of(array: np.ndarray) -> tuple[bool, bool]:
    if is_finite(array):
        return (False, False)
    return (bool(np.isnan(array).any()), True)


def _input_value(node: Any, index: int) -> Any:
    """The node of one input of a record that has run: its save, or what the edge leads to."""
    saved = node.has_residuals and node.residual_mask >> index & 1 and not node.released
    if saved and not (node.observers is not None and node.observers.has_packed):
        return batched_residuals.saved_input(node, index)
    edge = node.edges[index]
    if isinstance(edge, AccumulateGrad):
        return value_of(edge.variable)
    return edge if isinstance(edge, Node) else None


# -- the search ----------------------------------------------------------------------------------------------------


class Search:
    """Looks for the operation at fault below some values that are not finite."""

    def __init__(self, values: Values, hits: list[Any]) -> None:
        self.values = values
        values.add(hits)
        self.users: dict[Any, Any] = dict.fromkeys(hits)  # each node, and who led to it
        waiting = list(hits)
        while waiting:
            node = waiting.pop()
            for source in values.inputs_of(node):
                if source is None or source in self.users:
                    continue
                state = values.state(source)
                if state is None or state[1]:
                    self.users[source] = node
                    waiting.append(source)
        self.order = sorted(self.users, key=lambda node: int(node.seq))

    def _is_bad(self, node: Node, which: int) -> bool:
        state = self.values.state(node)
        return state is not None and state[which]

    def _first_maker(self, which: int) -> Any:
        """The earliest operation whose value has a nan (0) or is not finite (1), while nothing below it has."""
        tainted: set[Any] = set()
        for node in self.order:
            sources = [source for source in self.values.inputs_of(node) if source is not None]
            below = any(s in tainted or self._is_bad(s, which) for s in sources)
            bad = self._is_bad(node, which)
            if bad and not below and node.op not in (VALUE_OP, SCALAR_OP):
                return node
            if bad or below:
                tainted.add(node)
        return None

    def fault(self) -> Any:
        """The operation that made something not finite of finite inputs; else the one that made a nan; else the first
        value that was not finite from the start."""
        for which in (1, 0):
            found = self._first_maker(which)
            if found is not None:
                return found
        return next((node for node in self.order if self._is_bad(node, 1)), None)

    def chain(self, node: object) -> list[Any]:
        """The nodes from one to the value that the search began at."""
        found = []
        while node is not None:
            found.append(node)
            node = self.users.get(node)
        return found


def describe_operand(values: Values, node: Node, name: str) -> OperandStatistics | None:
    """An input in numbers; None where its value is not known."""
    array = values.array(node)
    return None if array is None else in_numbers(array, name, node.dtype.name, node.shape)


def in_numbers(
    array: np.ndarray, name: str, dtype: str, shape: tuple[int, ...]
) -> OperandStatistics:
    """A value in numbers."""
    seen = without_repeats(array)
    low, high, total, count = math.inf, -math.inf, 0.0, 0
    for piece in pieces(seen):
        reals = piece if piece.dtype.kind in "fiub" else np.abs(piece)
        finite = reals[np.isfinite(reals)].astype(np.float64)
        if finite.size:
            low, high = min(low, float(finite.min())), max(high, float(finite.max()))
            total, count = total + float(finite.sum()), count + finite.size
    numbers = (low, high, total / count) if count else (math.nan,) * 3
    times = array.size // seen.size if seen.size else 1
    return OperandStatistics(name, dtype, shape, *numbers, (seen.size - count) * times)


def name_of(record: FunctionNode | Node) -> str:
    """The name of a record: its gradient name, or its op's."""
    return record.name() if not isinstance(record, Node) or record.edges else record.op.name


def records_below(roots: list[Node]) -> dict[Any, Any]:
    """All gradient records that roots lead to, nearest first, and by which record each was reached."""
    came: dict[Any, Any] = dict.fromkeys(roots)
    waiting = list(roots)
    for record in waiting:
        if isinstance(record, AccumulateGrad):
            continue
        for edge in record.edges or ():
            below = None if edge is None else target_for(edge)[0]
            if below is not None and below not in came:
                came[below] = record
                waiting.append(below)
    return came


def path_to(roots: list[Node], target: FunctionNode | Node) -> list[Any]:
    """The records on the shortest path from one to a root, along gradient edges; empty if there is none."""
    came = records_below(roots)
    path: list[Any] = []
    step = target if target in came else None
    while step is not None:
        path.append(step)
        step = came[step]
    return path


def _lines(path: list[FunctionNode | Node]) -> tuple[str, ...]:
    """The records of a path with their lines."""
    return tuple(f"{name_of(step)} ({step.where})" for step in path if hasattr(step, "where"))


class Diagnosis:
    """Puts a fault into the user's terms: a record of the graph, a phase, a path."""

    def __init__(self, values: Values, roots: list[Any], units: list[Unit]) -> None:
        self.values, self.roots, self.units = values, roots, units
        for record in records_below(roots):
            if isinstance(record, Node) and record.result is not None:
                values.owners[record.result] = record
        for record, _first, _last, _parts, made in units:
            if isinstance(record, AccumulateGrad):
                continue  # what is kept of it is a handle
            owners = record if isinstance(record, list) else [record]
            values.owners.update(zip(made, owners, strict=False))

    def describe(self, hits: list[object]) -> Anomaly | None:
        """The anomaly behind values that are not finite; None where it cannot be found."""
        search = Search(self.values, hits)
        fault = search.fault()
        if fault is None:
            return None
        member = self._member_of(fault)
        if member is not None:
            search = Search(self.values, [member])
            fault = search.fault()
        unit = self._unit_of(fault)
        function = None if unit is not None else self._function_before(fault)
        if function is not None:
            return self._report_function(function)
        if unit is not None:
            record, phase = self._record_in(unit, fault), "backward"
        else:
            record, phase = self._record_above(search.chain(fault)), "forward"
        return self._report(search, fault, record, phase)

    def _function_before(self, fault: Node) -> Any:
        """The first custom Function older than a fault that made something not finite of finite arguments: known where
        it was called in anomaly mode."""
        calls = [r for r in records_below(self.roots) if getattr(r, "call", None) is not None]
        for record in sorted(calls, key=lambda record: int(record.seq)):
            if record.seq < fault.seq and record.call.fault():
                return record
        return None

    def _report_function(self, record: FunctionNode) -> Anomaly:
        operands = []
        for figures in record.call.inputs:
            low, high, mean, count, _nan = figures.read()
            operands.append(
                OperandStatistics(
                    figures.name, figures.dtype, figures.shape, low, high, mean, count
                )
            )
        return Anomaly(
            operation=name_of(record),
            record=name_of(record),
            where=record.where,
            phase="forward",
            kind=record.call.fault(),
            operands=tuple(operands),
            path=_lines(path_to(self.roots, record)),
        )

    def _report(
        self, search: Search, fault: Node, record: FunctionNode | Node, phase: str
    ) -> Anomaly:
        op = fault.op
        if self.values.is_whole(fault):
            op = self.values.owners[fault].op
        names = op.operands
        operands = []
        for index, source in enumerate(self.values.inputs_of(fault)):
            name = names[index] if index < len(names) else names[-1] if names else "input"
            found = None if source is None else describe_operand(self.values, source, name)
            if found is not None:
                operands.append(found)
        if not operands and fault.op in (VALUE_OP, SCALAR_OP):
            operands = [o for o in [describe_operand(self.values, fault, "value")] if o is not None]
        path = path_to(self.roots, record) or search.chain(fault)
        shown = record
        if fault.op in (VALUE_OP, SCALAR_OP):
            shown = search.users.get(fault) or record
        return Anomaly(
            operation="value" if fault.op in (VALUE_OP, SCALAR_OP) else op.name,
            record=name_of(shown),
            where=shown.where,
            phase=phase,
            kind="nan" if search._is_bad(fault, 0) else "inf",
            operands=tuple(operands),
            path=_lines(path),
        )

    def _member_of(self, fault: Node) -> Any:
        """The operation of the user in a batch at fault: the first whose row is not finite."""
        members = self.values.snapshot.members.get(fault)
        if not members:
            return None
        array = self.values.array(fault)
        for member in sorted(members, key=lambda node: int(node.qrow)):
            ragged = len(member.shape) == array.ndim
            axis = next((n for n, size in enumerate(array.shape) if size != 1), 0) if ragged else 0
            height = member.shape[axis] if ragged else 1
            rows = range(member.qrow, member.qrow + height)
            if _state_of(array.take(rows, axis))[1]:
                return member
        return None

    def _unit_of(self, fault: Node) -> Unit | None:
        """The step of the reverse walk that recorded a node, the innermost one."""
        inside = [unit for unit in self.units if unit[1] < fault.seq <= unit[2]]
        return min(inside, key=lambda unit: unit[2] - unit[1]) if inside else None

    def _record_in(self, unit: Unit, fault: Node) -> Any:
        """The record that a step derived: of a batch, the member whose row is not finite."""
        records = unit[0]
        if not isinstance(records, list):
            return records
        array = self.values.array(fault)
        if array is not None and array.shape[:1] == (len(records),):
            for row, record in enumerate(records):
                if _state_of(array[row])[1]:
                    return record
        return records[0]

    def _record_above(self, chain: list[Node]) -> Any:
        """The gradient record that a value belongs to: its own, or the composite that it is a part of."""
        for node in chain:
            if node in self.values.owners:
                return self.values.owners[node]
            if node.edges is not None:
                return node if node is chain[0] else chain[0]
        return chain[0]


__all__ = ["Anomaly", "Diagnosis", "OperandStatistics", "Search", "Unit", "Values", "records_below"]
