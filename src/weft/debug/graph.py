"""The recorded graph of a tensor as entries and as text.

It gives the tensor's records, oldest first: what each operation read, what it made, the target of its cotangent, and
the user's line. Values and gradients are two relations on the same record, and both are followed; an executed
operation has released the values that it read, so that only its gradient relation may be left.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from weft.engine.frontend.resolve import edge_for, value_of
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir.grad_edges import AccumulateGrad, OutputEdge
from weft.engine.ir.node import Node
from weft.engine.ir.primitive import SCALAR_OP, VALUE_OP
from weft.errors import ExecutionError, describe_position

DONE = 1
MOST_RECORDS = 250_000  # of a graph that is taken apart record by record: some seconds


def too_large() -> ExecutionError:
    """The error for a graph of more records than can be taken apart in a time that one would wait."""
    return ExecutionError(
        "weft.debug: the graph is too large to be taken apart record by record",
        expected=f"at most {MOST_RECORDS:,} records",
        got="more",
        fix="ask about a tensor nearer to the leaves; weft.board counts the equal operations of each line",
    )


@dataclass(eq=False)
class Entry:
    """One record: `kind` is leaf, value, operation or function; operands and gradients are other entries, numbers, or
    None for an input without a gradient.

    Args:
        record: what was recorded: a node, or an edge to a leaf.
        kind: leaf, value, operation or function.
        operation: its name.
        dtype: the dtype of what it made.
        shape: the shape of what it made; None: it is not known.
        gradient: where its cotangent goes, in words.
        where: the line that recorded it.
        state: whether it has run.
        number: its place in the text of the graph, from 0; -1: it has none yet.
        params: its parameters, as text.
        value: of a composite, the entry of the value that its record stands behind; None of others.
        operands: what it read.
        edges: what its cotangents go to.
    """

    record: Any
    kind: str
    operation: str
    dtype: str = ""
    shape: tuple[int, ...] | None = None
    gradient: str = ""
    where: str = ""
    state: str = ""
    number: int = -1
    params: str = ""
    value: Any = None  # of a composite: the entry of the value that its record stands behind
    operands: list[Any] = field(default_factory=list)
    edges: list[Any] = field(default_factory=list)

    @property
    def type(self) -> str:
        """`float32[2, 3]`, empty for records of unknown shape."""
        return f"{self.dtype}{list(self.shape)}" if self.shape is not None else ""

    def sources(self) -> list[Entry]:
        """The entries that this one refers to, each once, operands first."""
        found = dict.fromkeys(
            part for part in (*self.operands, *self.edges, self.value) if isinstance(part, Entry)
        )
        return list(found)


def collect_graph(tensor: Tensor, names: Mapping[str, Tensor] | None = None) -> list[Entry]:
    """The records that a tensor was computed from, oldest first, leaves before their first use. `names` gives leaves
    names, for example `dict(model.named_parameters())`.

    Args:
        tensor: the tensor.
        names: leaves by name; None: leaves have no names.

    Errors: ExecutionError (a RuntimeError) for a graph of more than 250,000 records.

    Example:
        >>> import weft
        >>> x = weft.tensor([1.0, -2.0])
        >>> len(weft.debug.collect_graph((x * 2).relu()))  # x, the product, relu
        3
    """
    labels = {id(part): name for name, part in (names or {}).items()}
    edge = edge_for(tensor)
    roots = [value_of(tensor)] if edge is None or isinstance(edge, Node) else []
    entries: dict[int, Entry] = {}
    places: dict[tuple[int, int], str] = {}
    stack = [record for record in (*roots, _record_of(edge)) if record is not None]
    if tensor.is_leaf and isinstance(edge, AccumulateGrad):
        stack = [edge]
    pairs: dict[int, list[tuple[Any, Any]]] = {}
    while stack:
        record = stack.pop()
        if id(record) in entries:
            continue
        if len(entries) >= MOST_RECORDS:
            raise too_large()
        entries[id(record)] = _entry_of(record, labels, places)
        found = pairs[id(record)] = list(_pairs(record))
        stack.extend(_neighbours(record, found))
    for number, entry in entries.items():
        _connect(entry, pairs[number], entries)
    return _ordered(entries)


def _record_of(edge: object) -> Any:
    return edge.function if isinstance(edge, OutputEdge) else edge


def _is_plain(node: Node) -> bool:
    return node.op is VALUE_OP or node.op is SCALAR_OP


def _pairs(record: Any) -> Iterator[tuple[Any, Any]]:
    """(value or None, gradient record or None) per operand."""
    values = record.inputs if isinstance(record, Node) else None
    edges = record.edges or ()
    count = max(len(values or ()), len(edges))
    for index in range(count):
        value = values[index] if values and index < len(values) else None
        edge = _record_of(edges[index]) if index < len(edges) else None
        if (
            isinstance(edge, AccumulateGrad)
            and value is not None
            and _is_value_of(edge.variable, value)
        ):
            value = None  # the leaf stands for its value
        elif isinstance(edge, Node) and value is not None and _is_region_of(value, edge):
            value = None  # the view's record stands for its region
        yield value, edge


def _is_value_of(leaf: Tensor, node: Node) -> bool:
    """True if a node is the value of a leaf, or an earlier value of it that has been computed."""
    return node.op is VALUE_OP or (not leaf.view_chain and value_of(leaf) is node)


def _is_region_of(value: Any, view: Any) -> bool:
    """True if a strided region is the value that a view's gradient record stands for."""
    if value.op.name != "strided" or view.inputs is not None or view.shape != value.shape:
        return False
    source = view
    while isinstance(source, Node) and source.inputs is None and source.op.strides is not None:
        source = _record_of(source.edges[0]) if source.edges else None
    if value.inputs is None:
        return True
    whole = value.inputs[0]
    if isinstance(source, AccumulateGrad):
        return _is_value_of(source.variable, whole)
    return source is whole or (isinstance(source, Node) and source.result is whole)


