"""Sobol' sequences: points that fill the unit cube more evenly than random ones, as `torch.quasirandom`.

Points are computed from their index by the direction numbers of Joe and Kuo (SIAM J. Sci. Comput. 30, 2008), which
SciPy brings along; unscrambled ones are PyTorch's, bit for bit.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import weft
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir.dtype import DType
from weft.errors import ArgumentError

__all__ = ["SobolEngine"]

_BITS = 30
_MOST_DIMENSIONS = 21201


@cache
def _directions(dimension: int) -> Any:
    """The direction numbers, as integers of 30 bits. Shapes: (dimension, 30)."""
    import scipy.stats

    with np.load(Path(scipy.stats.__file__).parent / "_sobol_direction_numbers.npz") as tables:
        polynomials = tables["poly"][:dimension].astype(np.int64)
        numbers = np.zeros((dimension, _BITS), np.int64)
        width = min(_BITS, tables["vinit"].shape[1])
        numbers[:, :width] = tables["vinit"][:dimension, :width]
    degrees = np.array([int(p).bit_length() - 1 for p in polynomials])
    numbers[0] = 1
    for bit in range(1, _BITS):
        rows = np.flatnonzero((degrees <= bit) & (np.arange(dimension) > 0))
        numbers[rows, bit] = _next(numbers[rows], polynomials[rows], degrees[rows], bit)
    return numbers << np.arange(_BITS - 1, -1, -1)


def _next(numbers: Any, polynomials: object, degrees: Any, bit: int) -> Any:
    """The direction numbers of a bit by the recurrences of primitive polynomials."""
    made = numbers[np.arange(len(numbers)), bit - degrees]
    for back in range(1, int(degrees.max(initial=0)) + 1):
        taken = (back <= degrees) & (polynomials >> np.maximum(degrees - back, 0) & 1 > 0)
        made = np.where(taken, made ^ numbers[:, bit - back] << back, made)
    return made


class SobolEngine:
    """A generator of the points of a (scrambled) Sobol' sequence in the unit cube.

    Args:
        dimension: of the cube, at most 21201.
        scramble: True: points are shifted, and their digits mixed at random (Owen and Matousek). Default: False.
        seed: of the scrambling; None: one by chance.

    Example:
        >>> from weft.quasirandom import SobolEngine
        >>> SobolEngine(2).draw(4).shape
        weft.Size([4, 2])
    """

    MAXBIT = _BITS
    MAXDIM = _MOST_DIMENSIONS

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if not 1 <= dimension <= _MOST_DIMENSIONS:
            raise ArgumentError(
                f"Supported range of dimensionality for SobolEngine is [1, {_MOST_DIMENSIONS}]",
                expected=f"1 <= dimension <= {_MOST_DIMENSIONS}",
                got=str(dimension),
                fix="use independent random numbers for more dimensions",
            )
        self.dimension, self.scramble, self.seed = dimension, scramble, seed
        self._directions, self._shift = _directions(dimension), np.zeros(dimension, np.int64)
        if scramble:
            self._scramble()
        self.num_generated = 0

    def _scramble(self) -> None:
        """A random shift, and the digits of each direction number mixed by a random lower triangle of ones."""
        generator = None if self.seed is None else weft.Generator().manual_seed(self.seed)
        shape = (self.dimension, _BITS)
        shift = weft.randint(2, shape, generator=generator).numpy()
        mixing = weft.randint(2, (*shape, _BITS), generator=generator).numpy()
        mixing = np.tril(mixing, -1) + np.eye(_BITS, dtype=np.int64)
        powers = np.int64(1) << np.arange(_BITS - 1, -1, -1)  # of the digits, the first one largest
        digits = (self._directions[:, None, :] // powers[:, None]) & 1  # (d, digit, direction)
        self._directions = (powers[:, None] * (mixing @ digits % 2)).sum(1)
        self._shift = (powers * shift).sum(1)

    def _points(self, first: int, count: int) -> Any:
        """Points from their index on: the directions of the bits of its Gray code, added without carry."""
        index = np.arange(first, first + count, dtype=np.int64)
        gray = index ^ index >> 1
        points = np.broadcast_to(self._shift, (count, self.dimension)).copy()
        for bit in range(int(gray.max(initial=0)).bit_length()):
            points ^= np.where((gray >> bit & 1)[:, None] > 0, self._directions[:, bit], 0)
        return points / float(1 << _BITS)

    def draw(
        self, n: int = 1, out: Tensor | None = None, dtype: DType | None = None
    ) -> weft.Tensor:
        """The next `n` points. `dtype` is the default type unless named.

        Args:
            n: how many points. Default: 1.
            out: a tensor for the points; None: a new one.
            dtype: the dtype; None: the default one.

        Shape:
            (n, dimension).
        """
        made = weft.from_numpy(self._points(self.num_generated, n))
        made = made.to(dtype or weft.get_default_dtype())
        self.num_generated += n
        return made if out is None else out.resize_as_(made).copy_(made)

    def draw_base2(
        self, m: int, out: Tensor | None = None, dtype: DType | None = None
    ) -> weft.Tensor:
        """The next `2 ** m` points.

        Args:
            m: the logarithm of their number.
            out: a tensor for the points; None: a new one.
            dtype: the dtype; None: the default one.

        Raises:
            ValueError where all drawn so far are then no power of 2.
        """
        total = self.num_generated + 2**m
        if total & (total - 1):
            raise ArgumentError(
                "The balance properties of Sobol' points require n to be a power of 2. "
                f"{self.num_generated} points have been previously generated, then: "
                f"n={self.num_generated}+2**{m}={total}. If you still want to do this, please use "
                "'SobolEngine.draw()' instead.",
                expected="a power of 2 in all",
                got=str(total),
                fix="use draw(n), or reset() first",
            )
        return self.draw(2**m, out, dtype)

    def reset(self) -> SobolEngine:
        """Begin again at the first point."""
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> SobolEngine:
        """Leave out the next `n` points, at no cost.

        Args:
            n: how many points.
        """
        self.num_generated += n
        return self

    def __repr__(self) -> str:
        parts = [f"dimension={self.dimension}"]
        parts += ["scramble=True"] if self.scramble else []
        parts += [f"seed={self.seed}"] if self.seed is not None else []
        return f"{type(self).__name__}({', '.join(parts)})"
