"""`weft.debug.capture`: what a block records, as a capsule in a file.

While it is on, it sees each run of pending work before and after (`driver.run_observers`): before, it keeps the inputs
of the nodes, which these forget when they have run, and the values that they read; afterwards the results that somebody
holds. It copies nothing until the file is written. Values that are in memory stay there until then.
"""

from __future__ import annotations

import linecache
import os
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from types import CodeType, TracebackType
from typing import TYPE_CHECKING, Any

from weft.debug import graph
from weft.debug.capsules.capsule import Capsule
from weft.debug.capsules.records import VALUE, CapsuleRecord, ScalarOperand, digest_of, to_json
from weft.engine.backward.pending_snapshot import PendingSnapshot, size_of
from weft.engine.frontend.node_factory import make_value
from weft.engine.frontend.resolve import value_of
from weft.engine.ir.grad_edges import AccumulateGrad
from weft.engine.ir.node import DONE_STATE, FAILED_STATE, Node
from weft.engine.ir.primitive import COLLECTIVE, COMPOSITE, SCALAR_OP
from weft.engine.ir.tape import Tape, tape
from weft.engine.pipeline import driver
from weft.engine.runtime.numpy_views import array_over
from weft.errors import ArgumentTypeError, ExecutionError, class_name, describe_position
from weft.ops.registry import OPS
from weft.optim import stepping
from weft.random import get_rng_state

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from weft.engine.frontend.tensor import Tensor

FilePath = str | os.PathLike[str]
MOST_VALUE_BYTES = 1 << 30  # of a graph that is computed once more, to be looked at
MOST_OPERATIONS = 1_000_000  # of a capsule: half a minute, and 200 MB


class CapturedRun:
    """The nodes that ran while it listened, with what they read and what of their results was held."""

    def __init__(self) -> None:
        self.snapshot = PendingSnapshot()
        self.edges: dict[Node, Any] = {}
        self.held: dict[Node, Any] = {}  # another owner of each value that somebody held
        self.random_state = get_rng_state()
        self.running: list[list[Node]] = []
        self.is_too_large = False  # then it keeps nothing

    def before_run(self, pending_on: Tape) -> None:
        """Keep what is pending on a tape."""
        nodes = [] if self.is_too_large else pending_on.pending()
        self.take(nodes)
        self.running.append([] if self.is_too_large else nodes)

    def take(self, nodes: list[Node]) -> None:
        """Keep the inputs and edges of some nodes; where they become too many, nothing any more."""
        if self.is_too_large or len(self.snapshot.inputs) + len(nodes) > MOST_OPERATIONS:
            self.is_too_large = True
            self.snapshot = PendingSnapshot()
            self.edges.clear()
            self.held.clear()
            return
        self.snapshot.take(nodes)
        self.edges.update((node, node.edges) for node in nodes if node.edges is not None)

    def after_run(self, ran_on: Tape) -> None:
        """Keep what has come of a run: values that a handle or a storage holds, and what no record can say."""
        for node in self.running.pop():
            if node.state != DONE_STATE or node.buffer is None:
                continue
            if node.external_refs > node.saves or node.op.kind == COLLECTIVE:
                self.held[node] = owner_beside(node)


def owner_beside(node: Node) -> Any:
    """Another node of the same value, which keeps its memory from being written."""
    owner = make_value(node.dtype, node.shape, node.buffer, node.offset)
    owner.strides = node.strides
    owner.external_refs = 1
    return owner


# -- from nodes to records -----------------------------------------------------------------------------------------


