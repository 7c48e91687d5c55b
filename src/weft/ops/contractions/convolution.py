"""Convolution in any number of dimensions, and its derivatives.

The value is a matrix product over patches: windows of the padded input are views, which the product reads in place
(`weft.engine.pipeline.simplify.implicit_gemm`) as (batch, channels * window, positions), the kernel on its left. Its
derivatives are convolutions of the cotangent with mirrored kernels, one for each phase of the stride, and a product of
cotangent and patches, which are made again rather than kept. Arguments are checked by
`weft.nn.functional.conv_arguments`.
"""

from __future__ import annotations

import math
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from weft.engine.frontend.recorder import record, record_gradient
from weft.engine.ir.strides import contiguous_strides
from weft.engine.ir.tape import tape
from weft.ops.any_size import is_for_any_size
from weft.ops.primitives import (
    concat,
    conj,
    embed,
    flip,
    full,
    matmul,
    pad,
    permute,
    put,
    reduce,
    reshape,
    slice_axis,
    transpose,
)
from weft.ops.primitives import elementwise as call
from weft.ops.registry import OPS, define

if TYPE_CHECKING:
    from weft._typing import Array
    from weft.engine.backward.apply_vjp import At
    from weft.engine.frontend.tensor import Tensor


Shape = tuple[int, ...]
ROW_BYTES = 32768  # bytes of an input that may become a row of a batch
VECTOR = 16  # channels that fill a vector
TURNS = 4  # elements packed in the time that it takes to write one by itself


class Geometry(NamedTuple):
    """The movement of a kernel: per spatial dimension stride, (before, after) padding and dilation; and groups."""

    stride: Shape
    padding: tuple[tuple[int, int], ...]
    dilation: Shape
    groups: int


def margins(x: Tensor, widths: tuple[tuple[int, int], ...], first: int = 2) -> Any:
    """Zeros around the spatial dimensions, which begin at axis `first`, or edges cut off where a width is negative."""
    for axis, (before, after) in enumerate(widths, first):
        if before < 0 or after < 0:
            size = x._shape[axis] + min(before, 0) + min(after, 0)
            x = slice_axis(x, axis, max(-before, 0), size)
    grown = [(0, 0)] * len(x._shape)
    grown[first : first + len(widths)] = [(max(a, 0), max(b, 0)) for a, b in widths]
    return pad(x, tuple(grown)) if any(map(any, grown)) else x


def channels_last(x: Tensor, widths: tuple[tuple[int, int], ...]) -> Any:
    """The same zeros around x, in a copy whose channels are contiguous in memory."""
    spatial = len(widths)
    x = margins(permute(x, (0, *range(2, 2 + spatial), 1)), widths, 1)
    if not any(max(width) > 0 for width in widths):
        x = call("clone", x)
    return permute(x, (0, 1 + spatial, *range(1, 1 + spatial)))


def spread(x: Tensor, stride: Shape) -> Any:
    """Zeros between the elements: what a strided convolution skipped."""
    if max(stride) == 1:
        return x
    sizes = [(size - 1) * step + 1 for size, step in zip(x._shape[2:], stride, strict=True)]
    shape = (*x._shape[:2], *sizes)
    strides = contiguous_strides(shape)
    steps = [place * step for place, step in zip(strides[2:], stride, strict=True)]
    return embed(x, shape, 0, (*strides[:2], *steps))


def windows(x: Tensor, kernel: Shape, stride: Shape, dilation: Shape) -> Any:
    """(N, C, *in) -> (N, C, *positions, *kernel)."""
    op = OPS["unfold"]
    for number, (size, step, gap) in enumerate(zip(kernel, stride, dilation, strict=True)):
        params = (2 + number, gap * (size - 1) + 1, step)
        x = record(op, (x,), params, op.shape(params, x._shape), x._dtype)
        if gap > 1:
            x = slice_axis(x, len(x._shape) - 1, 0, size, gap)
    return x


