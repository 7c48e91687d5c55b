# ruff: noqa: A002 - PyTorch's names
"""Memory seen as elements of another type: `view(dtype)`, and what its lens shows.

A tensor and a dtype come in; an untracked handle of the same storage goes out, whose strides and offset count elements
of that dtype. Values are computed where they are read: complex numbers as pairs of floats, floats as the integers of
their bits, and those cut into smaller ones or joined to larger ones (the lowest first, as all machines here have them).
"""

from __future__ import annotations

from typing import Any

from weft.engine.frontend.recorder import cast
from weft.engine.frontend.tensor import Tensor
from weft.engine.frontend.views import logical_strides, retyped
from weft.engine.ir import dtype as dtypes
from weft.engine.ir.dtype import DType
from weft.engine.ir.view_transform import BITS, CONJUGATE, JOIN, NEGATE, PARTS
from weft.errors import ArgumentError
from weft.ops import OPS
from weft.ops.composite.own_derivatives import joined_parts, paired_parts
from weft.ops.elementwise.bits import INTEGER_OF
from weft.ops.primitives import concat, iota, put, reduce, reshape, slice_axis
from weft.ops.primitives import elementwise as call
from weft.tensor.arguments import TYPE_NAMES, Shape, describe

_SIGNED = {1: dtypes.int8, 2: dtypes.int16, 4: dtypes.int32, 8: dtypes.int64}


# -- the view ------------------------------------------------------------------------------------------------------


def view_dtype(input: Tensor, dtype: DType) -> Any:
    """The tensor's memory as elements of another type, without a gradient. The last dimension grows or shrinks with the
    size of an element.

    Errors: RuntimeError where sizes, strides or the offset do not allow it, and on conjugates and negatives.
    """
    for bit, words in (
        (CONJUGATE, "conjugate view tensors"),
        (NEGATE, "tensors with negative bit set"),
    ):
        if input.view_transform & bit:
            raise _refused(
                input,
                f"torch.Tensor.view is not supported for {words} when converting to a different dtype.",
                "a tensor that shows what is in memory",
                "call .resolve_conj().resolve_neg() first",
            )
    shape, strides, offset = _laid_out(input, dtype)
    view_transform = input.view_transform & ~(PARTS | JOIN) | BITS
    if input._storage is None or input._storage.node.dtype is dtype:
        view_transform = 0 if input._storage is not None else BITS
    return retyped(input, OPS["view"], dtype, shape, strides, offset, view_transform)


