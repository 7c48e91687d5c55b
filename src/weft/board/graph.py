"""The graph of a step as plain columns: records, their arrows, the module calls around them, their values in numbers.

`ObservedStep` is opened where a step begins and hears of its module calls; `take` reads the graph at the beginning of a
backward, before anything has run, and holds the values that are pending; `document` reads them when the step is over.
A graph that is too large is counted instead: equal operations of one line are one entry.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

from weft.autograd.backward import Arrivals
from weft.board.run import Document, SourceFiles, Table, rounded
from weft.board.scopes import ModuleCalls, names_of
from weft.board.statistics import COLUMNS, FEW_ELEMENTS, array_of, describe, describe_all, norms_of
from weft.board.timing import MOST_RECORDED, TimeLook
from weft.debug.graph import DONE, Entry, collect_graph
from weft.engine.capi.call_site import without_collector
from weft.engine.frontend.node_factory import count_live_nodes
from weft.engine.frontend.resolve import value_of
from weft.engine.frontend.tensor import Tensor
from weft.engine.frontend.tensor_lifecycle import wrap_node
from weft.engine.ir.node import Node
from weft.engine.ir.primitive import SCALAR_OP, VALUE_OP
from weft.engine.ir.tape import tape
from weft.engine.runtime.numpy_views import array_over
from weft.errors import line_number
from weft.nn import Module

Found = TypeVar("Found")
MOST_RECORDS = 250_000  # of one graph are kept apart
MOST_CALLS = 500_000
MOST_VALUES, MOST_VALUE_BYTES = 50_000, 256 << 20  # are held until the step is over
MOST_LETTERS = 200  # of an operation's parameters


class ObservedStep:
    """One step that is looked at closely.

    Args:
        sources: the run's files.
        most_records: above so many, records are counted.
        most_events: so many of the trace are recorded.
    """

    def __init__(
        self,
        sources: SourceFiles,
        most_records: int = MOST_RECORDS,
        most_events: int = MOST_RECORDED,
    ) -> None:
        self.scopes = ModuleCalls(MOST_CALLS)
        self.trace = TimeLook(most_events)
        self.sources = sources
        self.most_records = min(most_records, MOST_RECORDS)
        self.records = 0  # that there were
        self.seconds = 0.0  # of processor time that its graph took
        self.entries: list[Entry] = []
        self.counted: dict[str, Any] | None = None
        self.held: dict[int, Tensor] = {}  # by the entry's number
        self.cotangents: list[
            tuple[Any, Tensor, int]
        ] = []  # as `Walk.keep_arrivals` has them, of these entries
        self.models: Sequence[Module] = ()
        self.taken = False

    def close(self) -> None:
        """Hear of no more calls."""
        self.scopes.close()

    def timed(self, function: Callable[..., Found], *arguments: object) -> Found:
        """Call one of its methods with the collector paused, and add up the time that it takes."""
        began = time.thread_time()
        try:
            found: Found = without_collector(function, *arguments)
            return found
        finally:
            self.seconds += time.thread_time() - began

    def outermost(self) -> list[Module]:
        """The modules that were called by the program itself, each once."""
        return list(dict.fromkeys(call.module for call in self.scopes.calls if call.parent < 0))

    def take(self, tensors: Iterable[Tensor], models: Sequence[Module]) -> None:
        """Read the graph of some tensors, before it runs."""
        self.taken = True
        self.models = models or self.outermost()
        self.records = count_live_nodes()
        if self.records > self.most_records:
            self.counted = count_records(tape().pending(), self.sources)
            self.counted["records"] = max(self.counted["records"], self.records)
            return
        found: dict[int, Entry] = {}
        for tensor in tensors:
            for entry in collect_graph(tensor):
                found.setdefault(id(entry.record), entry)
        self.entries = merge_entries(found)
        self._hold()

    def _hold(self) -> None:
        """Hold what is pending, so that its values are there when the step is over."""
        room = MOST_VALUE_BYTES
        computable = computable_ids()
        for entry in self.entries:
            if id(entry.record) in computable:
                room -= entry.record.numel * entry.record.dtype.itemsize
                if room < 0 or len(self.held) == MOST_VALUES:
                    break
                self.held[entry.number] = wrap_node(entry.record)

    def hear(self, arrivals: Arrivals) -> None:
        """Hold what has come to the records in the walk, so that its size is there when the step is over."""
        known = {id(entry.record) for entry in self.entries}
        computable = computable_ids()
        room, values = MOST_VALUE_BYTES, 0
        for records, node, axis in arrivals:
            first = records[0] if isinstance(records, list) else records
            if id(first) not in known or (id(node) not in computable and node.buffer is None):
                continue
            room -= node.numel * node.dtype.itemsize
            values += 1
            if room < 0 or values > MOST_VALUES:
                break
            self.cotangents.append((records, wrap_node(node), axis))

    def document(self) -> dict[str, Any]:
        """The columns of the graph, when it has run."""
        if self.counted is not None:
            return self.counted
        modules, names = names_of(self.models)
        columns = columns_of(self.entries, names, self.sources)
        calls = self.scopes.of([_sequence(entry) for entry in self.entries])
        columns["nodes"]["scope"] = calls
        columns["scopes"] = [
            {
                "name": modules.get(call.module, type(call.module).__name__),
                "class": type(call.module).__name__,
                "parent": call.parent,
            }
            for call in self.scopes.calls
        ]
        columns["values"] = self._values()
        self.held.clear()
        return columns

    def _values(self) -> dict[str, list[Any]]:
        """Statistics of leaves, of what was held, and of what came in the walk, by the node's number."""
        norms = self._gradient_norms()
        arrays: dict[int, Any] = {}
        for entry in self.entries:
            leaf = entry.kind == "leaf"
            if leaf:
                array = _array(entry.record.variable)
            else:
                tensor = self.held.get(entry.number)
                array = None if tensor is None else _held_array(tensor)
            if array is not None:
                arrays[entry.number] = array
            if leaf and entry.record.variable.grad is not None:
                gradient = _array(entry.record.variable.grad)
                if gradient is not None:
                    norms[entry.number] = describe(gradient)[COLUMNS.index("norm")]
        rows = dict(zip(arrays, describe_all(list(arrays.values())), strict=True))
        for entry in self.entries:
            behind = None if entry.value is None else entry.value.number  # of a composite
            if behind in rows:
                rows[entry.number] = rows[behind]
            if behind is not None and entry.number in norms:
                norms.setdefault(behind, norms[entry.number])
        numbers = sorted(rows.keys() | norms.keys())
        nothing = (None,) * len(COLUMNS)
        parts = zip(*[rows.get(number, nothing) for number in numbers], strict=True)
        columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
        columns |= {name: list(column) for name, column in zip(COLUMNS, parts, strict=False)}
        gradients = [norms.get(number) for number in numbers]
        return {"node": numbers, **columns, "gradient": gradients}

    def _gradient_norms(self) -> dict[int, float | str | None]:
        """The norms of what came to the records in the walk, by the entry's number."""
        number_of = {id(entry.record): entry.number for entry in self.entries}
        norms: dict[int, float | str | None] = {}
        for records, tensor, axis in self.cotangents:
            members = records if isinstance(records, list) else [records]
            for record, norm in zip(members, _norms(members, tensor, axis), strict=False):
                if id(record) in number_of:
                    norms[number_of[id(record)]] = norm
        self.cotangents.clear()
        return norms