def _neighbours(record: Node, pairs: list[tuple[Any, Any]]) -> list[Any]:
    found = [part for pair in pairs for part in pair if part is not None]
    if isinstance(record, Node) and record.result is not None:
        found.append(record.result)
    return [part for part in found if not (isinstance(part, Node) and part.op is SCALAR_OP)]


def _place_of(record: Node, places: dict[tuple[int, int], str]) -> str:
    """The line of a record; `places` has those that were asked for."""
    key = (id(record.code), record.offset_in_code)
    place = places.get(key)
    if place is None:
        place = places[key] = describe_position(record.code, record.offset_in_code)
    return place


def _entry_of(record: Node, labels: dict[int, str], places: dict[tuple[int, int], str]) -> Entry:
    if isinstance(record, AccumulateGrad):
        leaf = record.variable
        name = labels.get(
            id(leaf), type(leaf).__name__.lower() if type(leaf) is not Tensor else "leaf"
        )
        return Entry(record, "leaf", name, leaf._dtype.name, leaf._shape)
    if not isinstance(record, Node):
        return Entry(record, "function", record.name(), gradient=record.name())
    kind = "value" if _is_plain(record) else "operation"
    name = repr(record.params) if record.op is SCALAR_OP else record.op.name
    where = "" if kind == "value" else _place_of(record, places)
    # A gradient-only record (of a view, a composite) has no value of its own that could be pending.
    state = (
        ""
        if record.state == DONE or record.inputs is None or record.result is not None
        else "pending"
    )
    params = "" if record.params is None or kind == "value" else repr(record.params)
    gradient = record.name() if record.edges is not None else ""
    return Entry(
        record, kind, name, record.dtype.name, record.shape, gradient, where, state, params=params
    )


def _connect(entry: Entry, pairs: list[tuple[Any, Any]], entries: dict[int, Entry]) -> None:
    """Turn the references of a record into references between entries."""
    record = entry.record
    if isinstance(record, AccumulateGrad):
        return
    if isinstance(record, Node) and record.result is not None:
        entry.value = entries[id(record.result)]
    for value, edge in pairs:
        below = None if edge is None else entries[id(edge)]
        if value is None:
            entry.operands.append(below)
        elif value.op is SCALAR_OP:
            entry.operands.append(value.params)
        else:
            entry.operands.append(entries[id(value)])
        if record.edges is not None:
            entry.edges.append(below)


def _ordered(entries: dict[int, Entry]) -> list[Entry]:
    first_use: dict[int, int] = {}
    for entry in entries.values():
        for source in entry.sources():
            if source.kind == "leaf":
                use = first_use.get(id(source), entry.record.seq)
                first_use[id(source)] = min(use, entry.record.seq)

    def place(entry: Entry) -> tuple[int, int]:
        return (first_use.get(id(entry), 0), 0) if entry.kind == "leaf" else (entry.record.seq, 1)

    ordered = sorted(entries.values(), key=place)
    for number, entry in enumerate(ordered):
        entry.number = number
    return ordered


# -- text ----------------------------------------------------------------------------------------------------------


def graph_text(tensor: Tensor, names: Mapping[str, Tensor] | None = None) -> str:
    """The recorded graph of a tensor, one line per record: number, operation and operands, type, the gradient's name,
    the user's line. Where cotangents go elsewhere than to the operands, the arrow says where. `-` is no operand left
    or no gradient.

    Args:
        tensor: the tensor.
        names: leaves by name; None: leaves have no names.

    Example:
        >>> import weft
        >>> x = weft.tensor([1.0, -2.0])
        >>> text = weft.debug.graph_text((x * 2).relu())
        >>> [line.split()[2] for line in text.splitlines()]
        ['value', 'mul(%0,', 'relu(%1)']
    """
    rows = [_columns(entry) for entry in collect_graph(tensor, names)]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return "\n".join(
        "  ".join(part.ljust(width) for part, width in zip(row, (*widths, 0), strict=True)).rstrip()
        for row in rows
    )


def _columns(entry: Entry) -> tuple[str, str, str, str]:
    call = entry.operation
    if entry.kind in ("operation", "function"):
        call += f"({', '.join(_name(part) for part in entry.operands)})"
    if entry.params:
        call += f" {entry.params}"
    if entry.value is not None:
        call += f" = %{entry.value.number}"
    kind = f": {entry.type}" + (f" {entry.state}" if entry.state else "") if entry.type else ""
    gradient = entry.gradient
    if entry.kind == "leaf":
        gradient = "accumulates"
    elif any(
        edge is not None and edge is not part
        for edge, part in zip(entry.edges, entry.operands, strict=False)
    ):
        gradient += f" -> {', '.join(_name(edge) for edge in entry.edges)}"
    return f"%{entry.number} = {call}", kind, gradient, entry.where


def _name(part: object) -> str:
    if isinstance(part, Entry):
        return f"%{part.number}"
    return "-" if part is None else repr(part)