def _laid_out(input: Tensor, dtype: DType) -> tuple[Shape, Shape, int]:
    """Shape, strides and offset in elements of a type. Errors: ArgumentError."""
    shape, strides, offset = input._shape, logical_strides(input), input.offset
    have, size = input._dtype.itemsize, dtype.itemsize
    if have == size:
        return shape, strides, offset
    pair = f"to view {TYPE_NAMES[input._dtype.name]} as {TYPE_NAMES[dtype.name]} (different element sizes)"
    if not shape:
        raise _refused(
            input, f"self.dim() cannot be 0 {pair}", "at least one dimension", "unsqueeze(0) first"
        )
    fix = "call .contiguous() or .clone() first"
    if strides[-1] != 1:
        text = f"self.stride(-1) must be 1 {pair}, but got {strides[-1]}"
        raise _refused(input, text, "a last dimension without gaps", fix)
    if have > size:
        ratio = have // size
        wider = tuple([stride * ratio for stride in strides[:-1]])
        return (*shape[:-1], shape[-1] * ratio), (*wider, 1), offset * ratio
    ratio = size // have
    whole = f"must be divisible by {ratio} {pair}, but got"
    if shape[-1] % ratio:
        text = f"self.size(-1) {whole} {shape[-1]}"
        raise _refused(input, text, f"a multiple of {ratio}", "cut or pad the last dimension")
    if offset % ratio:
        raise _refused(
            input, f"self.storage_offset() {whole} {offset}", f"a multiple of {ratio}", fix
        )
    for axis, stride in enumerate(strides[:-1]):
        if stride % ratio:
            text = f"self.stride({axis}) {whole} {stride}"
            raise _refused(input, text, f"a multiple of {ratio}", fix)
    narrower = tuple([stride // ratio for stride in strides[:-1]])
    return (*shape[:-1], shape[-1] // ratio), (*narrower, 1), offset // ratio


def _refused(input: Tensor, text: str, expected: str, fix: str) -> ArgumentError:
    return ArgumentError(text, expected=expected, got=describe("input", input), fix=fix)


# -- what it shows ---------------------------------------------------------------------------------------------------


def as_type(flat: Tensor, dtype: DType) -> Any:
    """The memory of a vector as a vector of another type; bytes at the end that fill no element are left out."""
    words = _words(flat)
    size = dtype.to_real().itemsize
    words = _cut(words, size) if words._dtype.itemsize >= size else _joined(words, size)
    if not dtype.is_complex:
        return _from_words(words, dtype)
    pairs = words._shape[0] // 2
    parts = _from_words(slice_axis(words, 0, 0, 2 * pairs), dtype.to_real())
    return joined_parts(reshape(parts, (pairs, 2)))


def written_into(flat: Tensor, new: Tensor, offset: int, strides: Shape) -> Any:
    """The vector `flat` with `new` in a region of its memory, counted in elements of the type of `new`. All other bytes
    stay: a bool is written as a byte of 0 or 1, as those that it is not may hold more than that."""
    if new._dtype is dtypes.bool_:
        new = cast(new, dtypes.uint8)
    return _restored(flat, put(as_type(flat, new._dtype), new, offset, strides))


def _restored(flat: Tensor, shown: Tensor) -> Any:
    """The vector whose memory shows `shown` through `as_type`; what `as_type` leaves out is as in `flat`."""
    made = as_type(shown, flat._dtype)
    count, length = made._shape[0], flat._shape[0]
    if count == length:
        return made
    return concat((made, slice_axis(flat, 0, count, length - count)), 0)


def _words(flat: Tensor) -> Any:
    """The bits of a vector as signed integers; those of a complex number are two."""
    if flat._dtype.is_complex:
        flat = reshape(paired_parts(flat), (2 * flat._shape[0],))
    if flat._dtype.is_floating_point:
        return call(f"{flat._dtype.name}_bits", flat)
    return cast(flat, _SIGNED[flat._dtype.itemsize])


def _from_words(words: Tensor, dtype: DType) -> Any:
    """The real elements that signed integers of their size are the bits of; a bool is true where a bit is set."""
    if dtype.name in INTEGER_OF:
        return call(f"{dtype.name}_of_bits", words)
    return cast(words, dtype)


def _shifts(count: int, size: int, dtype: DType) -> Any:
    return cast(iota((1, count)) * (8 * size), dtype)


def _cut(words: Tensor, size: int) -> Any:
    """Integers as several of `size` bytes each, the lowest first."""
    dtype, length = words._dtype, words._shape[0]
    ratio = dtype.itemsize // size
    if ratio == 1:
        return words
    spread = call("bitwise_right_shift", reshape(words, (length, 1)), _shifts(ratio, size, dtype))
    return reshape(cast(spread, _SIGNED[size]), (length * ratio,))  # the upper bits fall away


def _joined(words: Tensor, size: int) -> Any:
    """Neighbouring integers as one of `size` bytes, the lowest first."""
    have, dtype = words._dtype.itemsize, _SIGNED[size]
    ratio = size // have
    count = words._shape[0] // ratio
    rows = reshape(slice_axis(words, 0, 0, count * ratio), (count, ratio))
    plain = call("bitwise_and", cast(rows, dtype), (1 << 8 * have) - 1)
    return reduce("sum", call("bitwise_left_shift", plain, _shifts(ratio, have, dtype)), (1,))