def computable_ids() -> set[int]:
    """The identities of the nodes that the next run can compute. Where so much is recorded that some of it runs early,
    what nobody wanted stays behind, and the values that it was to be computed from are gone: it is not to be held."""
    found: set[int] = set()
    for node in tape().pending():
        if all(id(source) in found or _is_there(source) for source in node.inputs or ()):
            found.add(id(node))
    return found


def _is_there(source: Node) -> bool:
    return source.op is SCALAR_OP or (source.state == DONE and source.buffer is not None)


def _norms(members: list[Node], tensor: Tensor, axis: int) -> list[float | str | None]:
    """The norm of each member's part of a cotangent; none where it cannot be read."""
    try:
        if axis == 0:
            return norms_of(tensor, len(members))
        heights = [member.shape[axis - 1] for member in members]
        return [norm for part in tensor.split(heights, axis - 1) for norm in norms_of(part, 1)]
    except (RuntimeError, ValueError):  # its error is its own reader's
        return []


def merge_entries(found: dict[int, Entry]) -> list[Entry]:
    """Let entries of several collections refer to the ones that were kept, and number them in one order."""

    def kept(part: object) -> Any:
        return found[id(part.record)] if isinstance(part, Entry) else part

    for entry in found.values():
        entry.operands = [kept(part) for part in entry.operands]
        entry.edges = [kept(part) for part in entry.edges]
        entry.value = kept(entry.value)
    ordered = sorted(found.values(), key=lambda entry: (_sequence(entry), entry.number))
    for number, entry in enumerate(ordered):
        entry.number = number
    return ordered


def _sequence(entry: Entry) -> int:
    return 0 if entry.kind == "leaf" else entry.record.seq


def _array(tensor: Tensor) -> Any:
    """A tensor's elements; None for one that cannot be read, whose error is its own reader's."""
    if tensor.is_meta or tensor.is_sparse:
        return None
    try:
        return array_of(tensor)
    except RuntimeError:
        return None


def _held_array(tensor: Tensor) -> Any:
    """The elements of a value that the look holds."""
    node = value_of(tensor)
    if node.state == DONE and node.numel <= FEW_ELEMENTS and node.dtype.numpy is not None:
        array = array_over(node).reshape(-1)
        return np.abs(array) if array.dtype.kind == "c" else array
    return _array(tensor)


