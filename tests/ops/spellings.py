"""How a row of the op table is spelled as a public function, the same in PyTorch: (library, operands, params)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.ops.elementwise.bits import INTEGER_OF
from weft.ops.random_numbers import MANTISSA

Spelling = Callable[..., Any]

# Rows that no public function records alone: how the library makes random numbers, region writes and batches.
PRIVATE = (
    *("random_bits", *(f"uniform_{kind}" for kind in MANTISSA), "normal_float32", "normal_float64"),
    *("random_wide", "random_integers"),
    "collective",  # tests/distributed
    "cdist",  # PyTorch's value goes through products: functional/test_distances.py
    *("order", "nth_place", "running_place"),  # as sort, topk, cummax and others
    *(
        "scatter_maximum",
        "scatter_minimum",
        "scatter_product",
    ),  # as scatter_reduce and index_reduce
    *("put", "gather_rows", "iota", "standardize", "tied", "first_power"),
    *("sigmoid_mul", "sigmoid_mul_tanh", "sigmoid_mul_by_gate"),  # what cells are made of
    *("sigmoid_mul_tanh_by_gate", "sigmoid_mul_tanh_by_other"),
    *("blend", "add_product", "add_quotient"),  # what updates are made of
    *("attention_forward", "attention_backward", "picked_log_softmax"),
    *("attention_masked_forward", "attention_masked_backward"),
    *("resample", "resample_transposed"),  # as interpolate: nn/functional/test_interpolate.py
    *("resample_products", "resample_largest"),  # as bags: nn/functional/test_embedding_bags.py
    *(
        "lstm_memory",
        "lstm_output",
        "gru",
        "cross_entropy",
    ),  # compared as cells and losses, tests/nn
    *(name for kind in INTEGER_OF for name in (f"{kind}_bits", f"{kind}_of_bits")),  # as views
)
_NAMED = (
    "add sub mul div floor_divide remainder fmod neg abs sign sgn reciprocal square pow maximum minimum atan2 exp exp2 "
    "expm1 log log2 log10 log1p sqrt rsqrt sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh sigmoid erf "
    "erfc relu floor ceil trunc round eq ne lt le gt ge isnan isinf isfinite logical_and logical_or logical_xor "
    "logical_not bitwise_and bitwise_or bitwise_xor bitwise_not bitwise_left_shift bitwise_right_shift where conj real "
    "imag complex matmul logaddexp sinc erfinv lgamma digamma gcd nextafter"
)
_SPECIAL = (
    "i0 i0e i1 i1e bessel_j0 bessel_j1 bessel_y0 bessel_y1 modified_bessel_k0 modified_bessel_k1 "
    "scaled_modified_bessel_k0 scaled_modified_bessel_k1"
)


def _named(name: str) -> Spelling:
    def spelled(lib: Any, *operands: Any, params: Any = None) -> Any:
        return getattr(lib, name)(*operands)

    return spelled


def _special(name: str) -> Spelling:
    return lambda lib, x, params: getattr(lib.special, name)(x)


def _reduction(name: str) -> Spelling:
    return lambda lib, x, params: getattr(lib, name)(x, params[0], params[1])


def _slice(lib: Any, x: Any, params: Any) -> Any:
    axis, start, length, step = params
    return x[(slice(None),) * axis + (slice(start, start + length * step, step),)]


def _convolution(lib: Any, x: Any, weight: Any, *bias: Any, params: Any) -> Any:
    stride, padding, dilation, groups = params
    F = lib.nn.functional
    convolve = F.conv1d if len(stride) == 1 else F.conv2d
    flat = [side for pair in reversed(padding) for side in pair]
    return convolve(F.pad(x, flat), weight, *bias, stride=stride, dilation=dilation, groups=groups)


def _attention(lib: Any, q: Any, k: Any, v: Any, mask: Any, params: Any) -> Any:
    scale, causal, _ = params
    if mask is not None and causal:
        rows, columns = q.shape[-2], k.shape[-2]
        future = lib.ones(rows, columns).triu(1) > 0
        mask, causal = mask.masked_fill(future, float("-inf")), False
    return lib.nn.functional.scaled_dot_product_attention(
        q, k, v, mask, is_causal=causal, scale=scale, enable_gqa=True
    )


SPELLINGS: dict[str, Spelling] = {name: _named(name) for name in _NAMED.split()}
SPELLINGS.update({name: _special(name) for name in _SPECIAL.split()})
SPELLINGS.update(
    {
        "mantissa": lambda lib, x, params: lib.frexp(x).mantissa,
        "exponent": lambda lib, x, params: lib.frexp(x).exponent,
        "cube": lambda lib, x, params: x**3,
        "zeta": lambda lib, s, q, params: lib.special.zeta(s, q),
        "trigamma": lambda lib, x, params: lib.polygamma(1, x),
        "ndtri": lambda lib, x, params: lib.special.ndtri(x),
        "mean": _reduction("mean"),
        "clamp": lambda lib, x, params: lib.clamp(x, *params),
        "view_as_real": lambda lib, x, params: lib.view_as_real(x),
        "view_as_complex": lambda lib, x, params: lib.view_as_complex(x.contiguous()),
        "clamp_between": lambda lib, x, low, high, params: lib.clamp(x, low, high),
        "trunc_divide": lambda lib, a, b, params: lib.div(a, b, rounding_mode="trunc"),
        "clamp_min": lambda lib, a, b, params: lib.clamp(a, min=b),
        "clamp_max": lambda lib, a, b, params: lib.clamp(a, max=b),
        "cast": lambda lib, x, params: x.to(getattr(lib, params.name)),
        "clone": lambda lib, x, params: x.clone(),
        "view": lambda lib, x, params: x.reshape(params),
        "permute": lambda lib, x, params: x.permute(params),
        "expand": lambda lib, x, params: x.expand(params),
        "slice": _slice,
        "select": lambda lib, x, params: x.select(*params),
        "unfold": lambda lib, x, params: x.unfold(*params),
        "diagonal": lambda lib, x, params: x.diagonal(*params),
        "flip": lambda lib, x, params: x.flip(params),
        "strided": lambda lib, x, params: x.as_strided((2,), params[1], params[0]),
        "cat": lambda lib, *xs, params: lib.cat(xs, params[0]),
        "stack": lambda lib, *xs, params: lib.stack(xs, params[0]),
        "sum": _reduction("sum"),
        "amax": _reduction("amax"),
        "amin": _reduction("amin"),
        "any": _reduction("any"),
        "all": _reduction("all"),
        "prod": lambda lib, x, params: lib.prod(x, params[0][0], params[1]),
        "argmax": lambda lib, x, params: lib.argmax(x, params[0][0], params[1]),
        "argmin": lambda lib, x, params: lib.argmin(x, params[0][0], params[1]),
        "max": lambda lib, x, params: lib.max(x, params[0][0], params[1]).values,
        "min": lambda lib, x, params: lib.min(x, params[0][0], params[1]).values,
        "max_all": lambda lib, x, params: lib.max(x),
        "min_all": lambda lib, x, params: lib.min(x),
        "median": lambda lib, x, params: lib.median(x),
        "hypot": lambda lib, x, y, params: lib.hypot(x, y),
        "cumsum": lambda lib, x, params: lib.cumsum(x, params[0]),
        "cumprod": lambda lib, x, params: lib.cumprod(x, params[0]),
        "gather": lambda lib, x, index, params: lib.gather(x, params[0], index),
        "take": lambda lib, x, index, params: lib.index_select(x, params[0], index.reshape(-1)),
        "scatter": lambda lib, x, i, source, params: lib.scatter(x, params[0], i, source),
        "scatter_add": lambda lib, x, i, source, params: lib.scatter_add(x, params[0], i, source),
        "linear": lambda lib, x, weight, params: lib.nn.functional.linear(x, weight),
        "linear_bias": lambda lib, x, weight, bias, params: lib.nn.functional.linear(
            x, weight, bias
        ),
        "attention": lambda lib, q, k, v, params: _attention(lib, q, k, v, None, params),
        "attention_masked": lambda lib, *operands, params: _attention(lib, *operands, params),
        "softmax": lambda lib, x, params: lib.softmax(x, params[0]),
        "logsumexp": lambda lib, x, params: lib.logsumexp(x, params, True),
        "log_softmax": lambda lib, x, params: lib.log_softmax(x, params[0]),
        "norm": lambda lib, x, params: lib.linalg.vector_norm(x, 2, params[0], True),
        "power_norm": lambda lib, x, params: lib.linalg.vector_norm(x, *params, True),
        "gelu": lambda lib, x, params: lib.nn.functional.gelu(x, approximate=params),
        "binary_cross_entropy": lambda lib, x, y, params: lib.nn.functional.binary_cross_entropy(
            x, y, reduction="none"
        ),
        "convolution": _convolution,
        "convolution_bias": _convolution,
    }
)


def _flat_slices(name: str) -> Spelling:
    """index_add and index_copy take a vector of indices: an index of more dimensions is flattened with its source."""

    def spelled(lib: Any, x: Any, index: Any, source: Any, params: Any) -> Any:
        axis = params[0]
        shape = (*x.shape[:axis], index.numel(), *x.shape[axis + 1 :])
        return getattr(lib, name)(x, axis, index.reshape(-1), source.reshape(shape))

    return spelled


SPELLINGS["take_add"] = _flat_slices("index_add")
SPELLINGS["take_put"] = _flat_slices("index_copy")
