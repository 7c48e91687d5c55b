"""The places and weights of interpolation as recorded operations, so that one record holds for all sizes.

`resampling` makes the same as arrays, where sizes are known. A number that is a size stands in the record as a number,
by which an export knows it again; quotients of sizes are computed in the record.
"""

from __future__ import annotations

from typing import Any

from weft.engine.frontend.recorder import cast
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir import dtype as dtypes
from weft.engine.ir.dtype import DType
from weft.ops.primitives import concat, full, iota, reshape, where
from weft.ops.primitives import elementwise as call


def nearest_places(have: int, want: int, factor: float | None, exact: bool, dtype: DType) -> Any:
    """The index of the nearest elements, (want,) int64, in the arithmetic of a dtype."""
    places = cast(iota((want,)), dtype)
    scale = full((), 1 / factor, dtype) if factor else _quotient(have, want, dtype)
    if exact:
        centres = call("clamp_min", scale * (places + 0.5) - 0.5, 0.0)
        places = call("floor", cast(centres, dtypes.float64) + 0.5)
    else:
        places = call("floor", scale * places)
    return call("minimum", cast(places, dtypes.int64), full((), have - 1, dtypes.int64))


def taps(
    have: int, want: int, factor: float | None, corners: bool, cubic: bool
) -> tuple[Tensor, Tensor]:
    """The elements that contribute to each output element, (taps, want) int64, and their weights, float64."""
    places = _centres(have, want, factor, corners)
    if not cubic:
        places = call("clamp_min", places, 0.0)
    low = call("floor", places)
    steps = (-1, 0, 1, 2) if cubic else (0, 1)
    distances = [call("abs", places - low - step) for step in steps]
    weights = [_key(distance) if cubic else 1 - distance for distance in distances]
    last = full((), have - 1, dtypes.int64)
    indices = [
        call("minimum", call("clamp_min", cast(low + step, dtypes.int64), 0), last)
        for step in steps
    ]
    return _rows(indices, want), _rows(weights, want)


def _centres(have: int, want: int, factor: float | None, corners: bool) -> Any:
    places = cast(iota((want,)), dtypes.float64)
    if corners:
        return places * (_quotient(have - 1, want - 1, dtypes.float64) if want > 1 else 0.0)
    scale = 1 / factor if factor else _quotient(have, want, dtypes.float64)
    return (places + 0.5) * scale - 0.5


def _quotient(size: int, other: int, dtype: DType) -> Any:
    return full((), size, dtype) / full((), other, dtype)


def _key(distance: Tensor) -> Any:
    """The weights of cubic convolution. Source: Keys (1981), a = -3/4."""
    near = (1.25 * distance - 2.25) * distance * distance + 1
    far = ((distance - 5) * distance + 8) * distance * -0.75 + 3
    return where(call("lt", distance, 1.0), near, where(call("lt", distance, 2.0), far, 0.0))


def _rows(parts: list[Tensor], width: int) -> Any:
    return concat(tuple([reshape(part, (1, width)) for part in parts]), 0)
