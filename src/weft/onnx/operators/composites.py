"""Operations that are one record: macros, and those with a derivative of their own that ONNX has as one, or that read
better so. The others are exported as what computes them."""

from __future__ import annotations

import math

from weft.onnx.graph import OnnxGraph, UnknownSize
from weft.onnx.operators.elementwise import extremum, gated
from weft.onnx.operators.structure import count
from weft.onnx.operators.table import RecordedOperation, rule
from weft.onnx.sizes import Varied

# -- macros --------------------------------------------------------------------------------------------------------


def _gate(graph: OnnxGraph, gates: str, op: RecordedOperation, number: int) -> str:
    width = op.shape[-1]
    assert isinstance(width, int)
    return graph.slice(gates, op.rank - 1, number * width, (number + 1) * width)


@rule("lstm_memory")
def _memory(graph: OnnxGraph, op: RecordedOperation) -> str:
    gates, memory = op.inputs
    written, kept, new = (_gate(graph, gates, op, number) for number in range(3))
    added = gated(graph, written, graph.call("Tanh", new))
    return graph.call("Add", gated(graph, kept, memory), added)


@rule("lstm_output")
def _output(graph: OnnxGraph, op: RecordedOperation) -> str:
    gates, memory = op.inputs
    return gated(graph, _gate(graph, gates, op, 3), graph.call("Tanh", memory))


@rule("gru")
def _gru(graph: OnnxGraph, op: RecordedOperation) -> str:
    of_input, of_hidden, hidden = op.inputs
    inputs = [_gate(graph, of_input, op, number) for number in range(3)]
    states = [_gate(graph, of_hidden, op, number) for number in range(3)]
    reset, update = (graph.call("Add", a, b) for a, b in zip(inputs[:2], states[:2], strict=True))
    new = graph.call("Tanh", graph.call("Add", inputs[2], gated(graph, reset, states[2])))
    return graph.call("Add", gated(graph, update, graph.call("Sub", hidden, new)), new)


@rule("logsumexp")
def _logsumexp(graph: OnnxGraph, op: RecordedOperation) -> str:
    axes = [axis % op.rank for axis in op.params]
    return graph.reduce("ReduceLogSumExp", op.inputs[0], axes, True)


@rule("cross_entropy")
def _cross_entropy(graph: OnnxGraph, op: RecordedOperation) -> str:
    axis = op.rank + op.params[0]
    logs = graph.call("LogSoftmax", op.inputs[0], axis=axis)
    places = graph.call("Unsqueeze", op.inputs[1], graph.integers([op.params[0]]))
    found = graph.call("GatherElements", logs, places, axis=axis)
    return graph.call("Neg", graph.call("Squeeze", found, graph.integers([axis])))


# -- recorded as one (`weft.ops.any_size`) ---------------------------------------------------------------------------

_GATES = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2)}  # ONNX has them in another order


@rule("recurrent_layer")
def _recurrent_layer(graph: OnnxGraph, op: RecordedOperation) -> str:
    """One layer in one direction: its outputs, or one of its final states."""
    mode, backwards, result = op.params
    kind = mode.partition("_")[0]
    states = 2 if kind == "LSTM" else 1

    x, *rest = op.inputs
    first = graph.integers([0])
    start = [graph.call("Unsqueeze", state, first) for state in rest[:states]]
    weights = [_in_order(graph, weight, op, _GATES.get(kind)) for weight in rest[states:]]
    biases = weights[2:] and [graph.call("Concat", *weights[2:], axis=0)]
    parts = [graph.call("Unsqueeze", part, first) for part in (*weights[:2], *biases)]
    facts: dict[str, int | str | list[str]] = {"hidden_size": _width(op)}
    facts["direction"] = "reverse" if backwards else "forward"
    if kind == "GRU":
        facts["linear_before_reset"] = 1
    elif kind == "RNN":
        facts["activations"] = ["Relu" if mode == "RNN_RELU" else "Tanh"]
    operands = [x, *parts, *[""] * (3 - len(parts)), "", *start]
    outputs = graph.call_several(kind, operands, 1 + states, **facts)
    return graph.call("Squeeze", outputs[result], first if result else graph.integers([1]))


def _width(op: RecordedOperation) -> int:
    width = op.shape[-1]
    assert isinstance(width, int)
    return width


def _in_order(
    graph: OnnxGraph, weight: str, op: RecordedOperation, order: tuple[int, ...] | None
) -> str:
    """The rows of a weight or bias by gates, in ONNX's order."""
    if order is None:
        return weight
    width = _width(op)
    rows = [gate * width + row for gate in order for row in range(width)]
    return graph.call("Gather", weight, graph.integers(rows), axis=0)


