# ruff: noqa: A001, A002 - PyTorch's names
# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False, annotation_typing=False
"""Activation functions, dropout and embedding lookups.

Plain compositions of elementwise rows, with PyTorch's derivative at each kink; half types compute in float32. With
`inplace=True` the input takes over the result.
"""

from __future__ import annotations

from typing import Any

import cython
from cython.cimports.weft.engine.frontend.recorder import cast, record
from cython.cimports.weft.engine.frontend.tensor import Tensor
from cython.cimports.weft.engine.ir.dtype import DType
from cython.cimports.weft.engine.ir.node import DONE, Node
from cython.cimports.weft.engine.ir.primitive import Primitive

from weft._build.compiled import require
from weft._build.lazy import later
from weft.engine.api.api_function import records
from weft.engine.frontend.inplace import in_place
from weft.engine.frontend.recorder import record_gradient
from weft.engine.ir import dtype as dtypes
from weft.errors import ArgumentError, DTypeError, ShapeError
from weft.functional.elementwise import unary
from weft.functional.indexing import gather_scatter
from weft.functional.random.generator import keep_mask
from weft.functional.reductions.softmax import log_softmax, softmax
from weft.functional.shape.rearrange import keep_layout
from weft.functional.support.index_bounds import check_index
from weft.functional.support.variants import write_out
from weft.ops import OPS
from weft.ops.composite.own_derivatives import gelu_value
from weft.ops.primitives import elementwise as call
from weft.ops.primitives import reshape, slice_axis, where
from weft.ops.registry import named
from weft.tensor.arguments import (
    TYPE_NAMES,
    describe,
    need_floating,
    need_tensor,
    no_kernel,
    untracked,
    widen,
    wrap_dim,
)
from weft.tensor.info import finfo

require(__name__, cython.compiled)

tables = later("weft.nn.functional.embedding_tables")
_EMBEDDING = cython.declare(Primitive, named(OPS["take"], "EmbeddingBackward0"))
_int64 = cython.declare(DType, dtypes.int64)
_last_index = cython.declare(tuple, ())  # shapes of the last lookup, and of its result
_last_table = cython.declare(tuple, ())
_last_rows = cython.declare(tuple, ())
one_hot = gather_scatter.one_hot
_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


def _prepared(name: str, input: Tensor) -> Any:
    """The input in the type to compute in. Errors: DTypeError on integers."""
    need_floating(name, need_tensor(name, input))
    return widen(input)


def _done(input: Tensor, result: object, inplace: bool = False) -> Any:
    result = cast(result, input._dtype)
    return in_place(input, result) if inplace else result


@records(OPS["relu"])
def relu(input: Tensor, inplace: bool = False) -> Any:
    """max(x, 0)."""
    result = unary.relu(input)
    return in_place(input, result) if inplace else result


def relu_(input: Tensor) -> Any:
    """`relu`, in place."""
    return relu(input, True)


@records(OPS["sigmoid"])
def sigmoid(input: Tensor) -> Any:
    """1 / (1 + exp(-x))."""
    return call("sigmoid", need_tensor("sigmoid", input))


@records(OPS["tanh"])
def tanh(input: Tensor) -> Any:
    """The hyperbolic tangent."""
    return call("tanh", need_tensor("tanh", input))


def gelu(input: Tensor, approximate: str = "none", *, out: Tensor | None = None) -> Any:
    """x times the normal distribution function of x (Hendrycks and Gimpel, 2016); "tanh" approximates it."""
    if out is not None:
        return write_out(out, gelu(input, approximate))
    x = _prepared("gelu", input)
    if approximate not in ("none", "tanh"):
        raise ArgumentError(
            "approximate argument must be either none or tanh.",
            expected="'none' or 'tanh'",
            got=repr(approximate),
            fix="choose one of these",
        )
    with untracked():
        result = gelu_value(x, approximate)
    return cast(record_gradient(OPS["gelu"], (x,), approximate, result), input._dtype)


