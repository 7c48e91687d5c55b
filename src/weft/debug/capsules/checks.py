"""Checks of a record before it runs: files may be damaged, or made to do harm.

`check` takes a record and the types of what it reads. The shape must be what the op table makes of the operands, and no
operation may reach outside the memory of what it reads: kernels trust the recorder, which a file has not gone through.
Indices need no look: kernels check them when they run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from weft.debug.capsules.records import CapsuleRecord
from weft.engine.frontend.recorder import COMPARE, LOGICAL, SELECT, TO_FLOAT
from weft.engine.ir import dtype as dtypes
from weft.engine.ir import primitive as kinds
from weft.engine.ir.primitive import KIND_NAMES, Primitive
from weft.engine.ir.strides import broadcast_shapes, contiguous_strides
from weft.ops.registry import OPS

Shape = tuple[int, ...]
Types = Sequence[tuple[str, Shape]]  # of operands: dtype and shape

MOST_DIMENSIONS = 64
_REFUSED = (kinds.COLLECTIVE, kinds.COMPOSITE)


class Unfit(ValueError):
    """A record that cannot be run."""


def need(condition: object, why: str) -> None:
    """Errors: Unfit where a condition does not hold."""
    if not condition:
        raise Unfit(why)


def check(record: CapsuleRecord, types: Types) -> Primitive:
    """The row of a record that may be run. Errors: Unfit (a ValueError), or what a shape rule raises."""
    op = OPS.get(record.op)
    if op is None or op.kind in _REFUSED:
        raise Unfit(f"no operation {record.op!r:.40}")
    need(op.is_variadic or record.op == "gather_rows" or len(types) == len(op.operands), "operands")
    need(not (op.is_variadic and not types), "no operands")
    need(len(record.shape) <= MOST_DIMENSIONS, "dimensions")
    need(math.prod(record.shape) < 1 << 48, "elements")
    _check_dtypes(op, types)
    shapes = [shape for _, shape in types]
    kind = KIND_NAMES[op.kind]
    if kind in _CHECKS:  # first: compiled shape rules trust axes
        _CHECKS[kind](op, record, shapes)
    _check_result(op, record, types)
    return op


def _check_dtypes(op: Primitive, types: Types) -> None:
    """Operands have dtypes that there are kernels for; an index is int64, a condition bool."""
    for number, (dtype, _) in enumerate(types):
        name = op.operands[number] if number < len(op.operands) else ""
        need(dtype == "int64" if name == "index" else dtype in (*op.dtypes, "bool"), "dtypes")


def _check_result(op: Primitive, record: CapsuleRecord, types: Types) -> None:
    """Shape and dtype are those that the op table makes of the operands."""
    shapes = [shape for _, shape in types]
    if op.kind == kinds.ELEMENTWISE:
        need(record.params is None or op.is_cast, "params")
        _check_elementwise(op, record, [dtype for dtype, _ in types])
        need(record.shape == broadcast_shapes(shapes, op.name), "shape")
        return
    first = _first(op, types)
    expected = [first]
    if op.dtype is not None and op.kind != kinds.SOURCE:
        expected.append(op.dtype(record.params, dtypes.by_name(first)).name)
    need(record.dtype in expected or op.kind == kinds.REDUCE, "dtype")
    same = op.kind in (kinds.CONTRACT, kinds.REGION, kinds.ROWS, kinds.MACRO)
    need(
        not same or op.name == "cross_entropy" or len({d for d, _ in types}) <= 1,
        "dtypes that differ",
    )
    if op.kind not in (kinds.ROWS, kinds.REDUCE) and op.name != "strided":
        need(record.shape == tuple(op.shape(record.params, *shapes)), "shape")


def _check_elementwise(op: Primitive, record: CapsuleRecord, given: list[str]) -> None:
    """Operands of one dtype, beside a condition; the dtype of the result that the row makes of it."""
    if op.rule == SELECT:
        need(given[0] == "bool", "condition")
        given = given[1:]
    need(len(set(given)) == 1, "dtypes that differ")
    need(
        op.rule != TO_FLOAT or dtypes.by_name(given[0]).category >= 2, "operands that are no floats"
    )
    if op.is_cast:
        return
    expected = given[0] if op.dtype is None else op.dtype(None, dtypes.by_name(given[0])).name
    need(record.dtype == ("bool" if op.rule in (COMPARE, LOGICAL) else expected), "dtype")


def _first(op: Primitive, types: Types) -> str:
    return types[0][0] if types else "int64"


def _axis(axis: object, shape: Shape) -> int:
    need(type(axis) is int and 0 <= axis < len(shape), "axis")
    return axis  # type: ignore[return-value]


def _integers(values: object, count: int | None = None) -> Any:
    need(isinstance(values, tuple) and all(type(v) is int for v in values), "params")
    need(count is None or len(values) == count, "params")  # type: ignore[arg-type]
    return values


def _inside(whole: Shape, region: Shape, offset: int, strides: Shape) -> None:
    """A strided region lies within the elements of a shape."""
    need(type(offset) is int and len(_integers(strides)) == len(region), "region")
    if 0 in region:
        return
    steps = [(size - 1) * stride for size, stride in zip(region, strides, strict=True)]
    low = offset + sum(step for step in steps if step < 0)
    high = offset + sum(step for step in steps if step > 0)
    need(low >= 0 and high < math.prod(whole), "region outside of its memory")


def _check_view(op: Primitive, record: CapsuleRecord, shapes: Sequence[Shape]) -> None:
    (shape,) = shapes
    if op.name == "strided":
        offset, strides = record.params
        _inside(shape, record.shape, offset, strides)
        return
    params = _integers(record.params)
    if op.name == "view":
        need(math.prod(record.shape) == math.prod(shape) and params == record.shape, "elements")
        return
    _VIEW_PARAMS[op.name](params, shape, record.shape)
    strides, offset = op.strides(params, shape, contiguous_strides(shape), 0)
    _inside(shape, record.shape, offset, tuple(strides))


def _check_order(params: Shape, shape: Shape, result: Shape) -> None:
    need(sorted(params) == list(range(len(shape))), "order")


def _check_expansion(params: Shape, shape: Shape, result: Shape) -> None:
    pairs = zip(reversed(shape), reversed(result), strict=False)
    need(len(shape) <= len(result) and all(a in (1, b) for a, b in pairs), "expansion")
    need(params == result, "shape")


def _check_slice(params: Shape, shape: Shape, result: Shape) -> None:
    need(len(params) == 4 and _axis(params[0], shape) >= 0 and params[2] >= 0, "slice")


def _check_select(params: Shape, shape: Shape, result: Shape) -> None:
    need(len(params) == 2 and 0 <= params[1] < shape[_axis(params[0], shape)], "place")


def _check_window(params: Shape, shape: Shape, result: Shape) -> None:
    need(len(params) == 3 and params[2] > 0, "window")
    need(0 <= params[1] <= shape[_axis(params[0], shape)], "window")


def _check_diagonal(params: Shape, shape: Shape, result: Shape) -> None:
    need(len(params) == 3 and params[1] != params[2], "diagonal")
    need(_axis(params[1], shape) >= 0 and _axis(params[2], shape) >= 0, "diagonal")


def _check_flip(params: Shape, shape: Shape, result: Shape) -> None:
    for axis in params:
        _axis(axis, shape)


_VIEW_PARAMS: dict[str, Callable[[Shape, Shape, Shape], None]] = {
    "permute": _check_order,
    "expand": _check_expansion,
    "slice": _check_slice,
    "select": _check_select,
    "unfold": _check_window,
    "diagonal": _check_diagonal,
    "flip": _check_flip,
}


def _check_region(op: Primitive, record: CapsuleRecord, shapes: Sequence[Shape]) -> None:
    if op.name == "put":
        base, source = shapes
        offset, strides = record.params
        _inside(base, source, offset, strides)
        return
    (axis,) = _integers(record.params, 1)
    if op.name == "stack":
        need(len(set(shapes)) == 1 and 0 <= axis <= len(shapes[0]), "shapes that differ")
    else:
        _axis(axis, shapes[0])
        rest = {(*s[:axis], *s[axis + 1 :]) for s in shapes}
        need(len(rest) == 1 and len({len(s) for s in shapes}) == 1, "shapes that differ")


def _check_reduction(op: Primitive, record: CapsuleRecord, shapes: Sequence[Shape]) -> None:
    (shape,) = shapes
    axes, keep = record.params
    need(type(keep) is bool and list(_integers(axes)) == sorted(set(axes)), "params")
    for axis in axes:
        _axis(axis, shape)
    kept = [size for axis, size in enumerate(shape) if axis not in axes]
    whole = [1 if axis in axes else size for axis, size in enumerate(shape)]
    need(list(record.shape) == (whole if keep else kept), "shape")


def _check_contraction(op: Primitive, record: CapsuleRecord, shapes: Sequence[Shape]) -> None:
    need(all(len(shape) >= 1 for shape in shapes), "dimensions")
    if op.name == "matmul":
        need(min(map(len, shapes)) >= 2 and record.params is None, "dimensions")
        need(shapes[0][-1] == shapes[1][-2], "inner sizes")
    elif op.name.startswith("linear"):
        need(record.params is None and len(shapes[1]) == 2, "weight")
        need(shapes[0][-1] == shapes[1][-1], "inner sizes")
        need(len(shapes) < 3 or shapes[2] == shapes[1][:1], "bias")
    else:
        _check_attention(op, record, dict(zip(op.operands, shapes, strict=True)))


def _check_attention(op: Primitive, record: CapsuleRecord, named: dict[str, Shape]) -> None:
    _, causal, order = record.params
    need(type(causal) is bool and sorted(_integers(order, 4)) == [0, 1, 2, 3], "params")
    query, key, value = named["query"], named["key"], named["value"]
    need(len(query) == len(key) == len(value) == 4, "dimensions")
    need(query[0] == key[0] == value[0] and key[1:3] == value[1:3] and query[3] == key[3], "sizes")
    need(key[1] and query[1] % key[1] == 0, "heads")
    if "mask" in named:
        wanted = (*query[:3], key[2])
        pairs = zip(named["mask"], wanted, strict=True)
        need(all(size in (1, whole) for size, whole in pairs), "mask")
    if "cotangent" in named:
        out = (*query[:3], value[3])
        need(named["cotangent"] == out == named["out"], "cotangent")
        need(named["stats"] == (*query[:3], 2), "statistics")


def _check_macro(op: Primitive, record: CapsuleRecord, shapes: Sequence[Shape]) -> None:
    gates = {"lstm_memory": 4, "lstm_output": 4, "gru": 3}.get(op.name)
    if gates is not None:
        hidden = shapes[-1]
        wide = (*hidden[:-1], gates * hidden[-1]) if hidden else ()
        need(record.params is None and hidden and all(s == wide for s in shapes[:-1]), "gates")
    elif op.name == "logsumexp":
        rank = len(shapes[0])
        need(all(-rank <= axis < rank for axis in _integers(record.params)), "axes")
    else:
        (axis,) = _integers(record.params, 1)
        need(op.name == "cross_entropy" and -len(shapes[0]) <= axis < 0, "axis")


def _check_scan(op: Primitive, record: CapsuleRecord, shapes: Sequence[Shape]) -> None:
    need(isinstance(record.params, tuple) and record.params, "params")
    axis = _axis(record.params[0], shapes[0])
    if op.name == "order":
        need(type(record.params[1]) is int and 0 <= record.params[1] <= shapes[0][axis], "kept")
    elif op.name == "nth_place":
        _, number, nan, first = record.params
        need(type(number) is int and 0 <= number < max(1, shapes[0][axis]), "number")
        need(type(nan) is int and 0 <= nan <= 2 and type(first) is bool, "rule")
    elif op.name.startswith("resample") and op.name != "resample_transposed":
        need(record.params[1] == shapes[0][axis], "size")


def _check_index(op: Primitive, record: CapsuleRecord, shapes: Sequence[Shape]) -> None:
    (axis,) = _integers(record.params, 1)
    _axis(axis, shapes[0])


def _check_source(op: Primitive, record: CapsuleRecord, shapes: Sequence[Shape]) -> None:
    shape, skip = record.params
    need(record.dtype == "int64" and 0 <= skip <= len(_integers(shape)), "params")


def _check_rows(op: Primitive, record: CapsuleRecord, shapes: Sequence[Shape]) -> None:
    """Rows of values: each term names one that there is, of the size of the result's rows."""
    need(record.terms is not None and record.shape and shapes, "terms")
    numbers, rows, offsets = record.terms
    width = math.prod(record.shape[1:])
    need(len(numbers) == len(rows), "terms")
    for number, row in zip(numbers, rows, strict=True):
        need(0 <= number < len(shapes) and row >= -1, "terms")
        size = math.prod(shapes[number])
        need(size == width if row < 0 else (row + 1) * width <= size, "terms outside of a value")
    if offsets is None:
        need(len(numbers) == record.shape[0], "terms")
    else:
        steps = [0, *offsets, len(numbers)]
        need(len(offsets) == record.shape[0] + 1 and offsets[-1:] == [len(numbers)], "terms")
        need(steps == sorted(steps), "terms")


_CHECKS: dict[str, Callable[[Any, CapsuleRecord, Sequence[Shape]], None]] = {
    "view": _check_view,
    "region": _check_region,
    "reduce": _check_reduction,
    "contract": _check_contraction,
    "macro": _check_macro,
    "scan": _check_scan,
    "index": _check_index,
    "scatter": _check_index,
    "source": _check_source,
    "rows": _check_rows,
}
