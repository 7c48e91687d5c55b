# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False
"""Composite rows: operations whose value is expanded into primitives but whose derivative is a rule of its own,
because the composed one would be wrong at a kink, or wasteful. One gradient record stands for the whole."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import cython
import numpy as np

from weft._build.compiled import require
from weft.engine.frontend.recorder import cast
from weft.engine.ir.tape import tape
from weft.ops.primitives import (
    concat,
    expand,
    iota,
    matmul,
    reduce,
    reshape,
    slice_axis,
    transpose,
    unreduce,
    where,
)
from weft.ops.primitives import elementwise as call
from weft.ops.registry import always_independent, define

if TYPE_CHECKING:
    from weft._typing import Array, Shapes
    from weft.engine.backward.apply_vjp import At
    from weft.engine.frontend.tensor import Tensor
    from weft.ops.registry import Domain, Rule


require(__name__, cython.compiled)


def define_custom_vjp(
    name: str,
    operands: str,
    reference: Rule,
    vjp: dict[str, Rule],
    batch: Rule,
    domain: Domain,
    dtypes: str = "float",
    grad_name: str = "",
    dtype: Rule | None = None,
    shape: Rule = lambda p, *shapes: shapes[0],
    is_row_independent: Rule | None = None,
) -> None:
    """Define a row whose value is composed; the parameters are those of `weft.ops.registry.define`."""
    define(
        name,
        kind="composite",
        operands=operands,
        reference=reference,
        vjp=vjp,
        batch=batch,
        is_row_independent=is_row_independent,
        domain=domain,
        shape=shape,
        dtype=dtype,
        jvp_kind="rule",
        dtypes=dtypes,
        grad_name=grad_name,
    )


def _off_rows(params: tuple[Any, ...], shapes: Shapes, axis: int) -> bool:
    """`is_row_independent` of what works along axes."""
    axes = params[0]
    return (min(axes) if isinstance(axes, tuple) else axes) > axis


def _over(x: Tensor, axis: int) -> Any:
    return expand(reduce("sum", x, (axis,), keepdim=True), x._shape)


def _softmax_numpy(x: Array, params: tuple[int]) -> Any:
    e = np.exp(x - np.max(x, params[0], keepdims=True))
    return e / np.sum(e, params[0], keepdims=True)


def _vjp_softmax(g: Tensor, result: Tensor, at: At) -> Any:
    weighted = g * result
    return weighted - result * _over(weighted, at.params[0])


define_custom_vjp(
    "softmax",
    "self",
    _softmax_numpy,
    {"self": _vjp_softmax},
    lambda p, shapes, flags, n: (p[0] + 1,),
    [((3, 4), (1,))],
    is_row_independent=_off_rows,
)
define_custom_vjp(
    "log_softmax",
    "self",
    lambda x, params: np.log(_softmax_numpy(x, params)),
    {"self": lambda g, result, at: g - call("exp", result) * _over(g, at.params[0])},
    lambda p, shapes, flags, n: (p[0] + 1,),
    [((3, 4), (0,))],
    is_row_independent=_off_rows,
)


def _slope_of_norm(g: Tensor, self: Tensor, result: Tensor) -> Any:
    """g * self / result; 0 at 0, as are its own derivatives."""
    zero = result == 0
    return self * where(zero, 0, g / where(zero, 1, result))


def _slope_of_power_norm(g: Tensor, self: Tensor, result: Tensor, at: At) -> Any:
    """g * sign(self) * (|self| / result)^(p - 1), with 0 where an element is 0; of p > 1 also where the norm is 0."""
    p = at.params[0]
    size = call("abs", self)
    zero = size == 0
    powers = where(zero, 0, where(zero, 1, size) ** (p - 1))
    if p > 1:
        flat = result == 0
        scale = where(flat, 0, g / where(flat, 1, result) ** (p - 1))
    else:
        scale = g * result ** (1 - p)
    return call("sgn", self) * (powers * scale)


def less_one_at(self: Tensor, index: Tensor, axis: int) -> Any:
    """The probabilities along an axis, at the index (of size 1 there) less one. They are made as the value side makes
    them, so that a backward pass in the same program finds them. The largest element counts as a constant: it takes no
    part in the derivative of the derivative."""
    shape = self._shape
    mode = tape().mode
    grad, mode.grad = mode.grad, False
    try:
        top = reduce("amax", self, (axis,), keepdim=True)
    finally:
        mode.grad = grad
    powers = call("exp", self - top)
    weights = powers * call("reciprocal", reduce("sum", powers, (axis,), keepdim=True))
    last = axis == len(shape) - 1  # then a kernel makes the positions itself
    own = shape if last else tuple([size if a == axis else 1 for a, size in enumerate(shape)])
    here = iota(own, len(shape) - 1 if last else 0) == index
    return where(here, weights - 1, weights)


def _vjp_picked(g: Tensor, self: Tensor, index: Tensor, at: At) -> Any:
    """The probabilities times the cotangent's negative, at the index less one."""
    return less_one_at(self, index, at.params[0]) * -g