def columns_of(entries: list[Entry], names: dict[int, str], sources: SourceFiles) -> dict[str, Any]:
    """Records and arrows as columns; what repeats stands in tables."""
    operations, types, lines, texts = Table(), Table(), Lines(sources), Table()
    stacks = Table()
    nodes: dict[str, list[int]] = {
        key: [] for key in ("kind", "op", "type", "line", "text", "stack")
    }
    starts, ends, gradient_only = [], [], []
    for entry in entries:
        record = entry.record
        name = entry.operation
        if entry.kind == "leaf":
            name = names.get(id(record.variable), name)
        nodes["kind"].append(KINDS.index(_kind(entry)))
        nodes["op"].append(operations.number(name))
        nodes["type"].append(types.number(entry.type))
        nodes["line"].append(lines.number_of(record))
        nodes["text"].append(texts.number(_text(entry)[:MOST_LETTERS]))
        stacks_of = isinstance(record, Node) and record.quotient is not None
        nodes["stack"].append(stacks.number(id(record.quotient)) if stacks_of else -1)
        values = [part for part in (*entry.operands, entry.value) if isinstance(part, Entry)]
        only = [part for part in entry.edges if isinstance(part, Entry) and part not in values]
        for part in dict.fromkeys((*values, *only)):
            starts.append(part.number)
            ends.append(entry.number)
            gradient_only.append(int(part not in values))
    return {
        "records": len(entries),
        "counted": False,
        "kinds": KINDS,
        "operations": operations.listed(),
        "types": types.listed(),
        "lines": lines.listed(),
        "texts": texts.listed(),
        "nodes": nodes,
        "edges": {"from": starts, "to": ends, "gradient": gradient_only},
        "stacks": len(stacks.rows),
        "scopes": [],
        "values": {},
    }


KINDS = ["leaf", "value", "operation", "view", "function"]


def _kind(entry: Entry) -> str:
    if entry.kind == "operation" and entry.record.op.strides is not None:
        return "view"
    return entry.kind


def _text(entry: Entry) -> str:
    """The parameters and the numbers among the operands."""
    numbers = [
        repr(part) for part in entry.operands if part is not None and not isinstance(part, Entry)
    ]
    return " ".join(filter(None, (entry.params, ", ".join(numbers))))


class Lines:
    """The user's lines: number of the file, line, function."""

    def __init__(self, sources: SourceFiles) -> None:
        self.sources = sources
        self.table = Table()
        self._known: dict[tuple[Any, int], int] = {}

    def number_of(self, record: Node) -> int:
        """The number of a record's line; -1 without one."""
        code = getattr(record, "code", None)
        if code is None or (isinstance(record, Node) and record.op is VALUE_OP):
            return -1
        place = (code, record.offset_in_code)
        if place not in self._known:
            row = (self.sources.number_of(code), line_number(*place), code.co_name)
            self._known[place] = self.table.number(row)
        return self._known[place]

    def listed(self) -> list[Any]:
        """The lines by number."""
        return [list(row) for row in self.table.listed()]


def count_records(pending: list[Node], sources: SourceFiles) -> dict[str, Any]:
    """The graph of too many records: those of one operation, type and line are one entry with their number."""
    groups, lines = Table(), Lines(sources)
    sizes: list[int] = []
    arrows = Table()
    number_of: dict[Node, int] = {}
    for node in pending:
        if node.op is SCALAR_OP:
            continue
        row = (node.op.name, f"{node.dtype.name}{list(node.shape)}", lines.number_of(node))
        group = number_of[node] = groups.number(row)
        if group == len(sizes):
            sizes.append(0)
        sizes[group] += 1
        for source in node.inputs or ():
            if source in number_of:
                arrows.number((number_of[source], group))
    rows = groups.listed()
    operations, types = Table(), Table()
    names = [operations.number(row[0]) for row in rows]
    kinds_of_value = [types.number(row[1]) for row in rows]
    inner = [arrow for arrow in arrows.listed() if arrow[0] != arrow[1]]
    count = len(rows)
    return {
        "records": len(pending),
        "counted": True,
        "kinds": KINDS,
        "operations": operations.listed(),
        "types": types.listed(),
        "lines": lines.listed(),
        "texts": [""],
        "nodes": {
            "kind": [KINDS.index("operation")] * count,
            "op": names,
            "type": kinds_of_value,
            "line": [row[2] for row in rows],
            "text": [0] * count,
            "stack": list(range(count)),
            "scope": [-1] * count,
            "size": sizes,
        },
        "edges": {
            "from": [start for start, _ in inner],
            "to": [end for _, end in inner],
            "gradient": [0] * len(inner),
        },
        "stacks": count,
        "scopes": [],
        "values": {},
    }


def layer_norms(document: Document) -> dict[str, float | str | None]:
    """The norm of what each module gave, over its calls in a step: of the last record of each call."""
    norms = dict(
        zip(document["values"].get("node", ()), document["values"].get("norm", ()), strict=True)
    )
    last: dict[int, int] = {}
    for node, scope in enumerate(document["nodes"]["scope"]):
        if scope >= 0 and node in norms:
            last[scope] = node
    squares: dict[str, float] = {}
    for scope, node in last.items():
        name, norm = document["scopes"][scope]["name"], norms[node]
        squares[name] = squares.get(name, 0.0) + (float("nan") if norm is None else norm**2)
    return {name: rounded(total**0.5) for name, total in squares.items()}
