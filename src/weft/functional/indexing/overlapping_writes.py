"""Writes to tensors in which several positions are one element of memory, such as the result of `expand`. Functions
that set numbers are allowed, with a warning where PyTorch has deprecated it; `weft.engine.frontend.inplace.mutate`
refuses all others.

They take such a tensor, the positions to write, and values, and write to the memory behind, as a vector.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from weft.engine.frontend.tensor import Tensor
from weft.engine.ir.strides import overlaps
from weft.functional.indexing.advanced_index import ResolvedIndex
from weft.functional.shape.strided_regions import as_strided
from weft.functional.support.variants import named
from weft.tensor.creation.ranges import arange

if TYPE_CHECKING:
    from weft._typing import Scalar, TensorLike

Function = Callable[..., Any]

_MASK = "tensor[mask] = scalar"


def shows_twice(x: Tensor) -> bool:
    """True if two positions of a tensor are one element of memory."""
    return isinstance(x, Tensor) and x.strides is not None and bool(overlaps(x._shape, x.strides))


def write_memory(x: Tensor, select: Function, values: TensorLike, accumulate: bool = False) -> Any:
    """Set what a tensor shows at the places that `select` takes out of one of its shape; the last value stays."""
    extent = 1 + sum((size - 1) * step for size, step in zip(x._shape, x.strides, strict=True))
    memory = as_strided(x, (extent,), (1,), x.offset)
    places = select(as_strided(arange(extent), x._shape, x.strides))
    ResolvedIndex("x[index] = value", memory, [(0, places)]).assign(memory, values, accumulate)
    return x


def set_all(x: Tensor, number: Scalar) -> Any:
    """`fill_`."""
    return write_memory(x, lambda places: places, number)


def set_indexed(x: Tensor, take: Function, values: TensorLike, accumulate: bool) -> None:
    """`x[index] = values`, where `take` does the indexing."""
    _warn(x, "index_put_", "tensor[indices] = tensor")
    write_memory(x, take, values, accumulate)


def set_outside(x: Tensor, within: Tensor) -> Any:
    """`tril_` and `triu_`: 0 where a mask does not hold."""
    return write_memory(x, lambda places: places[~within], 0)


def _set_masked(x: Tensor, mask: Tensor, value: float) -> Any:
    _warn(x, "masked_fill_", _MASK)
    return write_memory(x, lambda places: places[mask.expand(x._shape)], value)


def _set_slices(x: Tensor, dim: int, index: Tensor, value: int) -> Any:
    _warn(x, "index_fill_", _MASK)
    return write_memory(x, lambda places: places.index_select(dim, index), value)


def _warn(x: Tensor, name: str, example: str) -> None:
    """PyTorch's warning of a write to an expanded tensor, which it will refuse one day."""
    pairs = zip(x._shape, x.strides, strict=True)
    if any(step == 0 and size > 1 for size, step in pairs):
        warnings.warn(
            f"Use of {name} on expanded tensors is deprecated. Please clone() the tensor before performing this "
            f"operation. This also applies to advanced indexing e.g. {example}",
            UserWarning,
            stacklevel=5,
        )


_WRITERS: dict[str, Function] = {"masked_fill_": _set_masked, "index_fill_": _set_slices}


def taking_overlaps(method: Function) -> Function:
    """An in-place method that takes tensors that show an element twice."""
    write: Function = _WRITERS[method.__name__]

    def taking(self: Tensor, *arguments: Tensor | float, **keywords: object) -> Any:
        return (write if shows_twice(self) else method)(self, *arguments, **keywords)

    made = named(taking, method.__name__, method.__doc__ or "")
    made.__module__ = method.__module__
    made.__wrapped__ = method  # type: ignore[attr-defined]  # its signature, for those who ask
    return made
