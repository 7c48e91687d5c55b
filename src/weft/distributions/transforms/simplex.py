"""Transforms to the simplex."""

from __future__ import annotations

from typing import Any

import weft
from weft._typing import Shape
from weft.distributions import constraints
from weft.distributions.transforms.elementwise import Transform
from weft.engine.frontend.tensor import Tensor


class SoftmaxTransform(Transform):
    """y = exp(x) over its sum; the inverse is log(y)."""

    domain, codomain = constraints.real_vector, constraints.simplex

    def _call(self, x: Tensor) -> Any:
        return x.softmax(-1)

    def _inverse(self, y: Tensor) -> Any:
        return y.log()


class StickBreakingTransform(Transform):
    """A real vector to a point of the simplex with one number more: shares of what is left of a stick."""

    bijective = True
    domain, codomain = constraints.real_vector, constraints.simplex

    def _left(self, x: Tensor) -> tuple[Any, Any]:
        """Of each piece the share of what is left, centred so that zeros give equal pieces."""
        count = x.shape[-1]
        offset = weft.arange(count, 0, -1, dtype=x.dtype)
        share = weft.sigmoid(x - offset.log())
        return share, (1 - share).cumprod(-1)

    def _call(self, x: Tensor) -> Any:
        share, left = self._left(x)
        ones = weft.ones_like(x[..., :1])
        return weft.cat([share, ones], -1) * weft.cat([ones, left], -1)

    def _inverse(self, y: Tensor) -> Any:
        short = y[..., :-1]
        offset = weft.arange(short.shape[-1], 0, -1, dtype=y.dtype)
        left = (1 - short.cumsum(-1)).clamp(min=weft.finfo(y.dtype).tiny)
        return short.log() - left.log() + offset.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Any:
        """log |dy / dx|: the sum over pieces.

        Args:
            x: a value.
            y: its image.
        """
        offset = weft.arange(x.shape[-1], 0, -1, dtype=x.dtype)
        moved = x - offset.log()
        return (-moved + weft.nn.functional.logsigmoid(moved) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Shape) -> Any:
        """The shape of the image: one number more.

        Args:
            shape: the shape of a value.
        """
        return weft.Size((*shape[:-1], shape[-1] + 1))

    def inverse_shape(self, shape: Shape) -> Any:
        """The shape of the value: one number less.

        Args:
            shape: the shape of an image.
        """
        return weft.Size((*shape[:-1], shape[-1] - 1))
