"""Elementwise rows. Integers of 8 and 16 bits are computed in int32, which operators take, and cut off again."""

from __future__ import annotations

import math
from collections.abc import Callable

from weft.onnx.graph import NARROW, OnnxGraph
from weft.onnx.operators.table import TABLE, RecordedOperation, rule

Formula = Callable[..., str]  # of a graph, a dtype and operands

SAME = {  # operators that mean what the row means
    "sub": "Sub",
    "neg": "Neg",
    "abs": "Abs",
    "reciprocal": "Reciprocal",
    "pow": "Pow",
    "exp": "Exp",
    "log": "Log",
    "sqrt": "Sqrt",
    "sin": "Sin",
    "cos": "Cos",
    "tan": "Tan",
    "asin": "Asin",
    "acos": "Acos",
    "atan": "Atan",
    "sinh": "Sinh",
    "cosh": "Cosh",
    "tanh": "Tanh",
    "asinh": "Asinh",
    "acosh": "Acosh",
    "atanh": "Atanh",
    "sigmoid": "Sigmoid",
    "erf": "Erf",
    "relu": "Relu",
}
COMPARED = {
    "eq": "Equal",
    "lt": "Less",
    "le": "LessOrEqual",
    "gt": "Greater",
    "ge": "GreaterOrEqual",
}
LOGICAL = {"logical_and": "And", "logical_or": "Or", "logical_xor": "Xor"}
BITWISE = {"bitwise_and": "And", "bitwise_or": "Or", "bitwise_xor": "Xor"}


def is_float(dtype: str) -> bool:
    return "float" in dtype


def computed(
    graph: OnnxGraph, dtype: str, formula: Formula, *operands: str, result: str = ""
) -> str:
    """A formula on operands of a dtype, in a type that operators take."""
    if dtype not in NARROW:
        return formula(graph, dtype, *operands)
    wide = [graph.cast(operand, "int32") for operand in operands]
    found = formula(graph, "int32", *wide)
    return found if result == "bool" else graph.cast(found, dtype)


def _define(name: str, formula: Formula, result: str = "") -> None:
    def made(graph: OnnxGraph, op: RecordedOperation) -> str:
        return computed(graph, op.dtypes[-1], formula, *op.inputs, result=result)

    TABLE[name] = made


def _node(kind: str) -> Formula:
    return lambda graph, dtype, *operands: graph.call(kind, *operands)


for _name, _kind in SAME.items():
    _define(_name, _node(_kind))
for _name, _kind in COMPARED.items():
    _define(_name, lambda g, dtype, x, y, kind=_kind: compared(g, dtype, kind, x, y), "bool")


def compared(graph: OnnxGraph, dtype: str, kind: str, x: str, y: str) -> str:
    """A comparison; that of truth values is one of integers."""
    if dtype == "bool" and kind != "Equal":
        x, y = graph.cast(x, "int32"), graph.cast(y, "int32")
    return graph.call(kind, x, y)


# -- arithmetic ----------------------------------------------------------------------------------------------------


def _of_truths(kind: str, of_truths: str) -> Formula:
    """An operator, and the one that truth values have instead."""
    return lambda g, dtype, *xs: g.call(of_truths if dtype == "bool" else kind, *xs)


def _power_of(count: int) -> Formula:
    def formula(graph: OnnxGraph, dtype: str, x: str) -> str:
        result = x
        for _ in range(count - 1):
            result = graph.call("Mul", result, x)
        return result

    return formula


def _floored(graph: OnnxGraph, dtype: str, x: str, y: str) -> str:
    """x // y, towards minus infinity."""
    quotient = graph.call("Div", x, y)
    if is_float(dtype):
        return graph.call("Floor", quotient)
    rest = graph.call("Sub", x, graph.call("Mul", quotient, y))
    zero = graph.number(0, dtype)
    uneven = graph.call("Not", graph.call("Equal", rest, zero))
    apart = graph.call("Xor", graph.call("Less", rest, zero), graph.call("Less", y, zero))
    return graph.call("Sub", quotient, graph.cast(graph.call("And", uneven, apart), dtype))


def _remainder(graph: OnnxGraph, dtype: str, x: str, y: str) -> str:
    """With the sign of y."""
    if not is_float(dtype):
        return graph.call("Mod", x, y)
    rest = graph.call("Mod", x, y, fmod=1)
    zero = graph.number(0, dtype)
    uneven = graph.call("Not", graph.call("Equal", rest, zero))
    apart = graph.call("Xor", graph.call("Less", rest, zero), graph.call("Less", y, zero))
    return graph.call("Where", graph.call("And", uneven, apart), graph.call("Add", rest, y), rest)


def _truncated(graph: OnnxGraph, dtype: str, x: str) -> str:
    if not is_float(dtype):
        return x
    return graph.call("Mul", graph.call("Sign", x), graph.call("Floor", graph.call("Abs", x)))