class Writer:
    """Turns a recording into a capsule; nodes get numbers in the order of recording."""

    def __init__(
        self,
        recording: CapturedRun,
        names: Mapping[Node, str],
        most: int = MOST_OPERATIONS,
    ) -> None:
        self.recording, self.names, self.most = recording, names, most
        self.inputs, self.values = recording.snapshot.inputs, recording.snapshot.values
        self.numbers: dict[Any, int] = {}
        self.records: list[CapsuleRecord] = []
        self.arrays: dict[int, Any] = {}
        self.known: dict[Any, int] = {}  # numbers of values, by where they lie
        self.lines: dict[tuple[int, int], tuple[str, str]] = {}  # of instructions

    def write(self) -> Capsule:
        failed = [node for node in self.inputs if node.state == FAILED_STATE]
        self.add_all([*self.recording.held, *failed])
        return Capsule(self.records, self.arrays, self.recording.random_state)

    def add_all(self, roots: Iterable[Node]) -> None:
        """Write the records of some nodes, and of all that they need."""
        for node in self.needed(roots):
            self.numbers[node] = self.add(node)

    def resolved(self, node: Node) -> Node:
        """The node that is written for one."""
        return actual(node)

    def needed(self, roots: Iterable[Node]) -> list[Node]:
        """The nodes that some need, themselves among them, in the order of recording."""
        found: dict[Node, None] = {}
        waiting = [self.resolved(root) for root in roots]
        while waiting:
            node = waiting.pop()
            if node in found or node.op is SCALAR_OP:
                continue
            found[node] = None
            if len(found) > self.most:
                raise graph.too_large()
            if self.is_operation(node):
                waiting.extend(self.resolved(source) for source in self.inputs[node])
        return sorted(found, key=self.position)

    def position(self, node: Node) -> int:
        """When the value of a node was recorded."""
        return int(node.seq)

    def is_operation(self, node: Node) -> bool:
        """True if a node is written as an operation, not as a value."""
        return node in self.inputs and node.op.kind != COLLECTIVE and node.op.name in OPS

    def add(self, node: Node) -> int:
        if not self.is_operation(node):
            return self.add_value(node)
        record = self.operation(node)
        try:
            to_json(record)
        except TypeError:  # params that are no plain data
            return self.add_value(node)
        if any(source < 0 for source in record.sources()):
            return self.add_value(node)
        self.records.append(record)
        return len(self.records) - 1

    def add_value(self, node: Node) -> int:
        """The number of a value from outside; -1 where it is not there any more."""
        owner = self.values.get(node) or self.recording.held.get(node)
        if owner is None and node.state == DONE_STATE and node.buffer is not None:
            owner = node
        if owner is None:
            return -1
        key = (id(owner.buffer), owner.offset, owner.shape, owner.strides, owner.dtype.name)
        if key not in self.known or self.names.get(node):
            number = self.known[key] = len(self.records)
            self.arrays[number] = array_over(owner)
            line, source = line_of(node)
            record = CapsuleRecord(VALUE, (), None, node.dtype.name, node.shape, line, source)
            self.records.append(replace(record, name=self.names.get(node, "")))
        return self.known[key]

    def operation(self, node: Node) -> CapsuleRecord:
        held = self.recording.held.get(node)
        edges = self.recording.edges.get(node)
        terms = None
        line, source = self.line_of(node)
        if node.info is not None and node.op.name == "gather_rows":
            terms = [list(part) if part is not None else None for part in node.info]
        return CapsuleRecord(
            node.op.name,
            tuple(self.operand(self.resolved(source)) for source in self.inputs[node]),
            node.params,
            node.dtype.name,
            node.shape,
            gradient="" if edges is None else node.name(),
            edges=None if edges is None else tuple(self.target(edge) for edge in edges),
            digest="" if held is None else digest_of(array_over(held)),
            terms=terms,
            error=type(node.error).__name__ if node.state == FAILED_STATE else "",
            line=line,
            source=source,
        )

    def line_of(self, node: Node) -> tuple[str, str]:
        """The user's line that recorded a node, and its text: looked up once for each instruction."""
        key = (id(node.code), node.offset_in_code)
        found = self.lines.get(key)
        if found is None:
            found = self.lines[key] = line_of(node)
        return found

    def operand(self, source: Node) -> int | ScalarOperand:
        if source.op is SCALAR_OP:
            return ScalarOperand(source.params, source.dtype.name)
        return self.numbers[source]

    def target(self, edge: object) -> int | None:
        """The record that a cotangent goes to: a view's record stands for what it is a view of."""
        if isinstance(edge, AccumulateGrad):
            edge = None if edge.variable is None else value_of(edge.variable)
        while isinstance(edge, Node):
            node = self.resolved(edge)
            if node in self.numbers:
                return self.numbers[node]
            edge = node.edges[0] if node.edges else None
        return None


