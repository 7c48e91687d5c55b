# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False
"""Losses, and what they are made of, that are one node until they are collected (`macro`).

A loss of one example is some ten primitives on a few numbers: what it costs goes by the node.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import cython
import numpy as np

from weft._build.compiled import require
from weft.engine.frontend.resolve import value_of
from weft.engine.ir.index_range import assume_in_range
from weft.engine.ir.strides import broadcast_shapes
from weft.ops.composite.macro import define_macro
from weft.ops.composite.own_derivatives import less_one_at
from weft.ops.primitives import elementwise as call
from weft.ops.primitives import expand, gather, iota, reduce, reshape, where

if TYPE_CHECKING:
    from weft._typing import Array, Shape
    from weft.engine.backward.apply_vjp import At
    from weft.engine.frontend.tensor import Tensor


require(__name__, cython.compiled)

LONGEST_ROW = 16384  # classes that are looked through for one: a row kernel's row


# -- logsumexp -----------------------------------------------------------------------------------------------------


def _lower_logsumexp(self: Tensor, params: tuple[int, ...]) -> Any:
    """The greatest number is taken out first; it is no more than a number to the derivative."""
    axes = tuple([len(self._shape) + axis for axis in params])
    top = reduce("amax", self.detach(), axes, keepdim=True)
    top = where(call("isfinite", top), top, 0)
    return call("log", reduce("sum", call("exp", self - top), axes, keepdim=True)) + top


def _kept(params: tuple[int, ...], x: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of what is reduced over axes that stay."""
    axes = [len(x) + axis for axis in params]
    return tuple([1 if axis in axes else x[axis] for axis in range(len(x))])


def _logsumexp_numpy(x: Array, params: tuple[int, ...]) -> Any:
    top = np.max(x, params, keepdims=True)
    top = np.where(np.isfinite(top), top, 0)
    return np.log(np.sum(np.exp(x - top), params, keepdims=True)) + top


define_macro(
    "logsumexp",
    "self",
    _logsumexp_numpy,
    _lower_logsumexp,
    {"self": lambda g, self, result: g * call("exp", self - result)},
    [((5,), (-1,)), ((3, 4), (-1,)), ((2, 3, 2), (-3, -1))],
    _kept,
    dtypes="float32 float64",
    is_row_independent=lambda p, shapes, axis: axis < len(shapes[0]) + min(p),
)


# -- cross entropy -------------------------------------------------------------------------------------------------


def _with_axis(index: Tensor, axis: int) -> Any:
    """Classes, or values one for each, with a dimension of size 1 where the scores have theirs; `axis` is counted from
    the end of the scores."""
    shape = index._shape
    place = len(shape) + 1 + axis
    return reshape(index, (*shape[:place], 1, *shape[place:]))


def _over_examples(x: Tensor, like: Tensor) -> Any:
    """`x` for each example of a batch, where it has none and `like` has one."""
    missing = len(like._shape) - len(x._shape)
    return expand(x, (*like._shape[:missing], *x._shape)) if missing > 0 else x


def _picked(scores: Tensor, places: Tensor, axis: int) -> Any:
    """The score of each class; `axis` is counted from the end. Rows that one kernel walks anyway are looked through:
    what gathers would need them in memory."""
    shape = scores._shape
    axis += len(shape)
    if axis < len(shape) - 1 or shape[axis] > LONGEST_ROW:
        return gather(scores, axis, places)
    here = iota(shape, axis) == places
    return reduce("amax", where(here, scores, -math.inf), (axis,), keepdim=True)


def _lower_cross_entropy(self: Tensor, index: Tensor, params: tuple[int]) -> Any:
    """The steps of log_softmax; classes are in range, or this would not have been recorded."""
    axis = len(self._shape) + params[0]
    assume_in_range(value_of(index), self._shape[axis])
    places = _with_axis(index, params[0])
    shifted = self - reduce("amax", self, (axis,), keepdim=True)
    size = call("log", reduce("sum", call("exp", shifted), (axis,), keepdim=True))
    shifted, size = _over_examples(shifted, places), _over_examples(size, places)
    picked = _picked(shifted, _over_examples(places, shifted), params[0]) - size
    shape = picked._shape
    place = len(shape) + params[0]
    return -reshape(picked, (*shape[:place], *shape[place + 1 :]))


def _vjp_cross_entropy(g: Tensor, self: Tensor, index: Tensor, at: At) -> Any:
    """The cotangent times the probabilities, less one at the class."""
    axis = at.params[0]
    places = _with_axis(index, axis)
    return less_one_at(self, places, len(self._shape) + axis) * _with_axis(g, axis)


def _cross_entropy_shape(params: tuple[int], x: Shape, index: Shape) -> Any:
    """That of the index; where the rows of a batch have one index, or one row of scores, that of the other."""
    axis = len(x) + params[0]
    return broadcast_shapes([x[:axis] + x[axis + 1 :], index], "cross_entropy")


def _cross_entropy_numpy(x: Array, index: Array, params: tuple[int]) -> Any:
    axis = params[0]
    powers = np.exp(x - np.max(x, axis, keepdims=True))
    logs = np.log(powers / np.sum(powers, axis, keepdims=True))
    places = np.expand_dims(index.astype(np.int64), axis)
    return -np.take_along_axis(logs, places, axis).squeeze(axis)


define_macro(
    "cross_entropy",
    "self index",
    _cross_entropy_numpy,
    _lower_cross_entropy,
    {"self": _vjp_cross_entropy},
    [((5,), (), (-1,)), ((3, 4), (3,), (-1,)), ((2, 3, 2), (2, 2), (-2,))],
    _cross_entropy_shape,
    dtypes="float32 float64",
    is_row_independent=lambda p, shapes, axis: axis < len(shapes[0]) + p[0],
)