def extremum(graph: OnnxGraph, dtype: str, kind: str, x: str, y: str) -> str:
    """Max or Min; of truth values Or and And. A nan stays."""
    if dtype == "bool":
        return graph.call("Or" if kind == "Max" else "And", x, y)
    found = graph.call(kind, x, y)
    if not is_float(dtype):
        return found
    strange = graph.call("Or", graph.call("IsNaN", x), graph.call("IsNaN", y))
    return graph.call("Where", strange, graph.call("Add", x, y), found)


def _arctangent(graph: OnnxGraph, dtype: str, y: str, x: str) -> str:
    """The angle of (x, y): atan(y / x), with half a turn where x is negative, and quarters where it is 0."""
    zero, half = graph.number(0, dtype), graph.number(math.pi, dtype)
    angle = graph.call("Atan", graph.call("Div", y, x))
    below = graph.call("Less", y, zero)
    turned = graph.call(
        "Where", below, graph.call("Sub", angle, half), graph.call("Add", angle, half)
    )
    angle = graph.call("Where", graph.call("Less", x, zero), turned, angle)
    quarter = graph.call("Mul", graph.call("Sign", y), graph.number(math.pi / 2, dtype))
    return graph.call("Where", graph.call("Equal", x, zero), quarter, angle)


def _hypotenuse(graph: OnnxGraph, dtype: str, x: str, y: str) -> str:
    """sqrt(x * x + y * y), scaled by the larger one."""
    x, y = graph.call("Abs", x), graph.call("Abs", y)
    large, small = graph.call("Max", x, y), graph.call("Min", x, y)
    none = graph.call("Equal", large, graph.number(0, dtype))
    ratio = graph.call("Div", small, graph.call("Where", none, graph.number(1, dtype), large))
    root = graph.call("Add", graph.call("Mul", ratio, ratio), graph.number(1, dtype))
    return graph.call("Mul", large, graph.call("Sqrt", root))


_define("add", _of_truths("Add", "Or"))
_define("mul", _of_truths("Mul", "And"))
for _name in ("sign", "sgn"):
    _define(_name, lambda g, dtype, x: x if dtype == "bool" else g.call("Sign", x))
_define("hypot", _hypotenuse)
_define("div", _node("Div"))
_define("square", _power_of(2))
_define("cube", _power_of(3))
_define("floor_divide", _floored)
_define("trunc_divide", lambda g, dtype, x, y: _truncated(g, dtype, g.call("Div", x, y)))
_define("remainder", _remainder)
_define("fmod", lambda g, dtype, x, y: g.call("Mod", x, y, fmod=1))
_define("atan2", _arctangent)
for _names, _kind in ((("maximum", "clamp_min"), "Max"), (("minimum", "clamp_max"), "Min")):
    for _name in _names:
        _define(_name, lambda g, dtype, x, y, kind=_kind: extremum(g, dtype, kind, x, y))

# -- truth and bits ------------------------------------------------------------------------------------------------

_define("ne", lambda g, dtype, x, y: g.call("Not", g.call("Equal", x, y)), "bool")


@rule("isnan", "isinf", "isfinite")
def _classified(graph: OnnxGraph, op: RecordedOperation) -> str:
    (x,), (dtype,) = op.inputs, op.dtypes
    if not is_float(dtype):
        whole = graph.call("Equal", x, x)
        return whole if op.name == "isfinite" else graph.call("Not", whole)
    if op.name == "isnan":
        return graph.call("IsNaN", x)
    x = x if dtype in ("float32", "float64") else graph.cast(x, "float32")
    infinite = graph.call("IsInf", x)
    if op.name == "isinf":
        return infinite
    return graph.call("Not", graph.call("Or", infinite, graph.call("IsNaN", x)))


def _truth(graph: OnnxGraph, x: str, dtype: str) -> str:
    return x if dtype == "bool" else graph.cast(x, "bool")


@rule("logical_not", *LOGICAL)
def _logical(graph: OnnxGraph, op: RecordedOperation) -> str:
    truths = [_truth(graph, x, dtype) for x, dtype in zip(op.inputs, op.dtypes, strict=True)]
    return graph.call(LOGICAL.get(op.name, "Not"), *truths)


@rule("bitwise_not", *BITWISE)
def _bitwise(graph: OnnxGraph, op: RecordedOperation) -> str:
    kind = BITWISE.get(op.name, "Not")
    return graph.call(kind if op.dtypes[0] == "bool" else f"Bitwise{kind}", *op.inputs)


# -- choice and conversion -----------------------------------------------------------------------------------------


