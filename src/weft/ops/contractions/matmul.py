# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False
"""Contractions: the matrix product in all ranks from two up, leading dimensions broadcast."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import cython
import numpy as np

from weft._build.compiled import require
from weft.engine.ir.strides import broadcast_shapes
from weft.errors import ShapeError
from weft.ops.primitives import conj, linear, matmul, reduce, reshape, transpose
from weft.ops.registry import define

if TYPE_CHECKING:
    from weft._typing import Shapes
    from weft.engine.backward.apply_vjp import At
    from weft.engine.frontend.tensor import Tensor
    from weft.engine.ir.dtype import DType


require(__name__, cython.compiled)

Shape = tuple[int, ...]


def describe(name: str, shape: Shape, dtype: DType | None = None) -> str:
    """`a float32[64, 103]` for an error text."""
    return f"{name} {'' if dtype is None else dtype.name}{list(shape)}"


def _shape(params: None, a: Shape, b: Shape) -> Shape:
    if a[-1] != b[-2]:
        raise ShapeError(
            f"mat1 and mat2 shapes cannot be multiplied ({a[-2]}x{a[-1]} and {b[-2]}x{b[-1]})",
            expected="a.shape[-1] == b.shape[-2]",
            got=f"{describe('a', a)}, {describe('b', b)} ({a[-1]} != {b[-2]})",
            fix="pass b.mT" if a[-1] == b[-1] else f"build the layer with in_features={a[-1]}",
            operation="matmul",
        )
    return (*broadcast_shapes([a[:-2], b[:-2]], "matmul"), a[-2], b[-1])


def _vjp_right(g: Tensor, self: Tensor, at: At) -> Any:
    """aᴴ g; rows of a shared right operand are flattened first, so that one product sums over the batch."""
    a_shape, b_shape = at.shapes
    if len(b_shape) == 2 and len(a_shape) > 2:
        rows = math.prod(a_shape[:-1])
        self, g = reshape(self, (rows, a_shape[-1])), reshape(g, (rows, g._shape[-1]))
    return matmul(transpose(conj(self)), g)  # (k, m) @ (m, n) -> (k, n)


define(
    "matmul",
    kind="contract",
    operands="self mat2",
    domain=[
        ((2, 3), (3, 4), None),
        ((1, 5), (5, 1), None),
        ((2, 2, 3), (3, 4), None),
        ((3, 1, 2, 3), (2, 3, 2), None),
        ((2, 0), (0, 3), None),
        ((0, 3), (3, 2), None),
    ],
    shape=_shape,
    reference=lambda a, b, params: np.matmul(a, b),
    batch=lambda p, shapes, flags, n: p,
    batch_operands=("b", "w"),
    is_row_independent=lambda p, shapes, axis: len(shapes[1]) == 2 and axis < len(shapes[0]) - 1,
    jvp_kind="multilinear",
    dtypes="integer float complex",
    grad_name="MmBackward0",
    vjp={"self": lambda g, mat2: matmul(g, transpose(conj(mat2))), "mat2": _vjp_right},
    form="matmul",
)


def _has_rows(params: None, shapes: Shapes, axis: int) -> bool:
    """Rows of the input do not know each other; the last dimension is within a row."""
    return axis < len(shapes[0]) - 1


def _linear_shape(params: None, x: Shape, weight: Shape) -> Shape:
    if x[-1] != weight[1]:
        rows = math.prod(x[:-1])
        raise ShapeError(
            f"mat1 and mat2 shapes cannot be multiplied ({rows}x{x[-1]} and {weight[1]}x{weight[0]})",
            expected="input.shape[-1] == weight.shape[1]",
            got=f"{describe('input', x)}, {describe('weight', weight)} ({x[-1]} != {weight[1]})",
            fix=f"build the layer with in_features={x[-1]}",
            operation="linear",
        )
    return (*x[:-1], weight[0])


def _vjp_input(g: Tensor, weight: Tensor) -> Any:
    """(..., n), (n, k) -> (..., k)"""
    if len(g._shape) > 1:
        return matmul(g, conj(weight))
    return linear(g, transpose(conj(weight)))


def _vjp_weight(g: Tensor, self: Tensor, at: At) -> Any:
    """gᵀ x̄ over all rows."""
    x_shape, weight_shape = at.shapes[:2]
    rows = math.prod(x_shape[:-1])
    flat = reshape(self, (rows, x_shape[-1]))
    return matmul(transpose(reshape(g, (rows, weight_shape[0]))), conj(flat))  # (n, r) @ (r, k)


# x @ weight.T in one record: the weight is read in place, and a vector needs no extra dimension.
define(
    "linear",
    kind="contract",
    operands="self weight",
    domain=[((3, 4), (2, 4), None), ((4,), (2, 4), None), ((2, 3, 4), (5, 4), None)],
    shape=_linear_shape,
    reference=lambda x, weight, params: np.matmul(x, weight.T),
    batch=lambda p, shapes, flags, n: p if flags == (True, False) else None,
    batch_operands=("b", "s"),
    is_row_independent=_has_rows,
    jvp_kind="multilinear",
    dtypes="integer float complex",
    grad_name="LinearBackward0",
    vjp={
        "self": _vjp_input,
        "weight": _vjp_weight,
    },
    form="linear",
)


def _linear_bias_shape(params: None, x: Shape, weight: Shape, bias: Shape) -> Shape:
    return _linear_shape(params, x, weight)


def _vjp_bias(g: Tensor) -> Any:
    """The sum over all rows, also where there is one: what comes from several is joined then."""
    rows = reshape(g, (1, *g._shape)) if len(g._shape) == 1 else g
    return reduce("sum", rows, tuple(range(len(rows._shape) - 1)))


# x @ weight.T + bias, for the types that the kernel adds up in; the sum is rounded before the bias is added.
define(
    "linear_bias",
    kind="contract",
    operands="self weight bias",
    domain=[
        ((3, 4), (2, 4), (2,), None),
        ((4,), (2, 4), (2,), None),
        ((2, 3, 4), (5, 4), (5,), None),
        ((3, 0), (2, 0), (2,), None),
    ],
    shape=_linear_bias_shape,
    reference=lambda x, weight, bias, params: np.matmul(x, weight.T) + bias,
    batch=lambda p, shapes, flags, n: p if flags == (True, False, False) else None,
    batch_operands=("b", "s", "s"),
    is_row_independent=_has_rows,
    jvp_kind="rule",
    dtypes="float32 float64",
    grad_name="AddmmBackward0",
    vjp={"self": _vjp_input, "weight": _vjp_weight, "bias": _vjp_bias},
    form="linear",
)