def _picked_numpy(x: Array, index: Array, params: tuple[int]) -> Any:
    logs = np.log(_softmax_numpy(x, params))
    return np.take_along_axis(logs, index.astype(np.int64), params[0])


define_custom_vjp(
    "picked_log_softmax",
    "self index",
    _picked_numpy,
    {"self": _vjp_picked},
    lambda p, shapes, flags, n: (p[0] + 1,),
    [((3, 4), (3, 1), (1,)), ((2, 3, 2), (2, 1, 2), (1,))],
    shape=lambda p, x, index: index,
    grad_name="LogSoftmaxBackward0",
    is_row_independent=_off_rows,
)
define_custom_vjp(
    "norm",
    "self",
    lambda x, params: np.sqrt(np.sum(np.abs(x) ** 2, params[0], keepdims=True)),
    {"self": _slope_of_norm},
    lambda p, shapes, flags, n: (tuple(axis + 1 for axis in p[0]),),
    [((3, 4), ((1,),))],
    "float complex",
    is_row_independent=_off_rows,
)


define_custom_vjp(
    "power_norm",
    "self",
    lambda x, params: np.sum(np.abs(x) ** params[0], params[1], keepdims=True) ** (1 / params[0]),
    {"self": _slope_of_power_norm},
    lambda p, shapes, flags, n: (p[0], tuple(axis + 1 for axis in p[1])),
    [((3, 4), (3.0, (1,))), ((3, 4), (0.5, (1,))), ((3, 4), (-1.0, (0, 1)))],
    "float complex",
    grad_name="LinalgVectorNormBackward0",
    is_row_independent=lambda params, shapes, axis: min(params[1]) > axis,
)


# -- distances of all pairs of points: (..., n, d), (..., m, d) -> (..., n, m) ---------------------------------------


def _vjp_distances(g: Tensor, mine: Tensor, others: Tensor, result: Tensor) -> Any:
    """sum over the others of g (mine - other) / distance; nothing where that is 0. Two products."""
    zero = result == 0
    weights = where(zero, 0, g / where(zero, 1, result))
    total = reduce("sum", weights, (len(weights._shape) - 1,), keepdim=True)
    return mine * total - matmul(weights, others)


define_custom_vjp(
    "cdist",
    "self other",
    lambda x, y, params: np.sqrt(np.sum((x[..., :, None, :] - y[..., None, :, :]) ** 2, -1)),
    {
        "self": lambda g, self, other, result: _vjp_distances(g, self, other, result),
        "other": lambda g, self, other, result: _vjp_distances(
            transpose(g), other, self, transpose(result)
        ),
    },
    lambda p, shapes, flags, n: p,
    [((3, 4), (5, 4), None), ((2, 3, 4), (2, 1, 4), None)],
    "float32 float64",
    grad_name="CdistBackward0",
    shape=lambda p, x, y: (*x[:-1], y[-2]),
    is_row_independent=lambda p, shapes, axis: axis < len(shapes[0]) - 2,
)

# -- normalisation over axes: (x - mean) / sqrt(variance + eps) ----------------------------------------------------


def _mean(x: Tensor, axes: tuple[int, ...]) -> Any:
    count = 1
    for axis in axes:
        count *= x._shape[axis]
    return reduce("sum", x, axes, keepdim=True) / count


def _standardize_numpy(x: Array, params: tuple[tuple[int, ...], float]) -> Any:
    axes, eps = params
    centred = x - np.mean(x, axes, keepdims=True)
    return centred / np.sqrt(np.mean(centred * centred, axes, keepdims=True) + eps)


def inverse_deviation(x: Tensor, axes: tuple[int, ...], eps: float) -> tuple[Any, Any]:
    """x - mean and 1 / sqrt(variance + eps), in the same primitives forward and backward, so that a backward pass
    in the same program shares them."""
    centred = x - _mean(x, axes)
    return centred, call("rsqrt", _mean(call("square", centred), axes) + eps)


