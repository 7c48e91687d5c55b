# ruff: noqa: A001, A002 - PyTorch's names
# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False, annotation_typing=False
"""Writing into a tensor: copy_, fill_, zero_, triangles and diagonals, and what index assignment needs to fit a value
to a region."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cython

from weft._build.compiled import require
from weft.engine.frontend.inplace import in_place, mutate
from weft.engine.frontend.recorder import cast
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir import dtype as dtypes
from weft.errors import ArgumentError, ShapeError
from weft.functional.elementwise.comparison import fill_value
from weft.functional.indexing.advanced_index import fits
from weft.functional.indexing.overlapping_writes import set_all, set_outside, shows_twice
from weft.functional.shape.rearrange import triangle
from weft.functional.shape.slicing import diagonal
from weft.functional.support.variants import by_name
from weft.ops.primitives import elementwise as call
from weft.ops.primitives import expand, full, reshape
from weft.tensor.arguments import describe, need_tensor

if TYPE_CHECKING:
    from weft._typing import TensorLike
    from weft.tensor.layout import MemoryFormat


require(__name__, cython.compiled)


def copy_(input: Tensor, src: Tensor, non_blocking: bool = False) -> Any:
    """Take over the values of `src`, broadcast and converted, in place."""
    if isinstance(src, int | float | complex):
        return input.fill_(src)
    if not isinstance(src, Tensor):
        need_tensor("copy_", src, "other", 1)
    return mutate(input, fitted(src, input))


def fitted(source: Tensor, target: Tensor) -> Any:
    """A tensor converted and broadcast to the type and shape of another. Errors: ShapeError."""
    source = cast(source, target._dtype)
    if source._shape == target._shape:
        return source
    if not fits(source._shape, target._shape):
        place = len(target._shape) - 1
        raise ShapeError(
            f"The size of tensor a ({target._shape[place] if target._shape else 1}) must match the size of tensor b "
            f"({source._shape[-1] if source._shape else 1}) at non-singleton dimension {max(place, 0)}",
            expected=f"a shape that broadcasts to {list(target._shape)}",
            got=describe("src", source),
            fix="reshape or expand the source",
        )
    return expand(source, target._shape)


def fill_(input: Tensor, value: TensorLike) -> Any:
    """Set every element to a number or a 0-d tensor, in place."""
    if shows_twice(input) and not isinstance(value, Tensor):
        return set_all(input, value)
    return _filled(input, value)


def _filled(input: Tensor, value: TensorLike) -> Any:
    if isinstance(value, Tensor):
        if value._shape != ():
            raise ArgumentError(
                f"fill_ only supports 0-dimension value tensor but got tensor with {len(value._shape)} dimensions.",
                expected="a number or a 0-d tensor",
                got=describe("value", value),
                fix="use copy_",
            )
        return mutate(input, expand(cast(value, input._dtype), input._shape))
    return mutate(input, full(input._shape, fill_value(input._dtype, value), input._dtype))


def zero_(input: Tensor) -> Any:
    """Set every element to 0, in place."""
    if shows_twice(input):
        return set_all(input, 0)
    return mutate(input, full(input._shape, 0, input._dtype))


def clone(input: Tensor, *, memory_format: MemoryFormat | None = None) -> Any:
    """A copy with its own storage; gradients flow through."""
    need_tensor("clone", input)
    return call("clone", input)


def assign_region(region: Tensor, new: TensorLike) -> None:
    """`x[index] = new` for a region that is a view: numbers fill, tensors drop leading 1s and broadcast."""
    if not isinstance(new, Tensor):
        _filled(region, new)
        return
    shape = new._shape
    while len(shape) > len(region._shape) and shape[0] == 1:
        shape = shape[1:]
    source: Tensor = new if shape is new._shape else reshape(new, shape)
    if source._shape != region._shape and not fits(source._shape, region._shape):
        raise _cannot_assign(region, source)
    mutate(region, fitted(source, region))


def _cannot_assign(region: Tensor, new: Tensor) -> ShapeError:
    have, want = new._shape, region._shape
    lead = len(want) - len(have)
    place = next(
        (i for i in range(len(have)) if i + lead >= 0 and have[i] not in (1, want[i + lead])), 0
    )
    if lead < 0:
        text = (
            f"expand({new.type()}{{{list(have)}}}, size={list(want)}): the number of sizes provided "
            f"({len(want)}) must be greater or equal to the number of dimensions in the tensor ({len(have)})"
        )
    else:
        text = (
            f"The expanded size of the tensor ({want[place + lead]}) must match the existing size ({have[place]}) "
            f"at non-singleton dimension {place + lead}.  Target sizes: {list(want)}.  Tensor sizes: {list(have)}"
        )
    return ShapeError(
        text,
        expected=f"a value that broadcasts to {list(want)}",
        got=describe("value", new),
        fix="reshape the value, or index a region of its shape",
    )


def tril_(input: Tensor, diagonal: int = 0) -> Any:
    """`tril`, in place."""
    return _triangle_of("tril", input, diagonal)


def triu_(input: Tensor, diagonal: int = 0) -> Any:
    """`triu`, in place."""
    return _triangle_of("triu", input, diagonal)


def _triangle_of(name: str, input: Tensor, diagonal: int) -> Any:
    if shows_twice(input):
        return set_outside(input, triangle(name, full(input._shape, True, dtypes.bool_), diagonal))
    return in_place(input, triangle(name, input, diagonal))


def fill_diagonal_(input: Tensor, fill_value: int, wrap: bool = False) -> Any:
    """One number at places of equal indices, in place. With `wrap`, a matrix of more rows than columns begins again
    below an empty row. Errors: ShapeError below two dimensions, and on other sizes of more."""
    shape = need_tensor("fill_diagonal_", input)._shape
    if len(shape) < 2 or (len(shape) > 2 and len(set(shape)) > 1):
        raise ShapeError(
            "all dimensions of input must be of equal length"
            if len(shape) > 1
            else "dimensions must larger than 1",
            expected="a matrix, or more dimensions of one size",
            got=describe("input", input),
            fix="use input.diagonal(dim1=, dim2=).fill_(value) for matrices in a batch",
        )
    block = shape[1] if wrap and len(shape) == 2 else shape[0]
    for first in range(0, shape[0], block + 1):
        region = input[first : first + block]
        while len(region._shape) > 1:
            region = diagonal(region)
        fill_(region, fill_value)
    return input


FUNCTIONS: dict[str, Any] = {"clone": clone, "fill_": fill_, "zero_": zero_}
METHODS: dict[str, Any] = {
    **by_name(copy_, fill_, zero_, clone, fill_diagonal_),
    "tril_": tril_,
    "triu_": triu_,
}