@rule("where")
def _where(graph: OnnxGraph, op: RecordedOperation) -> str:
    condition, x, y = op.inputs
    if op.dtype in ("bool", "int8", "int16"):
        wide = [graph.cast(value, "int32") for value in (x, y)]
        return graph.cast(graph.call("Where", condition, *wide), op.dtype)
    return graph.call("Where", condition, x, y)


@rule("cast")
def _cast(graph: OnnxGraph, op: RecordedOperation) -> str:
    return graph.cast(op.inputs[0], op.dtype)


@rule("clone", "conj", "real")
def _same(graph: OnnxGraph, op: RecordedOperation) -> str:
    return op.inputs[0]


# -- exponentials --------------------------------------------------------------------------------------------------


def _exponential_less_one(graph: OnnxGraph, dtype: str, x: str) -> str:
    """exp(x) - 1; near 0 as 2 t / (1 - t) with t = tanh(x / 2), which keeps its digits."""
    half = graph.call("Tanh", graph.call("Mul", x, graph.number(0.5, dtype)))
    near = graph.call(
        "Div", graph.call("Add", half, half), graph.call("Sub", graph.number(1, dtype), half)
    )
    far = graph.call("Sub", graph.call("Exp", x), graph.number(1, dtype))
    small = graph.call("Less", graph.call("Abs", x), graph.number(0.5, dtype))
    return graph.call("Where", small, near, far)


def _logarithm_of_one_more(graph: OnnxGraph, dtype: str, x: str) -> str:
    """log(1 + x); near 0 as 2 atanh(x / (2 + x)), which keeps its digits."""
    ratio = graph.call("Div", x, graph.call("Add", x, graph.number(2, dtype)))
    near = graph.call("Mul", graph.call("Atanh", ratio), graph.number(2, dtype))
    far = graph.call("Log", graph.call("Add", x, graph.number(1, dtype)))
    small = graph.call("Less", graph.call("Abs", x), graph.number(0.5, dtype))
    return graph.call("Where", small, near, far)


def _sum_of_exponentials(graph: OnnxGraph, dtype: str, a: str, b: str) -> str:
    """log(exp(a) + exp(b)), from the greater; equal infinities are their own sum."""
    top, low = graph.call("Max", a, b), graph.call("Min", a, b)
    same, none = graph.call("Equal", a, b), graph.number(0, dtype)
    gap = graph.call("Where", same, none, graph.call("Sub", low, top))
    rest = _logarithm_of_one_more(graph, dtype, graph.call("Exp", gap))
    return graph.call("Add", top, rest)


def _scaled(kind: str, factor: float) -> Formula:
    return lambda g, dtype, x: g.call("Mul", g.call(kind, x), g.number(factor, dtype))


_define("exp2", lambda g, dtype, x: g.call("Pow", g.number(2, dtype), x))
_define("expm1", _exponential_less_one)
_define("log2", _scaled("Log", 1 / math.log(2)))
_define("log10", _scaled("Log", 1 / math.log(10)))
_define("log1p", _logarithm_of_one_more)
_define("logaddexp", _sum_of_exponentials)
_define("rsqrt", lambda g, dtype, x: g.call("Reciprocal", g.call("Sqrt", x)))
_define("erfc", lambda g, dtype, x: g.call("Sub", g.number(1, dtype), g.call("Erf", x)))

# -- rounding ------------------------------------------------------------------------------------------------------


def _rounded(kind: str) -> Formula:
    return lambda g, dtype, x: g.call(kind, x) if is_float(dtype) else x


_define("floor", _rounded("Floor"))
_define("ceil", _rounded("Ceil"))
_define("round", _rounded("Round"))
_define("trunc", _truncated)

# -- gates and updates ---------------------------------------------------------------------------------------------


def gated(graph: OnnxGraph, gate: str, other: str) -> str:
    """sigmoid(gate) * other"""
    return graph.call("Mul", graph.call("Sigmoid", gate), other)


_define("sigmoid_mul", lambda g, dtype, gate, other: gated(g, gate, other))
_define("sigmoid_mul_tanh", lambda g, dtype, gate, other: gated(g, gate, g.call("Tanh", other)))


def _blended(graph: OnnxGraph, dtype: str, mean: str, value: str, share: str) -> str:
    step = graph.call("Mul", graph.call("Sub", value, mean), share)
    return graph.call("Add", mean, step)


_define("blend", _blended)


@rule("add_product")
def _with_product(graph: OnnxGraph, op: RecordedOperation) -> str:
    total, one, other, factor = op.inputs
    return graph.call("Add", total, graph.call("Mul", graph.call("Mul", one, factor), other))


@rule("add_quotient")
def _with_quotient(graph: OnnxGraph, op: RecordedOperation) -> str:
    total, above, below, factor = op.inputs
    return graph.call("Add", total, graph.call("Mul", graph.call("Div", above, below), factor))
