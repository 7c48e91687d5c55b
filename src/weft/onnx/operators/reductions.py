"""Reductions, running sums and products, and places in an order."""

from __future__ import annotations

from weft.onnx.graph import NARROW, OnnxGraph
from weft.onnx.operators.elementwise import is_float
from weft.onnx.operators.table import RecordedOperation, rule
from weft.onnx.sizes import Size

_KINDS = {"sum": "ReduceSum", "prod": "ReduceProd", "amax": "ReduceMax", "amin": "ReduceMin"}


def widened(graph: OnnxGraph, x: str, dtype: str) -> str:
    """In a type that reductions take."""
    return graph.cast(x, "int32") if dtype == "bool" or dtype in NARROW else x


@rule(*_KINDS)
def _reduce(graph: OnnxGraph, op: RecordedOperation) -> str:
    axes, keep = op.params
    (x,), (dtype,) = op.inputs, op.dtypes
    if dtype != op.dtype:  # a sum may be one of another type
        x = graph.cast(x, op.dtype)
    wide = widened(graph, x, op.dtype)
    found = graph.reduce(_KINDS[op.name], wide, axes, keep)
    if op.name in ("amax", "amin") and is_float(op.dtype):  # a nan is the largest and the least
        strange = graph.cast(graph.call("IsNaN", x), "int32")
        any_strange = graph.cast(graph.reduce("ReduceMax", strange, axes, keep), "bool")
        found = graph.call("Where", any_strange, graph.number(float("nan"), op.dtype), found)
    return found if wide == x else graph.cast(found, op.dtype)


@rule("any", "all")
def _truth(graph: OnnxGraph, op: RecordedOperation) -> str:
    axes, keep = op.params
    kind = "ReduceMax" if op.name == "any" else "ReduceMin"
    return graph.cast(graph.reduce(kind, graph.cast(op.inputs[0], "int32"), axes, keep), "bool")


@rule("argmax", "argmin")
def _place(graph: OnnxGraph, op: RecordedOperation) -> str:
    """Of several axes the place among all of their elements: they become one, the last."""
    axes, keep = op.params
    x = widened(graph, op.inputs[0], op.dtypes[0])
    kind = "ArgMax" if op.name == "argmax" else "ArgMin"
    if len(axes) == 1:
        return graph.call(kind, x, axis=axes[0], keepdims=int(keep))
    rest = [axis for axis in range(op.rank) if axis not in axes]
    x = graph.transpose(x, [*rest, *axes])
    if len(rest) == 0:
        x = graph.call("Reshape", x, graph.integers([-1]))
    else:
        x = graph.call("Reshape", x, graph.sizes([*[op.shapes[0][axis] for axis in rest], -1]))
    found = graph.call(kind, x, axis=len(rest), keepdims=0)
    return graph.reshape(found, op.shape) if keep else found


# -- along an axis -------------------------------------------------------------------------------------------------


@rule("cumsum")
def _running_sum(graph: OnnxGraph, op: RecordedOperation) -> str:
    x, dtype = op.inputs[0], op.dtype
    wide = widened(graph, x, dtype)
    found = graph.call("CumSum", wide, graph.number(op.params[0], "int64"))
    return found if wide == x else graph.cast(found, dtype)


@rule("cumprod")
def _running_product(graph: OnnxGraph, op: RecordedOperation) -> str:
    """The product of each row of a triangle, which has ones above."""
    before = _prefixes(graph, op, graph.number(1, op.dtype))
    found = graph.reduce("ReduceProd", before, [op.rank], False)
    return _from_last(graph, found, op.params[0], op.rank)


def _prefixes(graph: OnnxGraph, op: RecordedOperation, rest: str) -> str:
    """The elements up to each one along the axis: (..., n, n), `rest` above the diagonal."""
    axis = op.params[0]
    order = [a for a in range(op.rank) if a != axis] + [axis]
    line = graph.transpose(op.inputs[0], order)
    size: Size = op.shapes[0][axis]
    column = graph.call("Unsqueeze", graph.range(size), graph.integers([1]))
    seen = graph.call("LessOrEqual", graph.range(size), column)
    return graph.call(
        "Where", seen, graph.call("Unsqueeze", line, graph.integers([op.rank - 1])), rest
    )


def _from_last(graph: OnnxGraph, x: str, axis: int, rank: int) -> str:
    """The last dimension goes to where the axis was."""
    return graph.transpose(x, [*range(axis), rank - 1, *range(axis, rank - 1)])


@rule("running_place")
def _running_place(graph: OnnxGraph, op: RecordedOperation) -> str:
    """The last place of the extremum among what stands before each element."""
    axis, smallest = op.params
    if not is_float(op.dtypes[0]):
        wide = graph.cast(op.inputs[0], "float64")
        op = RecordedOperation(
            op.name, [wide], ["float64"], op.shapes, op.params, op.dtype, op.shape
        )
    far = graph.number(float("inf") if smallest else -float("inf"), op.dtypes[0])
    before = _prefixes(graph, op, far)
    kind = "ArgMin" if smallest else "ArgMax"
    found = graph.call(kind, before, axis=op.rank, keepdims=0, select_last_index=1)
    return _from_last(graph, found, axis, op.rank)


@rule("nth_place")
def _nth_place(graph: OnnxGraph, op: RecordedOperation) -> str:
    """One place of a stable sort; where nan counts otherwise, its number is computed."""
    axis, number, nan, first = op.params
    x, size = widened(graph, op.inputs[0], op.dtypes[0]), graph.size(op.shapes[0][axis])
    places = graph.call_several("TopK", [x, size], 2, axis=axis, largest=0, sorted=1)[1]
    if nan and is_float(op.dtypes[0]):
        index = _number_beside_nan(graph, x, axis, number, nan)
        place = graph.call("GatherElements", places, index, axis=axis)
    else:
        place = graph.call("Gather", places, graph.integers([number]), axis=axis)
    if not first:
        return place
    same = graph.call("Equal", x, graph.call("GatherElements", x, place, axis=axis))
    return graph.call("ArgMax", graph.cast(same, "int32"), axis=axis, keepdims=1)


def _number_beside_nan(graph: OnnxGraph, x: str, axis: int, number: int, nan: int) -> str:
    """The number of the first nan where there is one (1), or of the lower median of the others (2)."""
    is_nan = graph.cast(graph.call("IsNaN", x), "int64")
    count = graph.reduce("ReduceSum", is_nan, [axis], True)
    one = graph.call("Sub", graph.number(1, "int64"), is_nan)
    others = graph.reduce("ReduceSum", one, [axis], True)
    if nan == 1:
        none = graph.call("Equal", count, graph.number(0, "int64"))
        return graph.call("Where", none, graph.number(number, "int64"), others)
    before = graph.call("Sub", others, graph.number(1, "int64"))
    least = graph.call("Max", before, graph.number(0, "int64"))
    return graph.call("Div", least, graph.number(2, "int64"))


@rule("order")
def _order(graph: OnnxGraph, op: RecordedOperation) -> str:
    """The first places of a stable sort."""
    axis, kept, descending = op.params
    x = widened(graph, op.inputs[0], op.dtypes[0])
    results = graph.call_several(
        "TopK", [x, graph.size(kept)], 2, axis=axis, largest=int(descending), sorted=1
    )
    return results[1]