def silu(input: Tensor, inplace: bool = False) -> Any:
    """x * sigmoid(x)."""
    x = _prepared("silu", input)
    return _done(input, x * call("sigmoid", x), inplace)


def softplus(
    input: Tensor, beta: float = 1.0, threshold: float = 20.0, *, out: Tensor | None = None
) -> Any:
    """log(1 + exp(beta x)) / beta; x itself where beta x > threshold."""
    if out is not None:
        return write_out(out, softplus(input, beta, threshold))
    x = _prepared("softplus", input)
    scaled = x if beta == 1 else x * beta
    curve = call("log1p", call("exp", where(scaled > threshold, threshold, scaled)))
    curve = curve if beta == 1 else curve / beta
    return cast(where(scaled > threshold, x, curve), input._dtype)


def mish(input: Tensor, inplace: bool = False) -> Any:
    """x * tanh(softplus(x))."""
    x = _prepared("mish", input)
    return _done(input, x * call("tanh", softplus(x)), inplace)


def _exponential_part(x: Tensor, alpha: float) -> Any:
    return call("expm1", call("clamp_max", x, 0)) * alpha


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Any:
    """x above 0, alpha (exp(x) - 1) below."""
    x = _prepared("elu", input)
    return _done(input, where(x <= 0, _exponential_part(x, alpha), x), inplace)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Any:
    """x above 0, alpha (exp(x / alpha) - 1) below."""
    x = _prepared("celu", input)
    return _done(input, where(x <= 0, _exponential_part(x / alpha, alpha), x), inplace)


def selu(input: Tensor, inplace: bool = False) -> Any:
    """The scaled elu that keeps mean 0 and variance 1 (Klambauer et al., 2017)."""
    x = _prepared("selu", input)
    return _done(input, where(x <= 0, _exponential_part(x, _SELU_ALPHA), x) * _SELU_SCALE, inplace)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Any:
    """x above 0, negative_slope x below."""
    _prepared("leaky_relu", input)
    return _done(input, where(input > 0, input, input * negative_slope), inplace)


def prelu(input: Tensor, weight: Tensor) -> Any:
    """x above 0, weight x below; one weight, or one per channel (dimension 1)."""
    need_tensor("prelu", input)
    if len(weight._shape) > 1:
        raise ShapeError(
            f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {len(weight._shape)}",
            expected="one weight, or one per channel",
            got=describe("weight", weight),
            fix="flatten the weights",
        )
    if weight._shape not in ((), (1,)):
        if not input._shape:
            raise ShapeError(
                "Not allow zero-dim input tensor.",
                expected="an input with channels, for several weights",
                got=describe("input", input),
                fix="pass one weight",
            )
        channels = input._shape[1] if len(input._shape) > 1 else 1
        if weight._shape != (channels,):
            raise ShapeError(
                f"Mismatch of parameter numbers and input channel size. Found parameter numbers = "
                f"{weight._shape[0]} and channel size = {channels}.",
                expected=f"{channels} weights",
                got=describe("weight", weight),
                fix="pass one weight per channel",
            )
        weight = reshape(weight, (channels,) + (1,) * max(len(input._shape) - 2, 0))
    elif not input._shape:
        weight = reshape(weight, ())
    return where(input > 0, input, weight * input)


