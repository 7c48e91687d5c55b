"""One call as records: the recorded graph of a function's results, its inputs marked, nothing of it run.

The walk is that of capsules (`weft.debug.capsules.capture`); what differs is that an operation with a derivative of its
own, such as a convolution, stands for the primitives that compute it where the table of operators has it, and that the
inputs are places instead of values. A read of a value that depends on an input ends the recording: what the program
does with it, a graph cannot say.

Nothing of it ever runs. What the program keeps of the call, as `self.attention = weights`, has failed when the call is
over, and says so to whoever reads it; buffers that the call has written have their values again.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import weft
from weft.debug.capsules.capture import CapturedRun, Writer, actual, line_of
from weft.debug.capsules.records import VALUE, CapsuleRecord, ScalarOperand
from weft.engine.frontend.resolve import edge_for, value_of
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir.mode import Contexts
from weft.engine.ir.node import DONE_STATE, PENDING_STATE, Node
from weft.engine.ir.primitive import COMPOSITE, SCALAR_OP
from weft.engine.ir.tape import intact, tape
from weft.engine.pipeline import driver
from weft.onnx.errors import OnnxExporterError
from weft.ops.any_size import AnySize
from weft.ops.random_numbers import is_drawn
from weft.utils._pytree import tree_leaves, tree_map_only

if TYPE_CHECKING:
    from weft._typing import Array
    from weft.nn import Module

Taken = Callable[
    [str, object], bool
]  # whether an operation of its own derivative is written as one


@dataclass
class RecordedCall:
    """The records of a call; `inputs` are the numbers of the records that stand for the tensors among its arguments
    (None: not used), `outputs` those of its results, or a number that is one itself."""

    records: list[CapsuleRecord]
    arrays: dict[int, Array]
    inputs: list[int | None]
    outputs: list[int | ScalarOperand]


def record_call(
    function: Callable[..., object],
    args: Sequence[object],
    kwargs: Mapping[str, object],
    names: Mapping[Node, str],
    taken: Taken,
    modules: Sequence[Module],
    varies: bool = False,
) -> RecordedCall:
    """Record `function(*args, **kwargs)`. `names` are those of values from outside, `modules` those that it calls;
    `varies`: the record is to hold for other sizes too.

    Errors: OnnxExporterError where a value is read that depends on a tensor among the arguments, and for results that
    are no tensors; what the function raises.
    """
    inputs: list[Tensor] = []

    def marked(tensor: Tensor) -> Tensor:
        """A pending copy, so that every read is a run; derivatives are recorded, so that they stand for the whole."""
        before = tensor.detach()
        if before.is_floating_point():
            before.requires_grad_()
        inputs.append(before.clone())
        return inputs[-1]

    with intact(), _lazily(), weft.enable_grad():
        driver.flush()
        recording = CapturedRun()
        placed: Any = tree_map_only(Tensor, marked, [list(args), dict(kwargs)])
        nodes = [value_of(tensor) for tensor in inputs]
        given = set(nodes)
        try:
            asked = AnySize(varies, lambda name: taken(name, None), lambda n: _reaches(n, given))
            with (
                _listening(recording),
                _unchanged(modules),
                _for_any_size(asked),
                warnings.catch_warnings(),
            ):
                warnings.filterwarnings(
                    "ignore", "Converting a tensor with requires_grad", UserWarning
                )
                results = _tensors(function(*placed[0], **placed[1]))
                return _trace(recording, nodes, results, names, taken)
        finally:
            for node in nodes:
                driver.refuse(node, _only_recorded(node))


@contextmanager
def _listening(recording: CapturedRun) -> Iterator[None]:
    """Keep how values came about that are read on the way: they may depend on sizes."""
    driver.run_observers.append(recording)
    try:
        yield
    finally:
        driver.run_observers.remove(recording)


def _only_recorded(node: Node) -> OnnxExporterError:
    return OnnxExporterError(
        "a value that weft.onnx.export recorded was read after the export",
        expected="values of calls of the model's own",
        got=f"a value made of an input {node.dtype.name}{list(node.shape)} of the exported call, which did not run",
        fix="call the model again: it records the value anew",
    )


@contextmanager
def _unchanged(modules: Sequence[Module]) -> Iterator[None]:
    """Modules have their buffers again afterwards, with the values that they had."""
    tables = [(module, dict(module._buffers)) for module in modules]
    buffers = [one for _, table in tables for one in table.values() if one is not None]
    before = [(one, one._version, one.detach().clone()) for one in buffers]
    try:
        yield
    finally:
        for module, table in tables:
            module._buffers.update(table)
        with weft.no_grad():
            for one, version, copy in before:
                if one._version != version:
                    one.copy_(copy)


@contextmanager
def _lazily() -> Iterator[None]:
    """Record, also in eager mode."""
    mode = tape().mode
    eager, mode.eager = mode.eager, False
    try:
        yield
    finally:
        mode.eager = eager


@contextmanager
def _for_any_size(asked: AnySize) -> Iterator[None]:
    """Refuse reads of what depends on inputs; other values are computed by themselves. What has one operator is
    recorded as one."""

    def refusal(node: Node) -> OnnxExporterError | None:
        if asked.follows(node):
            return OnnxExporterError(
                "onnx.export: a value that depends on an input was read while the call was recorded",
                expected="a program whose steps are the same for all values of its inputs",
                got=f"a read of {node.op.name} {node.dtype.name}{list(node.shape)} of {line_of(node)[0] or '?'}",
                fix="choose by weft.where(condition, a, b), or pass the value as an argument that is no tensor",
            )
        driver.run_tape(tape(), node, "read")
        return None

    mode = tape().mode
    around = mode.contexts
    mode.contexts = Contexts(around, refuse_reads=refusal, any_size=asked)
    try:
        yield
    finally:
        mode.contexts = around


def _reaches(node: Node, goals: set[Node]) -> bool:
    """True if a pending node needs one of some."""
    waiting, seen = [node], {node}
    while waiting:
        one = waiting.pop()
        if one in goals:
            return True
        for source in one.inputs or ():
            if source not in seen and source.state == PENDING_STATE:
                seen.add(source)
                waiting.append(source)
    return False


def _tensors(found: object) -> list[Tensor]:
    """The tensors of a result, in order. Errors: OnnxExporterError where there is something else, or nothing."""
    leaves = [leaf for leaf in tree_leaves(found) if leaf is not None]
    strangers = [leaf for leaf in leaves if not isinstance(leaf, Tensor)]
    if strangers or not leaves:
        raise OnnxExporterError(
            "onnx.export: what the call returned is no tensor",
            expected="a tensor, or lists, tuples and dicts of tensors",
            got=", ".join(f"{stranger!r:.40}" for stranger in strangers) or "nothing",
            fix="export a function that returns the tensors alone",
        )
    return leaves


def _trace(
    recording: CapturedRun,
    inputs: list[Node],
    results: list[Tensor],
    names: Mapping[Node, str],
    taken: Taken,
) -> RecordedCall:
    nodes = [value_of(result) for result in results]
    composites = _composites(results, taken)
    recording.take([*nodes, *inputs, *tape().pending()])
    writer = _Graph(recording, names, inputs, composites)
    writer.add_all(nodes)
    numbers = [writer.number_of(node) for node in nodes]
    return RecordedCall(
        writer.records, writer.arrays, [writer.numbers.get(node) for node in inputs], numbers
    )


def _composites(results: Iterable[Tensor], taken: Taken) -> dict[Node, Node]:
    """The records of derivatives that stand for the whole of an operation, by the node of its value."""
    waiting: list[Any] = [edge_for(result) for result in results]
    waiting += [edge for node in tape().pending() for edge in node.edges or ()]
    found: dict[Node, Node] = {}
    seen: set[int] = set()
    while waiting:
        edge = waiting.pop()
        if not isinstance(edge, Node) or id(edge) in seen:
            continue
        seen.add(id(edge))
        waiting.extend(edge.edges or ())
        if edge.op.kind != COMPOSITE or edge.result is None or edge.inputs is None:
            continue
        older = all(source is not None and source.seq < edge.result.seq for source in edge.inputs)
        first = edge.result not in found or edge.seq < found[edge.result].seq
        if older and first and taken(edge.op.name, edge.params):
            found[edge.result] = edge
    return found


class _Graph(Writer):
    """Writes records of a graph whose inputs are places."""

    def __init__(
        self,
        recording: CapturedRun,
        names: Mapping[Node, str],
        inputs: Sequence[Node],
        composites: Mapping[Node, Node],
    ) -> None:
        super().__init__(recording, names)
        self.places = set(inputs)
        self.composites = composites
        self.standing = set(composites.values())
        self.inputs = {**self.inputs, **{node: node.inputs for node in self.standing}}

    def resolved(self, node: Node) -> Node:
        if node in self.standing:
            return node
        node = actual(node)
        return self.composites.get(node, node)

    def position(self, node: Node) -> int:
        return int(node.result.seq if node in self.standing else node.seq)

    def is_operation(self, node: Node) -> bool:
        if node in self.places:
            return False
        if node.state == DONE_STATE and is_drawn(node.op):
            return False
        return super().is_operation(node) or (node in self.inputs and node.op.kind == COMPOSITE)

    def add_value(self, node: Node) -> int:
        if node not in self.places:
            return super().add_value(node)
        line, source = "", ""
        self.records.append(
            CapsuleRecord(VALUE, (), None, node.dtype.name, node.shape, line, source, name="input")
        )
        return len(self.records) - 1

    def operation(self, node: Node) -> CapsuleRecord:
        return replace(super().operation(node), gradient="", edges=None)

    def number_of(self, node: Node) -> int | ScalarOperand:
        """The record of a node, or the number that it is."""
        resolved = self.resolved(node)
        if resolved.op is SCALAR_OP:
            return ScalarOperand(resolved.params, resolved.dtype.name)
        return self.numbers[resolved]
