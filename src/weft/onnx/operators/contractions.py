"""Matrix products, attention, resampling."""

from __future__ import annotations

import math

from weft.onnx.graph import OnnxGraph
from weft.onnx.operators.table import RecordedOperation, rule
from weft.onnx.sizes import Size


@rule("matmul")
def _matmul(graph: OnnxGraph, op: RecordedOperation) -> str:
    return graph.call("MatMul", *op.inputs)


@rule("linear", "linear_bias")
def _linear(graph: OnnxGraph, op: RecordedOperation) -> str:
    """x @ weight.T + bias; of rows one Gemm."""
    x, weight, *bias = op.inputs
    if op.rank == 2 and op.dtype in ("float32", "float64", "float16"):
        return graph.call("Gemm", x, weight, *bias, transB=1)
    found = graph.call("MatMul", x, graph.transpose(weight, [1, 0]))
    return graph.call("Add", found, bias[0]) if bias else found


# -- attention -----------------------------------------------------------------------------------------------------


def _shared(graph: OnnxGraph, x: str, have: int, heads: int) -> str:
    """Heads of keys or values repeated for the query heads that share them."""
    if have == heads:
        return x
    index = graph.integers([head * have // heads for head in range(heads)])
    return graph.call("Gather", x, index, axis=1)


def attended(graph: OnnxGraph, op: RecordedOperation, masked: bool) -> tuple[str, str, str]:
    """The result (B, H, L, V), the largest scores and the sums of powers."""
    query, key, value = op.inputs[:3]
    scale, causal, _ = op.params
    heads, have = op.shapes[0][1], op.shapes[1][1]
    assert isinstance(heads, int)
    assert isinstance(have, int)
    key, value = (_shared(graph, x, have, heads) for x in (key, value))
    scores = graph.call("MatMul", query, graph.transpose(key, [0, 1, 3, 2]))
    scores = graph.call("Mul", scores, graph.number(scale, op.dtype))
    if masked:
        scores = graph.call("Add", scores, op.inputs[3])
    if causal:
        rows: Size = op.shapes[0][2]
        column = graph.call("Unsqueeze", graph.range(rows), graph.integers([1]))
        seen = graph.call("LessOrEqual", graph.range(op.shapes[1][2]), column)
        scores = graph.call("Where", seen, scores, graph.number(-math.inf, op.dtype))
    top = graph.reduce("ReduceMax", scores, [3], True)
    nothing = graph.call("Equal", top, graph.number(-math.inf, op.dtype))
    top = graph.call("Where", nothing, graph.number(0, op.dtype), top)
    powers = graph.call("Exp", graph.call("Sub", scores, top))
    total = graph.reduce("ReduceSum", powers, [3], True)
    none = graph.call("Equal", total, graph.number(0, op.dtype))
    total = graph.call("Where", none, graph.number(1, op.dtype), total)
    return graph.call("MatMul", graph.call("Div", powers, total), value), top, total


@rule("attention", "attention_masked")
def _attention(graph: OnnxGraph, op: RecordedOperation) -> str:
    return attended(graph, op, op.name == "attention_masked")[0]


@rule("attention_forward", "attention_masked_forward")
def _packed_attention(graph: OnnxGraph, op: RecordedOperation) -> str:
    """The result in its order in memory and the statistics, one behind the other."""
    result, top, total = attended(graph, op, "masked" in op.name)
    stats = graph.call("Concat", top, graph.call("Reciprocal", total), axis=3)
    ends = graph.integers([1, 1, 1, -1])
    parts = [graph.call("Reshape", x, ends) for x in (graph.transpose(result, op.params[2]), stats)]
    return graph.call("Concat", *parts, axis=3)


# -- resampling ----------------------------------------------------------------------------------------------------


@rule("resample")
def _resample(graph: OnnxGraph, op: RecordedOperation) -> str:
    """Sums of weighted elements: those that each tap reads, along a dimension of their own."""
    x, index, weights = op.inputs
    axis, size = op.params
    index, inside = _within(graph, index, size)
    weights = graph.call("Where", inside, weights, graph.number(0, op.dtype))
    behind = op.rank - 1 - axis
    if behind:
        ends = graph.integers(range(2, 2 + behind))
        weights, inside = (graph.call("Unsqueeze", value, ends) for value in (weights, inside))
    read = graph.call("Gather", x, index, axis=axis)  # (..., taps, places, ...)
    read = graph.call("Where", inside, read, graph.number(0, op.dtype))
    return graph.reduce("ReduceSum", graph.call("Mul", read, weights), [axis], False)


def _within(graph: OnnxGraph, index: str, size: Size) -> tuple[str, str]:
    """The index, 0 where it points outside, and where it does not."""
    zero = graph.number(0, "int64")
    low = graph.call("GreaterOrEqual", index, zero)
    inside = graph.call("And", low, graph.call("Less", index, graph.scalar_size(size)))
    return graph.call("Where", inside, index, zero), inside
