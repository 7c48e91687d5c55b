"""pocketfft's three transforms: as SciPy binds them, and where a SciPy does not, by its public functions.

The binding is what `scipy.fft` calls when it has looked at its arguments, which takes ten times as long as a short
transform; it is not part of SciPy's API, so that it may be elsewhere in another version.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import scipy.fft

if TYPE_CHECKING:
    from weft._typing import Array

FORWARD = ("backward", "ortho", "forward")  # scipy's names of scales, by pocketfft's numbers
BACKWARD = ("forward", "ortho", "backward")


def _sizes(values: Array, axes: Sequence[int]) -> list[int]:
    return [values.shape[axis] for axis in axes]


def public_c2c(values: Array, axes: Sequence[int], forward: bool, scale: int, *rest: object) -> Any:
    """Complex to complex over axes."""
    if forward:
        return scipy.fft.fftn(values, axes=axes, norm=FORWARD[scale])
    return scipy.fft.ifftn(values, axes=axes, norm=BACKWARD[scale])


def public_r2c(values: Array, axes: Sequence[int], forward: bool, scale: int, *rest: object) -> Any:
    """Real to the first half of complex over the last of the axes."""
    return scipy.fft.rfftn(values, axes=axes, norm=FORWARD[scale])


def public_c2r(
    values: Array, axes: Sequence[int], size: int, forward: bool, scale: int, *rest: object
) -> Any:
    """The first half of complex to real of a size over the last of the axes."""
    sizes = [*_sizes(values, axes[:-1]), size]
    return scipy.fft.irfftn(values, s=sizes, axes=axes, norm=BACKWARD[scale])


try:
    from scipy.fft._pocketfft.pypocketfft import c2c, c2r, r2c
except ImportError:  # pragma: no cover - a SciPy that keeps it elsewhere
    c2c, c2r, r2c = public_c2c, public_c2r, public_r2c