def mirrored(weight: Tensor, groups: int) -> Any:
    """(O, C / G, *k) -> (C, O / G, *k), each kernel back to front."""
    outputs, inputs, *kernel = weight._shape
    spatial = range(2, 2 + len(kernel))
    x = reshape(flip(weight, tuple(spatial)), (groups, outputs // groups, inputs, *kernel))
    x = permute(x, (0, 2, 1, *range(3, 3 + len(kernel))))
    return reshape(x, (groups * inputs, outputs // groups, *kernel))


def compute(x: Tensor, weight: Tensor, bias: Tensor | None, geometry: Geometry) -> Any:
    """The value, in primitives: (N, C, *in), (O, C / G, *k), (O) -> (N, O, *positions)."""
    x = margins(x, geometry.padding)
    kernel, outputs, groups = weight._shape[2:], weight._shape[0], geometry.groups
    spatial, batch, channels = len(kernel), x._shape[0], x._shape[1]
    if math.prod(kernel) == 1 and max(geometry.stride) == 1:
        places, patches = x._shape[2:], x
    else:
        views = windows(x, kernel, geometry.stride, geometry.dilation)
        places = views._shape[2 : 2 + spatial]
        order = (0, 1, *range(2 + spatial, 2 + 2 * spatial), *range(2, 2 + spatial))
        patches = permute(views, order)
    positions = math.prod(places)
    patches = reshape(patches, (batch, channels * math.prod(kernel), positions))
    if not _may_join(x):
        return reshape(_by_outputs(patches, weight, bias, groups), (batch, outputs, *places))
    result = reshape(_by_positions(patches, weight, bias, groups), (batch, *places, outputs))
    return permute(result, (0, spatial + 1, *range(1, spatial + 1)))


def _may_join(x: Tensor) -> bool:
    """True if x is one example, and so small that separate ones may run as one batch
    (`weft.engine.pipeline.batching.scheduler`)."""
    small = x._shape[0] == 1 and math.prod(x._shape) * x._dtype.itemsize <= ROW_BYTES
    return bool(small and not is_for_any_size())


def _by_outputs(patches: Tensor, weight: Tensor, bias: Tensor | None, groups: int) -> Any:
    """The products, one output after the other, as in images: (N, C K, P) -> (N, O, P)."""
    batch, depth, positions = patches._shape
    outputs = weight._shape[0]
    if groups == 1:
        result = matmul(reshape(weight, (outputs, depth)), patches)  # (O, K) @ (N, K, P)
    else:
        kernels = reshape(weight, (groups, outputs // groups, depth // groups))
        patches = reshape(patches, (batch, groups, depth // groups, positions))
        result = matmul(kernels, patches)  # (G, O, K) @ (N, G, K, P) -> (N, G, O, P)
        result = reshape(result, (batch, outputs, positions))
    return result if bias is None else result + reshape(bias, (outputs, 1))


def _by_positions(patches: Tensor, weight: Tensor, bias: Tensor | None, groups: int) -> Any:
    """The same products with the kernel on the right: rows of separate examples share it, and few positions fill no
    columns: (N, C K, P) -> (N, P, O)."""
    batch, depth, positions = patches._shape
    outputs = weight._shape[0]
    if groups == 1:
        kernels = transpose(reshape(weight, (outputs, depth)))
        result = matmul(transpose(patches), kernels)  # (N, P, K) @ (K, O) -> (N, P, O)
    else:
        patches = reshape(patches, (batch, groups, depth // groups, positions))
        kernels = transpose(reshape(weight, (groups, outputs // groups, depth // groups)))
        result = matmul(transpose(patches), kernels)  # (N, G, P, K) @ (G, K, O) -> (N, G, P, O)
        result = reshape(permute(result, (0, 2, 1, 3)), (batch, positions, outputs))
    return result if bias is None else result + bias


def convolve(x: Tensor, weight: Tensor, bias: Tensor | None, geometry: Geometry) -> Any:
    """The convolution with one gradient record. A small example keeps its primitives' records instead: those of
    separate ones run as one."""
    mode = tape().mode
    if _may_join(x) or not mode.grad:
        return compute(x, weight, bias, geometry)
    mode.grad = False
    try:
        result = compute(x, weight, bias, geometry)
    finally:
        mode.grad = True
    if bias is None:
        return record_gradient(OPS["convolution"], (x, weight), tuple(geometry), result)
    return record_gradient(OPS["convolution_bias"], (x, weight, bias), tuple(geometry), result)


def transposed(y: Tensor, weight: Tensor, geometry: Geometry, sizes: Shape) -> Any:
    """The transpose of a convolution: (N, O, *positions), (O, C / G, *k) -> (N, C, *sizes)."""
    strided = [
        gap for step, gap in zip(geometry.stride, geometry.dilation, strict=True) if step > 1
    ]
    if strided and max(strided) == 1:
        return _by_phases(y, weight, geometry, sizes)
    return _by_spreading(y, weight, geometry, sizes)


def _by_spreading(y: Tensor, weight: Tensor, geometry: Geometry, sizes: Shape) -> Any:
    """A convolution of y, with zeros between its elements, and the mirrored kernel."""
    y = spread(y, geometry.stride)
    widths = []
    for axis, size in enumerate(sizes):
        reach = geometry.dilation[axis] * (weight._shape[2 + axis] - 1)
        before = reach - geometry.padding[axis][0]
        widths.append((before, size - y._shape[2 + axis] - before + reach))
    ones = (1,) * len(widths)
    back = Geometry(ones, tuple(widths), geometry.dilation, geometry.groups)
    return convolve(y, mirrored(weight, geometry.groups), None, back)


def _by_phases(y: Tensor, weight: Tensor, geometry: Geometry, sizes: Shape) -> Any:
    """Elements whose places leave the same rest modulo the stride read the same part of the kernel: a convolution for
    each of these phases, and none with zeros. Each is written to its places; where no part of the kernel reaches, zeros
    stay."""
    stride = geometry.stride
    turns = tuple([-(-size // step) for size, step in zip(sizes, stride, strict=True)])
    whole = [turn * step for turn, step in zip(turns, stride, strict=True)]
    shape = (y._shape[0], weight._shape[1] * geometry.groups, *whole)
    strides = contiguous_strides(shape)
    steps = [place * step for place, step in zip(strides[2:], stride, strict=True)]
    result = full(shape, 0, y._dtype)
    for rests in product(*map(range, stride)):
        piece = _phase(y, weight, geometry, rests, turns)
        if piece is not None:
            offset = sum(map(int.__mul__, rests, strides[2:]))
            result = put(result, piece, offset, (*strides[:2], *steps))
    cut = [(0, size - have) for size, have in zip(sizes, whole, strict=True)]
    return margins(result, tuple(cut))


def _phase(y: Tensor, weight: Tensor, geometry: Geometry, rests: Shape, turns: Shape) -> Any:
    """The elements of one phase, `turns` of them: y with the part of the kernel that they read. None if no part of the
    kernel does."""
    widths = []
    for axis, (rest, step) in enumerate(zip(rests, geometry.stride, strict=True)):
        first, start = divmod(rest + geometry.padding[axis][0], step)
        length = -(-(weight._shape[2 + axis] - start) // step)
        before = geometry.dilation[axis] * (length - 1) - first
        if length <= 0 or before <= -y._shape[2 + axis]:
            return None
        weight = slice_axis(weight, 2 + axis, start, length, step)
        widths.append((before, first + turns[axis] - y._shape[2 + axis]))
    back = Geometry((1,) * len(turns), tuple(widths), geometry.dilation, geometry.groups)
    return convolve(y, mirrored(weight, geometry.groups), None, back)


def _vjp_input(g: Tensor, weight: Tensor, at: At) -> Any:
    return transposed(g, conj(weight), Geometry(*at.params), at.shapes[0][2:])


def _vjp_weight(g: Tensor, self: Tensor, at: At) -> Any:
    geometry, shape = Geometry(*at.params), at.shapes[1]
    kernel, groups, spatial = shape[2:], geometry.groups, len(shape) - 2
    if shape[:2] == (groups, 1) and groups > 1:
        return _vjp_taps(g, margins(conj(self), geometry.padding), geometry, shape)
    arranged = channels_last if _reads_by_channels(g, shape, groups) else margins
    views = windows(arranged(self, geometry.padding), kernel, geometry.stride, geometry.dilation)
    order = (1, *range(2 + spatial, 2 + 2 * spatial), 0, *range(2, 2 + spatial))
    batch, positions = self._shape[0], math.prod(g._shape[2:])
    patches = reshape(permute(views, order), (groups, math.prod(shape[1:]), batch * positions))
    outer = reshape(
        permute(g, (1, 0, *range(2, 2 + spatial))), (groups, shape[0] // groups, batch * positions)
    )
    found = matmul(outer, transpose(conj(patches)))  # (G, O, N P) @ (G, N P, K) -> (G, O, K)
    return reshape(found, shape)


def _reads_by_channels(g: Tensor, shape: Shape, groups: int) -> bool:
    """True if the product for a kernel's derivative should read whole vectors of channels, from a copy, and write the
    kernel element by element, instead of transposing each window while it packs: sums are long then, and windows
    overlap."""
    length = math.prod(g._shape) // g._shape[1]
    return (
        shape[1] >= VECTOR and length >= TURNS * (shape[0] // groups) and math.prod(shape[2:]) > 1
    )


def _vjp_taps(g: Tensor, x: Tensor, geometry: Geometry, shape: Shape) -> Any:
    """The derivative of a kernel that has one image for each output: for each of its taps the sum of a product of two
    images, (C) each. A matrix product would have one row, and a column for each tap."""
    axes = (0, *range(2, len(shape)))
    sums = []
    for tap in product(*map(range, shape[2:])):
        view = x
        for axis, place in enumerate(tap, 2):
            start = place * geometry.dilation[axis - 2]
            view = slice_axis(view, axis, start, g._shape[axis], geometry.stride[axis - 2])
        sums.append(reshape(reduce("sum", g * view, axes), (shape[0], 1)))
    return reshape(concat(tuple(sums), 1), shape)


def _vjp_bias(g: Tensor) -> Any:
    return reduce("sum", g, (0, *range(2, len(g._shape))))


def _reference(x: Array, weight: Array, *bias: Array, params: Geometry) -> Any:
    """Each output position as an inner product, in NumPy."""
    stride, padding, dilation, groups = params
    x = np.pad(x, ((0, 0), (0, 0), *padding))
    spans = [gap * (size - 1) + 1 for size, gap in zip(weight.shape[2:], dilation, strict=True)]
    axes = tuple(range(2, x.ndim))
    views = np.lib.stride_tricks.sliding_window_view(x, spans, axes)
    steps = tuple(slice(None, None, step) for step in stride)
    gaps = tuple(slice(None, None, gap) for gap in dilation)
    views = views[(slice(None), slice(None), *steps, *gaps)]
    parts = np.split(views, groups, 1)
    kernels = np.split(weight, groups, 0)
    last = tuple(range(x.ndim, 2 * x.ndim - 2))
    products = [
        np.tensordot(part, kernel, ((1, *last), tuple(range(1, weight.ndim))))
        for part, kernel in zip(parts, kernels, strict=True)
    ]
    result = np.moveaxis(np.concatenate(products, -1), -1, 1)
    return result + bias[0].reshape(-1, *[1] * (x.ndim - 2)) if bias else result


_SAMPLES = [
    ((2, 4, 6), (4, 2, 3), ((2,), ((1, 1),), (1,), 2)),
    ((2, 3, 5, 4), (2, 3, 2, 2), ((1, 1), ((0, 1), (1, 0)), (2, 1), 1)),
]
for _name, _operands in (("convolution", "self weight"), ("convolution_bias", "self weight bias")):
    define(
        _name,
        kind="composite",
        operands=_operands,
        reference=_reference,
        domain=_SAMPLES if _name == "convolution" else [(a, b, b[:1], p) for a, b, p in _SAMPLES],
        shape=lambda p, *shapes: None,
        jvp_kind="rule",
        dtypes="float complex",
        grad_name="ConvolutionBackward0",
        vjp={"self": _vjp_input, "weight": _vjp_weight, "bias": _vjp_bias}
        if _name == "convolution_bias"
        else {"self": _vjp_input, "weight": _vjp_weight},
    )