def actual(node: Node) -> Node:
    """The node of a value; a composite's record stands before it."""
    while node.op.kind == COMPOSITE and node.result is not None:
        node = node.result
    return node


def line_of(node: Node) -> tuple[str, str]:
    """The user's line that recorded a node, and its text."""
    code: CodeType | None = node.code
    if code is None or node.op.name in ("value", "scalar"):
        return "", ""
    where = describe_position(code, node.offset_in_code)
    number = int(where.partition(":")[2].partition(" ")[0])
    return where, linecache.getline(code.co_filename, number).strip()


def recorded_of(tensor: Tensor) -> Capsule:
    """A capsule of what a tensor was recorded from, as far as it is pending, or known to a capture that goes on; it is
    computed.

    Errors: ExecutionError, before anything runs, for a graph of more than 250,000 records, or with a value
    of more than a gigabyte."""
    node = value_of(tensor)
    _refuse_large(node)
    known = [one for one in driver.run_observers if isinstance(one, CapturedRun)]
    recording = next((one for one in known if node in one.snapshot.inputs), None) or CapturedRun()
    driver.run_observers.append(recording)
    try:
        driver.require(node)
    finally:
        driver.run_observers.pop()
    before, recording.held = recording.held, {node: owner_beside(node)}
    try:
        return Writer(recording, {}, graph.MOST_RECORDS).write()
    finally:
        recording.held = {**before, **recording.held}


def _say_that_it_is_too_large(path: Path, error: BaseException | None) -> None:
    """Errors: ExecutionError; a warning where another error is under way."""
    told = ExecutionError(
        f"capture: no capsule was written to {path}",
        expected=f"at most {MOST_OPERATIONS:,} operations",
        got="a block, or a step, that ran more",
        fix="capture one step, or the part of it that you want to look at",
    )
    if error is None:
        raise told
    warnings.warn(str(told), RuntimeWarning, stacklevel=4)


def _refuse_large(node: Node) -> None:
    """Errors: ExecutionError."""
    count, largest = size_of([node], graph.MOST_RECORDS)
    if count > graph.MOST_RECORDS:
        raise graph.too_large()
    if largest > MOST_VALUE_BYTES:
        raise ExecutionError(
            "weft.debug: a value is too large to be computed once more beside itself",
            expected=f"values of at most {MOST_VALUE_BYTES:,} bytes",
            got=f"{largest:,} bytes",
            fix="ask about a part, recorded of x[:1000]; weft.plot and repr look at a sample",
        )


# -- the contexts --------------------------------------------------------------------------------------------------