def hardtanh(
    input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Any:
    """x limited to [min_val, max_val]; the derivative at the bounds is 0."""
    need_tensor("hardtanh", input)
    if min_val > max_val:
        raise ArgumentError(
            "min_val cannot be greater than max_val",
            expected="min_val <= max_val",
            got=f"{min_val} > {max_val}",
            fix="swap them",
        )
    if input._dtype.category == 1 and not input._dtype.is_signed and int(min_val) < 0:
        raise DTypeError(
            "cannot do hardtanh on an unsigned type with negative limits",
            expected="min_val >= 0 for unsigned integers",
            got=f"{describe('input', input)}, min_val={min_val}",
            fix="convert with .int()",
        )
    return _done(
        input, where(input <= min_val, min_val, where(input >= max_val, max_val, input)), inplace
    )


def relu6(input: Tensor, inplace: bool = False) -> Any:
    """x limited to [0, 6]."""
    return hardtanh(input, 0.0, 6.0, inplace)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Any:
    """relu6(x + 3) / 6."""
    x = _prepared("hardsigmoid", input)
    return _done(input, relu6(x + 3) / 6, inplace)


def hardswish(input: Tensor, inplace: bool = False) -> Any:
    """x * relu6(x + 3) / 6."""
    x = _prepared("hardswish", input)
    return _done(input, x * relu6(x + 3) / 6, inplace)


def logsigmoid(input: Tensor, *, out: Tensor | None = None) -> Any:
    """log(sigmoid(x)) without overflow."""
    if out is not None:
        return write_out(out, logsigmoid(input))
    x = _prepared("logsigmoid", input)
    below = x < 0  # not minimum and abs: at 0 their derivatives leave nothing for the second one
    rest = call("log1p", call("exp", where(below, x, -x)))
    return cast(where(below, x, 0) - rest, input._dtype)


def softsign(input: Tensor) -> Any:
    """x / (1 + |x|)."""
    return input / (call("abs", input) + 1)


def tanhshrink(input: Tensor) -> Any:
    """x - tanh(x)."""
    return input - call("tanh", input)


def softshrink(input: Tensor, lambd: float = 0.5, *, out: Tensor | None = None) -> Any:
    """x moved towards 0 by lambd, 0 within."""
    if out is not None:
        return write_out(out, softshrink(input, lambd))
    _prepared("softshrink", input)
    if not lambd >= 0:
        raise ArgumentError(
            f"lambda must be in range [0, {finfo(input._dtype).max:g}] for input dtype "
            f"{TYPE_NAMES[input._dtype.name]}, but found {lambd:g}",
            expected="lambd >= 0",
            got=str(lambd),
            fix="pass how far elements move towards 0",
        )
    outside = where(input > 0, input - lambd, input + lambd)
    return where((input >= -lambd) & (input <= lambd), 0, outside)


def hardshrink(input: Tensor, lambd: float = 0.5, *, out: Tensor | None = None) -> Any:
    """x, 0 where |x| <= lambd."""
    if out is not None:
        return write_out(out, hardshrink(input, lambd))
    _prepared("hardshrink", input)
    return where((input >= -lambd) & (input <= lambd), 0, input)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Any:
    """x above the threshold, `value` elsewhere."""
    return _done(input, where(input <= threshold, value, input), inplace)


def glu(input: Tensor, dim: int = -1) -> Any:
    """The first half of a dimension times the sigmoid of the second."""
    need_tensor("glu", input)
    if not input._shape:
        raise ShapeError(
            "glu does not support scalars because halving size must be even",
            expected="a dimension of an even size",
            got=describe("input", input),
            fix="unsqueeze first",
        )
    axis = wrap_dim(dim, len(input._shape))
    size = input._shape[axis]
    if size % 2:
        raise ShapeError(
            f"Halving dimension must be even, but dimension {axis} is size {size}",
            expected="an even size",
            got=describe("input", input),
            fix="choose another dimension",
        )
    half = size // 2
    first = slice_axis(input, axis, 0, half)
    return keep_layout(first * call("sigmoid", slice_axis(input, axis, half, half)), input)


def softmin(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: int | None = None
) -> Any:
    """softmax(-x)."""
    return softmax(-input, dim, dtype=dtype)


# -- dropout -------------------------------------------------------------------------------------------------------


def check_probability(p: float) -> None:
    """Errors: ArgumentError on what is no probability."""
    if not 0 <= p <= 1:
        raise ArgumentError(
            f"dropout probability has to be between 0 and 1, but got {p}",
            expected="0 <= p <= 1",
            got=str(p),
            fix="pass the fraction to drop",
        )


def masked(input: Tensor, shape: tuple[int, ...], p: float) -> Any:
    """The input, times a mask of a shape that is 0 with probability p and 1 / (1 - p) elsewhere."""
    if p == 1:
        return input * 0
    mask = keep_mask(shape, p)
    return keep_layout(where(mask, input * (1 / (1 - p)), 0), input)


def need_real_floats(input: Tensor) -> None:
    """Errors: DTypeError where elements cannot be scaled in their type, in PyTorch's words."""
    if input._dtype.category == 3:
        raise no_kernel("bernoulli_scalar_cpu_", input, "real numbers", ".abs() or .real")
    if input._dtype.category != 2 and input.numel():
        raise DTypeError(
            "result type Float can't be cast to the desired output type "
            f"{TYPE_NAMES[input._dtype.name]}",
            expected="floating-point numbers",
            got=describe("input", input),
            fix="convert with .float()",
        )


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Elements set to 0 with probability p, the others scaled by 1 / (1 - p). The mask is computed again, not saved."""
    need_tensor("dropout", input)
    check_probability(p)
    if not training or p == 0:
        return input
    need_real_floats(input)
    return _done(input, masked(input, input._shape, p), inplace)


# -- lookup --------------------------------------------------------------------------------------------------------


@cython.cfunc
@cython.locals(index=Tensor, table=Tensor, node=Node)
def _looked_up(input: Tensor, weight: object) -> Any:
    """`embedding` by an index whose values are known to be in range; None elsewhere."""
    global _last_index, _last_table, _last_rows
    if not isinstance(input, Tensor) or not isinstance(weight, Tensor):
        return None
    index, table = input, weight
    node = index.node
    if (
        node is None
        or node.state != DONE
        or index.view_transform != 0
        or index._dtype is not _int64
        or len(table._shape) != 2
        or not 0 < node.max_index <= cython.cast(cython.longlong, table._shape[0])
    ):
        return None
    if index._shape is not _last_index or table._shape is not _last_table:
        _last_index, _last_table = index._shape, table._shape
        _last_rows = (*index._shape, table._shape[1])
    return record(_EMBEDDING, (table, index), (0,), _last_rows, table._dtype)


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:
    """Rows of a table by integer index; the row `padding_idx` gets no gradient. Rows longer than `max_norm` are
    shortened in place. With `sparse`, the table's gradient is sparse. Shapes: (*), (n, d) -> (*, d)."""
    if max_norm is None and padding_idx is None and not scale_grad_by_freq and not sparse:
        rows = _looked_up(input, weight)
        if rows is not None:
            return rows
    need_tensor("embedding", input)
    if input._dtype.name not in ("int64", "int32"):
        raise DTypeError(
            f"Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, "
            f"Int; but got {input.type()} instead (while checking arguments for embedding)",
            expected="integer indices",
            got=describe("input", input),
            fix="convert with .long()",
        )
    if len(weight._shape) != 2:
        raise ShapeError(
            "'weight' must be 2-D",
            expected="a table (n, d)",
            got=describe("weight", weight),
            fix="reshape the table",
        )
    if max_norm is not None:
        tables.renormalize_rows(weight, input, max_norm, norm_type)
    check_index("embedding", input, weight._shape[0], 0, False)
    index = cast(input, dtypes.int64)
    shape = (*index._shape, weight._shape[1])
    if sparse:
        return tables.sparse_rows(weight, index, padding_idx, scale_grad_by_freq)
    if scale_grad_by_freq:
        weight = tables.scaled_by_frequency(weight, index)
    rows = record(_EMBEDDING, (weight, index), (0,), shape, weight._dtype)  # (*), (n, d) -> (*, d)
    if padding_idx is None:
        return rows
    place = tables.padding_place(padding_idx, weight._shape[0])
    return where(reshape(index == place, (*index._shape, 1)), rows.detach(), rows)


__all__ = [
    "celu",
    "dropout",
    "elu",
    "embedding",
    "gelu",
    "glu",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "leaky_relu",
    "log_softmax",
    "logsigmoid",
    "mish",
    "one_hot",
    "prelu",
    "relu",
    "relu6",
    "relu_",
    "selu",
    "sigmoid",
    "silu",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "tanh",
    "tanhshrink",
    "threshold",
]
