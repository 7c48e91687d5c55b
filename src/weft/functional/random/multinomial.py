# ruff: noqa: A002 - PyTorch's names
"""Draws by weights: `multinomial`, with replacement and without."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.engine.frontend.recorder import cast
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir import dtype as dtypes
from weft.errors import ArgumentError, DTypeError, ShapeError
from weft.functional.random.generator import Generator, chosen, unit
from weft.functional.support import host
from weft.functional.support.variants import write_out
from weft.ops.primitives import elementwise as call
from weft.ops.primitives import order
from weft.tensor.arguments import TYPE_NAMES, describe, need_integer, need_tensor

if TYPE_CHECKING:
    from weft._typing import Array

MOST_CATEGORIES = 2**24  # categories in a row of weights, as in PyTorch


def multinomial(
    input: Tensor,
    num_samples: int,
    replacement: bool = False,
    *,
    generator: Generator | None = None,
    out: Tensor | None = None,
) -> Any:
    """Indices drawn with the weights of each row. Reads the weights. Shapes: (n) or (m, n) -> (..., num_samples)."""
    need_tensor("multinomial", input)
    if len(input._shape) not in (1, 2):
        raise ShapeError(
            "prob_dist must be 1 or 2 dim",
            expected="weights (n) or (m, n)",
            got=describe("input", input),
            fix="reshape the weights",
        )
    if input._dtype.category != 2:
        raise DTypeError(
            f"multinomial only supports floating-point dtypes for input, got: {input._dtype.name}",
            expected="weights of a floating-point type",
            got=describe("input", input),
            fix="convert with .float()",
        )
    if out is not None and out._dtype is not dtypes.int64:
        raise DTypeError(
            f"multinomial expects Long tensor out, got: {TYPE_NAMES[out._dtype.name]}",
            expected="out= of int64",
            got=describe("out", out),
            fix="pass weft.empty(0, dtype=weft.int64)",
        )
    num_samples = need_integer("multinomial", num_samples, "num_samples")
    weights = host.to_numpy(input).astype(np.float64)
    _check_weights(weights, num_samples, replacement)
    rows = weights.reshape(-1, weights.shape[-1])
    source = chosen(generator)
    if replacement:
        draws = host.to_numpy(unit((len(rows), num_samples), dtypes.float64, source))
        edges = np.cumsum(rows, 1)
        found = np.stack(
            [
                np.searchsorted(edge, draw * edge[-1], "right")
                for edge, draw in zip(edges, draws, strict=True)
            ]
        )
        found = np.minimum(found, [np.flatnonzero(row)[-1:] for row in rows])
        result = host.from_numpy(found.reshape(*weights.shape[:-1], num_samples).astype(np.int64))
    else:
        result = _first_of_races(input.detach(), num_samples, source)
    return result if out is None else write_out(out, result)


def _first_of_races(weights: Tensor, count: int, source: Generator) -> Any:
    """The indices that are through first where each takes an exponential time at the rate of its weight."""
    draws = unit(weights._shape, dtypes.float64, source)
    rates = cast(weights, dtypes.float64)
    runs = rates > 0
    times = call("log1p", -draws) / call("where", runs, -rates, 1)
    return order(call("where", runs, times, math.inf), len(weights._shape) - 1, count)


def _not_weights(weights: Array, one_by_one: bool) -> str:
    """PyTorch's error text for invalid weights: it has two checks, by the way in which numbers are drawn."""
    if not one_by_one:
        return "probability tensor contains either `inf`, `nan` or element < 0"
    entry = "< 0" if np.any(weights < 0) else "= infinity or NaN"
    return f"invalid multinomial distribution (encountering probability entry {entry})"


def _check_weights(weights: Array, count: int, replacement: bool) -> None:
    if count <= 0:
        raise ArgumentError(
            "cannot sample n_sample <= 0 samples",
            expected="num_samples > 0",
            got=str(count),
            fix="pass 1 or more",
        )
    if weights.shape[-1] > MOST_CATEGORIES:
        raise ArgumentError(
            "number of categories cannot exceed 2^24",
            expected=f"at most {MOST_CATEGORIES} weights in a row",
            got=str(weights.shape[-1]),
            fix="draw a block first, then a category of it",
        )
    if not replacement and count > weights.shape[-1]:
        raise ArgumentError(
            "cannot sample n_sample > prob_dist.size(-1) samples without replacement",
            expected=f"num_samples <= {weights.shape[-1]}",
            got=str(count),
            fix="pass replacement=True",
        )
    if not np.all(np.isfinite(weights)) or np.any(weights < 0):
        raise ArgumentError(
            _not_weights(weights, replacement and count > 1),
            expected="finite weights >= 0",
            got="others",
            fix="use softmax, or clamp the weights",
        )
    if np.any(weights.sum(-1) <= 0):
        raise ArgumentError(
            "invalid multinomial distribution (sum of probabilities <= 0)",
            expected="a positive sum",
            got="a row of zeros",
            fix="add a small number to the weights",
        )
