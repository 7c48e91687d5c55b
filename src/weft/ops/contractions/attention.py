# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False
"""Scaled dot product attention and its gradient as two primitives, and the gradient record that joins them.

Operands are (B, H, L, E), (B, G, S, E) and (B, G, S, V), where G divides H: neighbouring query heads share a head of
keys and values; a mask is added to the scores and broadcasts to (B, H, L, S). Each primitive gives one vector of all
that it makes, of four dimensions as its operands, so that batches of them align: the forward one the result (B, H, L,
V) and the statistics (B, H, L, 2), largest score and reciprocal of the sum of powers; the backward one the gradients
of query, key and value. A param gives the order of dimensions of results in memory, so that heads that are contiguous
in the operands are contiguous in the results. Scores are not kept. Where a derivative is to be differentiated again it
is composed of other rows. Arguments are checked by `weft.nn.functional.attention`; the order of sums is that of
`weft.engine.devices.cpu.attention`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import cython
import numpy as np

from weft._build.compiled import require
from weft.engine.frontend.recorder import record, record_gradient
from weft.engine.ir.strides import inverse_order
from weft.engine.ir.tape import tape
from weft.ops.primitives import (
    elementwise,
    expand,
    iota,
    matmul,
    permute,
    reduce,
    reshape,
    slice_axis,
    transpose,
    where,
)
from weft.ops.registry import OPS, define, not_differentiable

if TYPE_CHECKING:
    from weft._typing import Array
    from weft.engine.backward.apply_vjp import At
    from weft.engine.frontend.tensor import Tensor
    from weft.ops.registry import Domain, Rule


require(__name__, cython.compiled)

Shape = tuple[int, ...]
Params = tuple[
    float, bool, Shape
]  # scale; whether a row sees no later keys; order of dimensions in memory
PLAIN: Shape = (0, 1, 2, 3)
LARGEST = 256  # depth and width of a head at most, as in `weft.engine.devices.cpu.attention`


def _size(*shapes: Shape) -> int:
    return sum([math.prod(shape) for shape in shapes])


def result_shapes(query: Shape, value: Shape) -> tuple[Shape, Shape]:
    """(B, H, L, V) and (B, H, L, 2): what the forward primitive makes, one behind the other."""
    return (*query[-4:-1], value[-1]), (*query[-4:-1], 2)


def gradient_shapes(query: Shape, key: Shape, value: Shape) -> tuple[Shape, Shape, Shape]:
    """(B, H, L, E), (B, G, S, E) and (B, G, S, V): what the backward primitive makes, one behind the other."""
    return query[-4:], key[-4:], value[-4:]


def packed_shape(shapes: tuple[Shape, ...]) -> Shape:
    """The shape of arrays one behind the other."""
    return 1, 1, 1, _size(*shapes)


def _part(packed: Tensor, shapes: tuple[Shape, ...], number: int, order: Shape) -> Any:
    """One of the arrays that a primitive has left one behind the other, its dimensions in memory in some order; a batch
    of them has a dimension in front."""
    start, shape, lead = _size(*shapes[:number]), shapes[number], packed._shape[:-4]
    part = slice_axis(packed, len(lead) + 3, start, math.prod(shape))
    part = reshape(part, (*lead, *[shape[axis] for axis in order]))
    return permute(part, inverse_order((*range(len(lead)), *[len(lead) + axis for axis in order])))


def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, params: Params) -> Any:
    """The attended values (B, H, L, V), with one gradient record."""
    masks = () if mask is None else (mask,)
    name = "attention_masked" if masks else "attention"
    operands = (query, key, value, *masks)
    mode = tape().mode
    grad, mode.grad = mode.grad, False
    try:
        op = OPS[f"{name}_forward"]
        shapes = result_shapes(query._shape, value._shape)
        packed = record(op, operands, params, packed_shape(shapes), query._dtype)
        result, stats = _part(packed, shapes, 0, params[2]), _part(packed, shapes, 1, PLAIN)
    finally:
        mode.grad = grad
    return record_gradient(OPS[name], (*operands, stats), params, result)


# -- derivatives ----------------------------------------------------------------------------------------------------


def _gradient(
    number: int, g: Tensor, operands: tuple[Tensor, ...], out: Tensor, stats: Tensor, at: At
) -> Any:
    """The cotangent of query, key or value. All three are one primitive, recorded once for each, which runs once."""
    if tape().mode.grad:
        return _composed(number, g, operands, stats, at.params)
    name = "attention_masked_backward" if len(operands) > 3 else "attention_backward"
    query, key, value = [x._shape for x in operands[:3]]
    shapes = gradient_shapes(query, key, value)
    inputs = (g, *operands[:3], out, stats, *operands[3:])
    shape = (*g._shape[:-4], *packed_shape(shapes))
    packed = record(OPS[name], inputs, at.params, shape, g._dtype)
    return _part(packed, shapes, number, at.params[2])


def _shared(x: Tensor, heads: int) -> Any:
    """Heads of keys or values repeated for the query heads that share them."""
    *lead, have, length, size = x._shape
    if have == heads:
        return x
    wide = reshape(x, (*lead, have, 1, length, size))
    return reshape(
        expand(wide, (*lead, have, heads // have, length, size)), (*lead, heads, length, size)
    )


def _gathered(g: Tensor, shape: Shape) -> Any:
    """The transpose of `_shared`."""
    *lead, heads, length, size = g._shape
    have = shape[-3]
    if have == heads:
        return g
    grouped = reshape(g, (*lead, have, heads // have, length, size))
    return reshape(reduce("sum", grouped, (len(lead) + 1,)), (*lead, have, length, size))


def _composed(
    number: int, g: Tensor, operands: tuple[Tensor, ...], stats: Tensor, params: Params
) -> Any:
    """The same cotangent in rows that can be differentiated. Subtracting the largest score leaves the weights as they
    are, so that it counts as a constant."""
    query, key, value, *masks = operands
    heads, axis = query._shape[-3], len(query._shape) - 1
    keys, values = _shared(key, heads), _shared(value, heads)
    scores = matmul(query, transpose(keys)) * params[0]
    for mask in masks:
        scores = scores + mask
    if params[1]:
        rows, columns = scores._shape[-2:]
        scores = where(iota((columns,)) > reshape(iota((rows,)), (rows, 1)), -math.inf, scores)
    powers = elementwise("exp", scores - slice_axis(stats, axis, 0, 1))
    total = reduce("sum", powers, (axis,), keepdim=True)
    weights = powers / where(total == 0, 1, total)
    if number == 2:
        return _gathered(matmul(transpose(weights), g), value._shape)
    weighted = weights * matmul(g, transpose(values))
    slopes = (weighted - weights * reduce("sum", weighted, (axis,), keepdim=True)) * params[0]
    if number == 0:
        return matmul(slopes, keys)
    return _gathered(matmul(transpose(slopes), query), key._shape)


def _vjp(number: int, masked: bool) -> Any:
    if masked:
        return lambda g, query, key, value, mask, stats, result, at: _gradient(
            number, g, (query, key, value, mask), result, stats, at
        )
    return lambda g, query, key, value, stats, result, at: _gradient(
        number, g, (query, key, value), result, stats, at
    )


# -- meaning --------------------------------------------------------------------------------------------------------


def _powers(
    query: Array, key: Array, mask: tuple[Array, ...], params: Params
) -> tuple[Any, Any, Any]:
    """exp(scores - largest), the largest scores and the sums, for all heads."""
    key = np.repeat(key, query.shape[-3] // key.shape[-3], -3)
    scores = query @ np.swapaxes(key, -1, -2) * params[0]
    for term in mask:
        scores = scores + term
    if params[1]:
        scores = np.where(np.tri(*scores.shape[-2:]) > 0, scores, -np.inf)
    top = np.max(scores, -1, keepdims=True)
    top = np.where(top == -np.inf, 0, top)
    powers = np.exp(scores - top)
    total = np.sum(powers, -1, keepdims=True)
    return powers, top, np.where(total == 0, 1, total)


def _values(
    query: Array, key: Array, value: Array, *mask: Array, params: Params
) -> tuple[Any, Any]:
    powers, top, total = _powers(query, key, mask, params)
    shared = np.repeat(value, query.shape[-3] // value.shape[-3], -3)
    return powers / total @ shared, np.concatenate([top, 1 / total], -1)


def _packed(order: Shape, *parts: Array) -> Any:
    """Arrays of four dimensions one behind the other, each in an order of dimensions."""
    flat = np.concatenate([np.transpose(part, order).reshape(-1) for part in parts])
    return flat.reshape(1, 1, 1, -1)


def _forward_numpy(*operands: Array, params: Params) -> Any:
    out, stats = _values(*operands, params=params)
    return np.concatenate([_packed(params[2], out), _packed(PLAIN, stats)], -1)


def _grouped_sum(g: Array, heads: int) -> Any:
    *lead, have, length, size = g.shape
    return g.reshape(*lead, heads, have // heads, length, size).sum(-3)


def _backward_numpy(
    g: Array,
    query: Array,
    key: Array,
    value: Array,
    out: Array,
    stats: Array,
    *mask: Array,
    params: Params,
) -> Any:
    """From the saved statistics, as the kernel."""
    powers, top, _ = _powers(query, key, mask, params)
    weights = powers * np.exp(top - stats[..., :1]) * stats[..., 1:]
    group, heads = query.shape[-3] // key.shape[-3], key.shape[-3]
    keys, values = np.repeat(key, group, -3), np.repeat(value, group, -3)
    slopes = g @ np.swapaxes(values, -1, -2) - np.sum(g * out, -1, keepdims=True)
    slopes = weights * slopes * params[0]
    d_key = _grouped_sum(np.swapaxes(slopes, -1, -2) @ query, heads)
    d_value = _grouped_sum(np.swapaxes(weights, -1, -2) @ g, heads)
    return _packed(params[2], slopes @ keys, d_key, d_value)


# -- rows -----------------------------------------------------------------------------------------------------------

_SAMPLES: list[tuple[Shape, Shape, Shape, Shape, Params]] = [
    ((2, 2, 5, 3), (2, 2, 4, 3), (2, 2, 4, 6), (2, 2, 5, 4), (0.5, False, (0, 2, 1, 3))),
    ((1, 4, 5, 2), (1, 2, 5, 2), (1, 2, 5, 2), (1, 1, 1, 5), (0.75, True, PLAIN)),
    ((2, 1, 3, 20), (2, 1, 70, 20), (2, 1, 70, 3), (1, 1, 3, 70), (0.25, False, (2, 0, 1, 3))),
]


def _kernel_op(name: str, operands: str, shape: Rule, reference: Rule, domain: Domain) -> None:
    define(
        name,
        kind="contract",
        form="attention_gradient" if "cotangent" in operands else "attention",
        operands=operands,
        shape=shape,
        reference=reference,
        domain=domain,
        batch=lambda p, shapes, flags, n: p,
        dtypes="float32 float64",
        vjp=not_differentiable("attention keeps one gradient record for the whole"),
    )


for _masked in (False, True):
    _name = "attention_masked" if _masked else "attention"
    _mask = " mask" if _masked else ""
    _samples = [(q, k, v, *([m] if _masked else []), p) for q, k, v, m, p in _SAMPLES]
    _kernel_op(
        f"{_name}_forward",
        f"query key value{_mask}",
        lambda p, q, k, v, *mask: packed_shape(result_shapes(q, v)),
        _forward_numpy,
        _samples,
    )
    _kernel_op(
        f"{_name}_backward",
        f"cotangent query key value out stats{_mask}",
        lambda p, g, q, k, v, *rest: packed_shape(gradient_shapes(q, k, v)),
        _backward_numpy,
        [
            ((*q[:3], v[3]), q, k, v, (*q[:3], v[3]), (*q[:3], 2), *rest)
            for q, k, v, *rest in _samples
        ],
    )
    define(
        _name,
        kind="composite",
        operands=f"query key value{_mask} stats",
        shape=lambda p, q, k, v, *rest: (*q[:-1], v[-1]),
        reference=lambda *operands, params: _values(*operands, params=params)[0],
        domain=_samples,
        batch=lambda p, shapes, flags, n: p,
        jvp_kind="rule",
        dtypes="float32 float64",
        grad_name="ScaledDotProductFlashAttentionForCpuBackward0",
        vjp={name: _vjp(i, _masked) for i, name in enumerate(("query", "key", "value"))},
    )

__all__ = ["LARGEST", "PLAIN", "attend", "gradient_shapes", "result_shapes"]
