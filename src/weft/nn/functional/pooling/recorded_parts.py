"""The parts of adaptive pooling, and those as recorded operations, so that one record holds for all sizes.

`adaptive` makes the same as arrays, where sizes are known. A size stands in the record as a number, by which an export
knows it again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from weft.engine.frontend.recorder import cast
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir.dtype import DType
from weft.ops.primitives import elementwise as call
from weft.ops.primitives import iota, reshape


class Stretches(NamedTuple):
    """The windows of one adaptive dimension: the i-th of `count` nearly equal, perhaps overlapping stretches. `start`
    and `last` are their ends; `places` (count, width) all of theirs, each stretch filled up to the longest by its last
    place, which a first maximum never prefers."""

    start: Tensor
    last: Tensor
    places: Tensor
    width: int


def recorded_parts(size: int, count: int) -> Stretches:
    """The windows of one adaptive dimension, at least as wide as the widest that any such size has, which is a quotient
    and 2: an export finds a quotient of sizes again up to 1."""
    start, last = _ends(size, count)
    width = size if count == 1 else size // count + 3
    steps = reshape(start, (count, 1)) + iota((width,))
    return Stretches(start, last, call("minimum", steps, reshape(last, (count, 1))), width)


def _ends(size: int, count: int) -> tuple[Any, Any]:
    """The first and the last places of stretches."""
    places = iota((count,))
    start = call("floor_divide", places * size, count)
    behind = call("floor_divide", places * size + (size + count - 1), count)
    return start, behind - 1


def averaging(size: int, count: int, dtype: DType) -> Any:
    """The (size, count) matrix whose column i averages the i-th of `count` stretches."""
    start, last = _ends(size, count)
    rows = reshape(iota((size,)), (size, 1))
    inside = call("logical_and", call("ge", rows, start), call("le", rows, last))
    return cast(inside, dtype) / cast(last - start + 1, dtype)
