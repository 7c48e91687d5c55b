"""The NumPy meaning of a recorded graph: the oracle of the tests and a reading for newcomers.

A node comes in; its value comes out as an array, computed from the rows' `numpy` records alone, without kernels,
fusion or batching. bfloat16, which NumPy lacks, is carried as float32 rounded to bfloat16. Never a fallback of the
library itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from weft._typing import Shape
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir.dtype import DType
from weft.engine.ir.primitive import KIND_NAMES, SCALAR_OP

if TYPE_CHECKING:
    from weft.engine.ir.node import Node


Array = Any
_DONE = 1


def round_bfloat16(values: Array) -> Array:
    """float32 values rounded to bfloat16, half to even; nan stays nan."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) & np.uint32(
        0xFFFF0000
    )
    return np.where(np.isnan(values), np.float32(np.nan), rounded.view(np.float32)).reshape(
        np.shape(values)
    )


def _as_dtype(values: Array, dtype: Any) -> Array:
    if dtype.numpy is None:
        return round_bfloat16(np.asarray(values).astype(np.float32))
    values = np.asarray(values)
    if values.dtype.kind == "c" and dtype.numpy.kind != "c" and dtype.numpy.kind != "b":
        values = values.real
    return values.astype(dtype.numpy, copy=False)


def _read(node: Node) -> Array:
    """The value of a node that is done: its number, or its elements in the buffer."""
    if node.op is SCALAR_OP:
        return _as_dtype(np.array(node.params), node.dtype)
    kind = np.dtype(np.uint16) if node.dtype.numpy is None else node.dtype.numpy
    if node.numel == 0:
        return np.empty(node.shape, np.float32 if node.dtype.numpy is None else kind)
    strides = None if node.strides is None else [s * kind.itemsize for s in node.strides]
    memory: Any = node.buffer  # NumPy's annotations know no buffer protocol
    out = np.ndarray(node.shape, kind, memory, node.offset, strides)
    if node.dtype.numpy is None:
        return (out.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return np.array(out)


def _apply(node: Node, values: list[Array]) -> Array:
    op = node.op
    if op.kind == 1:
        values = [v.astype(np.float32) if v.dtype == np.float16 else v for v in values]
    if op.name == "gather_rows":
        return meaning(op, values, node.info, node.shape, node.dtype)
    return meaning(op, values, node.params, node.shape, node.dtype)


def meaning(op: Any, values: list[Array], params: object, shape: Shape, dtype: Any) -> Array:
    """The value that an op computes, by its NumPy reference, in the precision of `values`. `shape` and `dtype` are the
    result's, for ops that leave them free."""
    with np.errstate(all="ignore"):
        if op.name == "cast":
            return _cast(values[0], dtype)
        if op.name == "gather_rows":
            return op.reference(*values, payload=params, shape=shape)
        if op.name == "strided":
            return op.reference(values[0], shape, params)
        if KIND_NAMES[op.kind] == "elementwise":
            return op.reference(*values)
        return op.reference(*values, params=params)


def _cast(values: Array, dtype: DType) -> Array:
    """A conversion as kernels do it: complex numbers lose their imaginary part, floats become integers by truncation
    into the range, nan 0."""
    if values.dtype.kind == "c" and dtype.category in (1, 2):
        values = values.real
    if dtype.category == 1 and values.dtype.kind == "f":
        info = np.iinfo(dtype.numpy)
        whole = np.trunc(np.nan_to_num(values.astype(np.float64), nan=0))
        inside = np.where((whole > info.min) & (whole < info.max), whole, 0).astype(dtype.numpy)
        return np.where(whole >= info.max, info.max, np.where(whole <= info.min, info.min, inside))
    return _as_dtype(values, dtype)


def evaluate(node: Any) -> Array:
    """The value of a node, by its rows' NumPy meanings. Walks with a stack of its own."""
    known: dict[int, Array] = {}
    stack = [node]
    while stack:
        top = stack[len(stack) - 1]
        if id(top) in known:
            stack.pop()
            continue
        if top.state == _DONE or top.op.name in ("scalar", "value"):
            known[id(top)] = _read(top)
            continue
        waiting = [child for child in top.inputs if id(child) not in known]
        if waiting:
            stack.extend(waiting)
            continue
        values = [known[id(child)] for child in top.inputs]
        known[id(top)] = _as_dtype(_apply(top, values), top.dtype).reshape(top.shape)
        stack.pop()
    return known[id(node)]


def evaluate_tensor(tensor: Tensor) -> Array:
    """The value of a tensor, by `evaluate`."""
    from weft.engine.frontend.resolve import value_of

    return evaluate(value_of(tensor))


__all__ = ["evaluate", "evaluate_tensor", "meaning", "round_bfloat16"]