@rule("max_pool", "max_pool_places")
def _max_pool(graph: OnnxGraph, op: RecordedOperation) -> str:
    """The maxima over windows, or their places in each plane: ONNX counts them in the whole tensor."""
    kernel, stride, padding, dilation, ceil_mode = op.params
    if any(isinstance(size, Varied) for size in (*kernel, *stride, *padding, *dilation)):
        raise UnknownSize("a window that is another one by call")
    values, places = graph.call_several(
        "MaxPool",
        op.inputs,
        2,
        kernel_shape=kernel,
        strides=stride,
        pads=[*padding, *padding],
        dilations=dilation,
        ceil_mode=int(ceil_mode),
    )
    for axis in range(len(kernel)):
        room = 2 * padding[axis] - dilation[axis] * (kernel[axis] - 1) - 1
        edge = padding[axis] - 1 if ceil_mode else None
        sizes = op.shape[2 + axis], op.shapes[0][2 + axis]
        graph.know_windows(*sizes, room, stride[axis], edge)
    if op.name == "max_pool":
        return values
    plane = graph.scalar_size(count(op.shapes[0][2:]))
    return graph.call("Mod", places, plane)


# -- functions with a derivative of their own ------------------------------------------------------------------------


@rule("softmax", "log_softmax")
def _softmax(graph: OnnxGraph, op: RecordedOperation) -> str:
    kind = "Softmax" if op.name == "softmax" else "LogSoftmax"
    return graph.call(kind, op.inputs[0], axis=op.params[0])


@rule("picked_log_softmax")
def _picked(graph: OnnxGraph, op: RecordedOperation) -> str:
    logs = graph.call("LogSoftmax", op.inputs[0], axis=op.params[0])
    return graph.call("GatherElements", logs, op.inputs[1], axis=op.params[0])


@rule("norm")
def _norm(graph: OnnxGraph, op: RecordedOperation) -> str:
    return graph.reduce("ReduceL2", op.inputs[0], op.params[0], True)


@rule("mean")
def _mean(graph: OnnxGraph, op: RecordedOperation) -> str:
    return graph.reduce("ReduceMean", op.inputs[0], *op.params)


@rule("standardize")
def _standardize(graph: OnnxGraph, op: RecordedOperation) -> str:
    axes, eps = op.params
    x = op.inputs[0]
    centred = graph.call("Sub", x, graph.reduce("ReduceMean", x, axes, True))
    variance = graph.reduce("ReduceMean", graph.call("Mul", centred, centred), axes, True)
    deviation = graph.call("Sqrt", graph.call("Add", variance, graph.number(eps, op.dtype)))
    return graph.call("Div", centred, deviation)


@rule("clamp")
def _clamp(graph: OnnxGraph, op: RecordedOperation) -> str:
    low, high = (graph.number(value, op.dtype) for value in op.params)
    return _between(graph, op.dtype, op.inputs[0], low, high)


@rule("clamp_between")
def _clamp_between(graph: OnnxGraph, op: RecordedOperation) -> str:
    return _between(graph, op.dtype, *op.inputs)


def _between(graph: OnnxGraph, dtype: str, x: str, low: str, high: str) -> str:
    return extremum(graph, dtype, "Min", extremum(graph, dtype, "Max", x, low), high)


@rule("max", "min", "max_all", "min_all")
def _extremum(graph: OnnxGraph, op: RecordedOperation) -> str:
    kind = "ReduceMax" if op.name.startswith("max") else "ReduceMin"
    return graph.reduce(kind, op.inputs[0], *op.params)


@rule("gelu")
def _gelu(graph: OnnxGraph, op: RecordedOperation) -> str:
    x, dtype = op.inputs[0], op.dtype
    if graph.opset >= 20:
        return graph.call("Gelu", x, approximate=op.params)
    if op.params == "none":
        curve = graph.call("Erf", graph.call("Mul", x, graph.number(math.sqrt(0.5), dtype)))
    else:
        cube = graph.call(
            "Mul", graph.call("Mul", graph.call("Mul", x, x), x), graph.number(0.044715, dtype)
        )
        scaled = graph.call(
            "Mul", graph.call("Add", x, cube), graph.number(math.sqrt(2 / math.pi), dtype)
        )
        curve = graph.call("Tanh", scaled)
    half = graph.call("Mul", x, graph.number(0.5, dtype))
    return graph.call("Mul", half, graph.call("Add", curve, graph.number(1, dtype)))


def _is_padded(params: object) -> bool:
    """True if nothing is cut off: pads of a Conv are not negative."""
    assert isinstance(params, tuple)
    return all(width >= 0 for pair in params[1] for width in pair)


@rule("convolution", "convolution_bias", fits=_is_padded)
def _convolution(graph: OnnxGraph, op: RecordedOperation) -> str:
    stride, padding, dilation, groups = op.params
    _know_positions(graph, op)
    return graph.call(
        "Conv",
        *op.inputs,
        strides=list(stride),
        pads=[before for before, _ in padding] + [after for _, after in padding],
        dilations=list(dilation),
        group=groups,
    )


def _know_positions(graph: OnnxGraph, op: RecordedOperation) -> None:
    """The sizes of the result that depend on those of the images."""
    stride, padding, dilation, _ = op.params
    for number, (before, after) in enumerate(padding):
        kernel = op.shapes[1][2 + number]
        if isinstance(kernel, int):
            room = before + after - dilation[number] * (kernel - 1) - 1
            sizes = op.shape[2 + number], op.shapes[0][2 + number]
            graph.know_windows(*sizes, room, stride[number])