def _vjp_standardize(g: Tensor, self: Tensor, result: Tensor, at: At) -> Any:
    axes, eps = at.params
    _, scale = inverse_deviation(self, axes, eps)
    return scale * (g - _mean(g, axes) - result * _mean(g * result, axes))


define_custom_vjp(
    "standardize",
    "self",
    _standardize_numpy,
    {"self": _vjp_standardize},
    lambda p, shapes, flags, n: (tuple(axis + 1 for axis in p[0]), p[1]),
    [((3, 4), ((1,), 1e-5))],
    is_row_independent=_off_rows,
)

# -- means and limits ------------------------------------------------------------------------------------------------


def _vjp_mean(g: Tensor, at: At) -> Any:
    count = 1
    for axis in at.params[0]:
        count *= at.shapes[0][axis]
    return unreduce(g / count, at)


define_custom_vjp(
    "mean",
    "self",
    lambda x, params: np.mean(x, params[0], keepdims=params[1]),
    {"self": _vjp_mean},
    lambda p, shapes, flags, n: (tuple(axis + 1 for axis in p[0]), p[1]),
    [((3, 4), ((1,), False)), ((2, 3, 4), ((0, 2), True)), ((3, 4), ((0, 1), False))],
    "float complex",
    is_row_independent=_off_rows,
)
define_custom_vjp(
    "clamp",
    "self",
    lambda x, params: np.minimum(np.maximum(x, params[0]), params[1]),
    {"self": lambda g, self, at: where((self >= at.params[0]) & (self <= at.params[1]), g, 0)},
    lambda p, shapes, flags, n: p,
    [((3, 4), (-0.5, 0.75)), ((3, 4), (0.25, -0.25))],
    "float",
    "ClampBackward1",
    is_row_independent=always_independent,
)
define_custom_vjp(
    "clamp_between",
    "self min max",
    lambda x, low, high, params: np.minimum(np.maximum(x, low), high),
    {
        "self": lambda g, self, min, max: where((self >= min) & (self <= max), g, 0),
        "min": lambda g, self, min, max: where((self < min) & (min <= max), g, 0),
        "max": lambda g, self, min, max: where((self > max) | (min > max), g, 0),
    },
    lambda p, shapes, flags, n: p,
    [((3, 4), (3, 4), (3, 4), None)],
    "float",
    "ClampBackward0",
    is_row_independent=always_independent,
)

# -- extrema whose gradient goes to the first of equal elements ------------------------------------------------------


def _vjp_first(g: Tensor, index: Tensor, at: At) -> Any:
    """The cotangent at one place of each line or window; `index` is that place, dimensions kept."""
    axes, _ = at.params
    shape = at.shapes[0]
    here = iota(tuple([size if axis in axes else 1 for axis, size in enumerate(shape)])) == index
    return where(here, reshape(g, tuple(index._shape)), 0)


_function: Any
for _name, _function in (("max", np.max), ("min", np.min)):
    define_custom_vjp(
        _name,
        "self index",
        lambda x, params, f=_function: f(x, params[0], keepdims=params[1]),
        {"self": _vjp_first},
        lambda p, shapes, flags, n: (tuple(axis + 1 for axis in p[0]), p[1]),
        [((3, 4), ((1,), False)), ((2, 3, 4), ((0, 2), True))],
        is_row_independent=_off_rows,
    )


def _vjp_even(g: Tensor, self: Tensor, result: Tensor, at: At) -> Any:
    """Every element that is the extremum has an equal share; if it is nan, every nan has."""
    top = unreduce(result, at)
    mask = (self == top) | (call("isnan", self) & call("isnan", top))
    share = cast(mask, g.dtype)
    count = reduce("sum", share, at.params[0], keepdim=True)
    return share * (reshape(g, tuple(count.shape)) / count)


def _median_numpy(x: Array, axis: int | tuple[int, ...], keepdims: bool) -> Any:
    """The lower one of two in the middle."""
    return np.quantile(x, 0.5, axis, keepdims=keepdims, method="lower")


for _name, _function, _grad_name in (
    ("max_all", np.max, "MaxBackward1"),
    ("min_all", np.min, "MinBackward1"),
    ("median", _median_numpy, "MedianBackward0"),
):
    define_custom_vjp(
        _name,
        "self",
        lambda x, params, f=_function: f(x, params[0], keepdims=params[1]),
        {"self": _vjp_even},
        lambda p, shapes, flags, n: (tuple(axis + 1 for axis in p[0]), p[1]),
        [((3, 4), ((0, 1), False)), ((3, 4), ((1,), True))],
        "float",
        _grad_name,
        is_row_independent=_off_rows,
    )
