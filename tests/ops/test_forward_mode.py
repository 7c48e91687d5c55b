"""Forward mode over the op table: the tangent of every differentiable row agrees with differences."""

from __future__ import annotations

from typing import Any

import pytest
from table_harness import array, inner, slope, tensors_of
from test_table import INEXACT, Point, assert_equal_slopes, smooth_samples

import weft
from weft.autograd import forward_ad
from weft.testing.recording import apply, tensor_of
from weft.testing.samples import directions


def tangent(point: Point) -> Any:
    """The derivative of a row along the point's direction."""
    with forward_ad.dual_level():
        tensors = tensors_of(point.op, point.sample, point.arrays, point.dtype)
        for number in point.which:
            move = tensor_of(point.directions[number], point.dtype)
            tensors[number] = forward_ad.make_dual(tensors[number], move)
        result = apply(point.op, tensors, point._params(), point.sample.shape)
        found = forward_ad.unpack_dual(result).tangent
        return array(weft.zeros_like(result) if found is None else found)


@pytest.mark.parametrize(("op", "dtype"), INEXACT)
def test_tangents_agree_with_differences(op: Any, dtype: str) -> None:
    pairs = []
    for sample in smooth_samples(op)[:2]:
        point = Point(op, sample, dtype)
        moves = slope(point.value, point.arrays, point.directions)[0]
        weight = directions([moves], [0], seed=1)[0]
        pairs.append((str(sample), inner(weight, tangent(point)), inner(weight, moves)))
    assert_equal_slopes(pairs)