class capture:  # noqa: N801 - a context, as no_grad is
    """Write what runs in a block into a capsule: one file, which `weft replay` runs again without the program.

    Args:
        path: where it goes; a file that is there is replaced as a whole.
        names: leaves by the names that they have in the capsule, for example `dict(model.named_parameters())`; None:
            they have none.

    The file holds the operations with their parameters, shapes, dtypes, gradient edges and the user's lines, the values
    that they read from outside, digests of all results that somebody held when they had been computed, and the state of
    random numbers at the beginning. It holds no code. What the block itself reads or leaves pending runs at its end;
    an exception is noted, and goes on. Runs of all threads are seen.

    Cost: what the block reads and what it leaves stays in memory to its end; some 0.4 us for each operation, and 15 us
    when the file is written.

    Raises:
        ExecutionError for a block of more than a million operations; no file is written then.

    Example:
        >>> import weft, tempfile, os
        >>> path = os.path.join(tempfile.mkdtemp(), "step.weft")
        >>> with weft.debug.capture(path):
        ...     x = weft.tensor([1.0, 4.0], requires_grad=True)
        ...     x.sqrt().sum().backward()
        >>> print(str(weft.debug.load_capsule(path).replay()).partition(" values ")[2])
        have the same bits as when they were captured
    """

    def __init__(self, path: FilePath, names: Mapping[str, Tensor] | None = None) -> None:
        if not isinstance(path, str | os.PathLike):
            raise ArgumentTypeError(
                f"capture: expected a path, got {class_name(path)}",
                expected="the path of the file to write",
                got=f"{path!r:.80}",
                fix='with weft.debug.capture("bug.weft"):',
            )
        self.path, self.names = Path(path), dict(names or {})

    def __enter__(self) -> capture:
        driver.flush()  # what was recorded before is no part of it
        self.labels = {value_of(tensor): name for name, tensor in self.names.items()}
        self.recording = CapturedRun()
        driver.run_observers.append(self.recording)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        failure = error
        try:
            self.recording.take(tape().pending())
            driver.flush()
        except Exception as late:
            failure = failure or late
            if error is None:
                raise
        finally:
            driver.run_observers.remove(self.recording)
            self.write(self.recording, failure)
            del self.recording

    def write(self, recording: CapturedRun, error: BaseException | None) -> None:
        """Write the file; `error` is what was raised meanwhile.

        Args:
            recording: what was recorded.
            error: what was raised meanwhile; None: nothing was.
        """
        if recording.is_too_large:
            _say_that_it_is_too_large(self.path, error)
            return
        made = Writer(recording, self.labels).write()
        if error is not None:
            made.error = f"{type(error).__name__}: {error}"
        made.save(self.path)

    @staticmethod
    def on_error(path: FilePath, names: Mapping[str, Tensor] | None = None) -> on_error:
        """The last step, written only where the program fails: `on_error` begins at once, and ends with `close()` or
        its `with` block.

        Args:
            path: the file.
            names: names for tensors, shown in the capsule; None: those of the program.
        """
        return on_error(path, names)


class on_error(capture):  # noqa: N801 - as capture
    """Keep the last step, and write it as a capsule where an exception ends its block or the program.

    A step ends with `optimizer.step()`; what ran before it is forgotten then, but for the step before, which is written
    where the new one has not run anything yet.
    """

    def __init__(self, path: FilePath, names: Mapping[str, Tensor] | None = None) -> None:
        super().__init__(path, names)
        self.labels: dict[Any, str] = {}
        self.previous: CapturedRun | None = None
        self.recording = CapturedRun()
        driver.run_observers.append(self.recording)
        stepping.after_step.append(self.turn_over)
        self.hook, sys.excepthook = sys.excepthook, self.excepthook
        self.open = True

    def turn_over(self) -> None:
        """A step is over: the ring forgets the one before."""
        driver.run_observers.remove(self.recording)
        self.previous, self.recording = self.recording, CapturedRun()
        driver.run_observers.append(self.recording)

    def __enter__(self) -> on_error:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.finish(error)

    def excepthook(
        self, kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        """Write the last step, then do what was done with exceptions before."""
        hook = self.hook
        self.finish(error)
        hook(kind, error, trace)

    def finish(self, error: BaseException | None) -> None:
        """Stop; write where there is an error that a program can have."""
        if not self.open:
            return
        if isinstance(error, Exception):
            self.recording.take(tape().pending())
            try:
                driver.flush()
            except Exception as late:
                late.__context__ = None  # the first error is the one to tell of
            empty = not self.recording.snapshot.inputs and self.previous is not None
            self.labels = {value_of(tensor): name for name, tensor in self.names.items()}
            self.write(self.previous if empty and self.previous else self.recording, error)
        self.close()

    def close(self) -> None:
        """Stop, and forget what was kept."""
        if not self.open:
            return
        self.open = False
        driver.run_observers.remove(self.recording)
        stepping.after_step.remove(self.turn_over)
        if sys.excepthook == self.excepthook:
            sys.excepthook = self.hook
        self.previous, self.recording = None, CapturedRun()
