# ruff: noqa: A001, A002 - PyTorch's names
"""Fake quantization: values as they would be after a round trip through integers, with a gradient that passes where
they are in range (a straight-through estimator), for training that is aware of quantization.
"""

from __future__ import annotations

from typing import Any

from weft.engine.api.api_function import publish
from weft.engine.api.call_cache import composed_of_primitives
from weft.engine.frontend.recorder import cast
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir import dtype as dtypes
from weft.errors import ArgumentError, DTypeError, ShapeError
from weft.functional.support import host
from weft.ops.primitives import elementwise as call
from weft.ops.primitives import where
from weft.tensor.arguments import TYPE_NAMES, describe, need_tensor, no_kernel


@composed_of_primitives
def fake_quantize_per_tensor_affine(
    input: Tensor,
    scale: float | Tensor,
    zero_point: int | Tensor,
    quant_min: int,
    quant_max: int,
) -> Any:
    """Values rounded to multiples of `scale`, `quant_min` to `quant_max` of them counted from -`zero_point`.

    Args: input, floating point, of any shape; scale and zero_point, numbers or tensors of one element; quant_min and
    quant_max, the range of the integers. Returns: a tensor like input. Its gradient is passed where the integer is in
    the range. Errors: RuntimeError on a range without elements, a zero point outside it, integers.

    >>> import weft
    >>> weft.fake_quantize_per_tensor_affine(weft.tensor([-1.0, 0.26, 90.0]), 0.1, 0, 0, 255)
    tensor([ 0.0000,  0.3000, 25.5000])

    Source: Jacob et al., Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference
    (2018).
    """
    _need_range(need_tensor("fake_quantize_per_tensor_affine", input), quant_min, quant_max)
    if isinstance(zero_point, Tensor):
        zero_point = cast(zero_point, dtypes.int32)
    else:
        _need_zero_point(zero_point, zero_point, quant_min, quant_max)
    return _rounded(input, scale, zero_point, quant_min, quant_max)


@composed_of_primitives
def fake_quantize_per_channel_affine(
    input: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int
) -> Any:
    """`fake_quantize_per_tensor_affine` with a scale and a zero point for each index along a dimension.

    Args: input, floating point, of any shape; scale and zero_point (int32 or floating point), one element for each
    index of `axis`; quant_min and quant_max, the range of the integers. Returns: a tensor like input. Errors:
    RuntimeError on a range without elements, a zero point outside it, integers, other lengths.

    >>> import weft
    >>> x = weft.tensor([[0.26, 0.26], [7.0, 7.0]])
    >>> weft.fake_quantize_per_channel_affine(x, weft.tensor([0.1, 1.0]), weft.tensor([0.0, 3.0]), 1, 0, 9)
    tensor([[0.3000, 0.0000],
            [0.9000, 6.0000]])

    Source: as `fake_quantize_per_tensor_affine`.
    """
    _need_range(need_tensor("fake_quantize_per_channel_affine", input), quant_min, quant_max)
    _need_channels(input, scale, zero_point, axis)
    if not zero_point._dtype.is_floating_point and zero_point.numel():
        points = host.to_numpy(zero_point)
        _need_zero_point(points.min(), points.max(), quant_min, quant_max)
    shape = [-1 if dim == axis else 1 for dim in range(len(input._shape))]
    return _rounded(input, scale.reshape(shape), zero_point.reshape(shape), quant_min, quant_max)


def _rounded(
    input: Tensor, scale: float | Tensor, zero_point: int | Tensor, quant_min: int, quant_max: int
) -> Any:
    """Values of the nearest integers in a range; nan is the smallest one. A zero point that is no integer is added
    before rounding."""
    fixed = input.detach()
    scaled = fixed * (1 / scale)
    if isinstance(zero_point, Tensor) and zero_point._dtype.is_floating_point:
        whole = call("round", scaled + zero_point)
    else:
        whole = call("round", scaled) + zero_point
    held = (whole >= quant_min) & (whole <= quant_max)
    nearest = where(whole >= quant_min, whole.clamp(max=quant_max), quant_min)
    value = cast((nearest - zero_point) * scale, input._dtype)
    # exactly the value: where it is held, what is added is zero
    return value.detach() + where(held, input - fixed, 0)


def _need_range(input: Tensor, quant_min: int, quant_max: int) -> None:
    if not input._dtype.is_floating_point:
        raise no_kernel("fake_quantize_tensor_cachemask_kernel_type_handling", input)
    if quant_min > quant_max:
        raise ArgumentError(
            "`quant_min` should be less than or equal to `quant_max`.",
            expected="quant_min <= quant_max",
            got=f"{quant_min} and {quant_max}",
            fix="pass the smaller one first",
        )


def _need_zero_point(least: int, most: int, quant_min: int, quant_max: int) -> None:
    if least < quant_min or most > quant_max:
        raise ArgumentError(
            "`zero_point` must be between `quant_min` and `quant_max`.",
            expected=f"{quant_min} to {quant_max}",
            got=f"{least}" if least == most else f"{least} to {most}",
            fix="choose the zero point among the integers of the range",
        )


def _need_channels(input: Tensor, scale: Tensor, zero_point: Tensor, axis: int) -> None:
    name = "fake_quantize_per_channel_affine"
    need_tensor(name, scale, "scale", 2)
    need_tensor(name, zero_point, "zero_point", 3)
    if zero_point._dtype not in (dtypes.int32, dtypes.float32, dtypes.float16):
        raise DTypeError(
            f"Zero-point must be Int32, Float or Half, found {TYPE_NAMES[zero_point._dtype.name]}",
            expected="int32, float32 or float16",
            got=describe("zero_point", zero_point),
            fix="pass zero_point.int()",
        )
    if scale._shape != zero_point._shape:
        raise ShapeError(
            "scale and zero-point need to have the same dimensions",
            expected="one scale and one zero point for each channel",
            got=f"{describe('scale', scale)}, {describe('zero_point', zero_point)}",
            fix="expand the shorter one",
        )
    if not 0 <= axis < len(input._shape):
        raise ArgumentError(
            "`axis` must be between 0 and number of dimensions of input",
            expected=f"0 to {len(input._shape) - 1}",
            got=str(axis),
            fix="count the dimension from the front",
        )
    if scale._shape != (input._shape[axis],):
        raise ShapeError(
            "dimensions of scale and zero-point are not consistent with input tensor",
            expected=f"{input._shape[axis]} elements, as dimension {axis} has",
            got=describe("scale", scale),
            fix="pass the axis of the channels",
        )


publish(globals())