define_custom_vjp(
    "hypot",
    "self other",
    lambda x, y, params: np.hypot(x, y),
    {
        "self": lambda g, self, result: g * (self / result),
        "other": lambda g, other, result: g * (other / result),
    },
    lambda p, shapes, flags, n: p,
    [((3, 4), (3, 4), None)],
    is_row_independent=always_independent,
)

# -- complex numbers and pairs of their parts ------------------------------------------------------------------------


def joined_parts(pairs: Tensor) -> Any:
    """(..., 2) real numbers -> (...) complex ones."""
    shape, last = pairs._shape[:-1], len(pairs._shape) - 1
    return call("complex", *[reshape(slice_axis(pairs, last, part, 1), shape) for part in (0, 1)])


def paired_parts(x: Tensor) -> Any:
    """(...) complex numbers -> (..., 2) real ones."""
    parts = [reshape(call(part, x), (*x._shape, 1)) for part in ("real", "imag")]
    return concat(tuple(parts), len(x._shape))


define_custom_vjp(
    "view_as_real",
    "self",
    lambda x, params: np.stack([np.real(x), np.imag(x)], -1),
    {"self": lambda g: joined_parts(g)},
    lambda p, shapes, flags, n: p,
    [((3, 4), None)],
    "complex",
    dtype=lambda params, d: d.to_real(),
    shape=lambda p, shape: (*shape, 2),
    is_row_independent=always_independent,
)
define_custom_vjp(
    "view_as_complex",
    "self",
    lambda x, params: x[..., 0] + 1j * x[..., 1],
    {"self": lambda g: paired_parts(g)},
    lambda p, shapes, flags, n: p,
    [((3, 2), None)],
    "float32 float64",
    dtype=lambda params, d: d.to_complex(),
    shape=lambda p, shape: shape[:-1],
    is_row_independent=always_independent,
)

# -- activations -----------------------------------------------------------------------------------------------------

_SQRT_2_OVER_PI = math.sqrt(2 / math.pi)
_CUBE = 0.044715


def gelu_value(x: Tensor, approximate: str) -> Any:
    """x times the normal distribution function of x, or its approximation by tanh."""
    return x * 0.5 * (_gelu_curve(x, approximate) + 1)


def _gelu_curve(x: Tensor, approximate: str) -> Any:
    if approximate == "none":
        return call("erf", x * math.sqrt(0.5))
    return call("tanh", (x + call("square", x) * x * _CUBE) * _SQRT_2_OVER_PI)


def _vjp_gelu(g: Tensor, self: Tensor, at: At) -> Any:
    """The slope depends on the input alone: one value to keep where forward and backward are one program."""
    curve = _gelu_curve(self, at.params)
    square = call("square", self)
    if at.params == "none":
        density = call("exp", square * -0.5) * (0.5 * _SQRT_2_OVER_PI)
    else:
        density = (1 - call("square", curve)) * (square * (3 * _CUBE) + 1) * (0.5 * _SQRT_2_OVER_PI)
    return g * (self * density + (curve + 1) * 0.5)


def _gelu_numpy(x: Array, params: str) -> Any:
    if params == "none":
        return x * 0.5 * (np.vectorize(math.erf, otypes=[float])(x * math.sqrt(0.5)) + 1)
    return x * 0.5 * (np.tanh((x + _CUBE * x**3) * _SQRT_2_OVER_PI) + 1)


define_custom_vjp(
    "gelu",
    "self",
    _gelu_numpy,
    {"self": _vjp_gelu},
    lambda p, shapes, flags, n: p,
    [((3, 4), "none"), ((3, 4), "tanh")],
    is_row_independent=always_independent,
)

# -- losses ----------------------------------------------------------------------------------------------------------


def _binary_cross_entropy_numpy(x: Array, target: Array, params: None) -> Any:
    with np.errstate(divide="ignore"):
        return -(
            target * np.maximum(np.log(x), -100) + (1 - target) * np.maximum(np.log1p(-x), -100)
        )


define_custom_vjp(
    "binary_cross_entropy",
    "self target",
    _binary_cross_entropy_numpy,
    {
        "self": lambda g, self, target: (
            g * (self - target) / call("clamp_min", (1 - self) * self, 1e-12)
        ),
        "target": lambda g, self: g * (call("log", 1 - self) - call("log", self)),
    },
    lambda p, shapes, flags, n: p,
    [((3, 4), (3, 4), None)],
    is_row_independent=always_independent,
)
