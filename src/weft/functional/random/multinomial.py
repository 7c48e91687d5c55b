# ruff: noqa: A002 - PyTorch's names
"""Draws by weights: `multinomial`, with replacement and without.

Weights that are known are checked at the call; of those that are still to be computed, kernels of the program check
them, so that nothing is read early and draws of different examples run as one.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.engine.frontend.meta import is_on_meta
from weft.engine.frontend.recorder import cast
from weft.engine.frontend.resolve import value_of
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir import dtype as dtypes
from weft.engine.ir import tape as tapes
from weft.engine.ir.node import DONE_STATE as DONE
from weft.errors import ArgumentError, DTypeError, ShapeError
from weft.functional.random.generator import Generator, chosen, unit
from weft.functional.support import host
from weft.functional.support.index_bounds import trusted
from weft.functional.support.sorted_search import places
from weft.functional.support.value_bounds import within_when_computed
from weft.functional.support.variants import write_out
from weft.ops.primitives import cumulate, expand, iota, order, reduce, slice_axis, where
from weft.ops.primitives import elementwise as call
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
    """Indices drawn with the weights of each row; pending weights are checked when they are computed. Shapes: (n) or
    (m, n) -> (..., num_samples)."""
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
            f"multinomial only supports floating-point dtypes for input, got: {TYPE_NAMES[input._dtype.name]}",
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
    _check_counts(input._shape[-1], num_samples, replacement)
    one_by_one = replacement and num_samples > 1
    source = chosen(generator)
    draw = _between_edges if replacement else _first_of_races
    result = draw(*_valid(input, one_by_one), num_samples, source)
    return result if out is None else write_out(out, result)


def _check_known(input: Tensor, one_by_one: bool) -> None:
    """Errors: ArgumentError for what are no weights."""
    _check_weights(host.to_numpy(input), one_by_one)


def _valid(input: Tensor, one_by_one: bool) -> tuple[Any, bool]:
    """The weights as float64, and whether they are known and have been checked; else what is drawn from them fails."""
    weights = cast(input.detach(), dtypes.float64)
    if value_of(input).state == DONE or not tapes.tape().mode.is_untransformed():
        _check_known(input, one_by_one)
        return weights, True
    if is_on_meta(input):
        return weights, True
    return within_when_computed("multinomial", "weights", weights), False


def _between_edges(weights: Tensor, is_checked: bool, count: int, source: Generator) -> Any:
    """The indices whose part of the sum of the weights a uniform number falls into: nothing is read."""
    *leading, width = weights._shape
    edges = cumulate("cumsum", weights, len(leading))
    total = slice_axis(edges, len(leading), width - 1, 1)
    if not is_checked:
        total = within_when_computed("multinomial_row", "sum", total)
    points = call("mul", unit((*leading, count), dtypes.float64, source), total)
    found = places(edges, points, True, dtypes.int64)
    indices = expand(cast(iota((width,)), dtypes.float64), weights._shape)
    last = reduce("amax", where(call("gt", weights, 0), indices, 0), (len(leading),), keepdim=True)
    return trusted(call("minimum", found, cast(last, dtypes.int64)), width)


def _first_of_races(weights: Tensor, is_checked: bool, count: int, source: Generator) -> Any:
    """The indices that are through first where each takes an exponential time at the rate of its weight."""
    axis = len(weights._shape) - 1
    draws = unit(weights._shape, dtypes.float64, source)
    runs = weights > 0
    if not is_checked:
        total = reduce("sum", weights, (axis,), keepdim=True)
        total = within_when_computed("multinomial_row", "sum", total)
        runs = call("logical_and", runs, call("gt", total, 0))
    times = call("log1p", -draws) / call("where", runs, -weights, 1)
    found = order(call("where", runs, times, math.inf), axis, count)
    return trusted(found, weights._shape[-1])


def _not_weights(weights: Array, one_by_one: bool) -> str:
    """PyTorch's error text for invalid weights: it has two checks, by the way in which numbers are drawn."""
    if not one_by_one:
        return "probability tensor contains either `inf`, `nan` or element < 0"
    entry = "< 0" if np.any(weights < 0) else "= infinity or NaN"
    return f"invalid multinomial distribution (encountering probability entry {entry})"


def _check_counts(width: int, count: int, replacement: bool) -> None:
    if count <= 0:
        raise ArgumentError(
            "cannot sample n_sample <= 0 samples",
            expected="num_samples > 0",
            got=str(count),
            fix="pass 1 or more",
        )
    if width > MOST_CATEGORIES:
        raise ArgumentError(
            "number of categories cannot exceed 2^24",
            expected=f"at most {MOST_CATEGORIES} weights in a row",
            got=str(width),
            fix="draw a block first, then a category of it",
        )
    if not replacement and count > width:
        raise ArgumentError(
            "cannot sample n_sample > prob_dist.size(-1) samples without replacement",
            expected=f"num_samples <= {width}",
            got=str(count),
            fix="pass replacement=True",
        )


def _check_weights(weights: Array, one_by_one: bool) -> None:
    most = weights.max(-1, initial=0)
    if not (weights.min(initial=0) >= 0 and np.all(most < np.inf)):  # a nan fails both
        raise ArgumentError(
            _not_weights(weights, one_by_one),
            expected="finite weights >= 0",
            got="others",
            fix="use softmax, or clamp the weights",
        )
    if np.any(most <= 0):
        raise ArgumentError(
            "invalid multinomial distribution (sum of probabilities <= 0)",
            expected="a positive sum",
            got="a row of zeros",
            fix="add a small number to the weights",
        )
