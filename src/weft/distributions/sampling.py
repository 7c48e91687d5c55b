"""The sampler that needs more than a formula: gamma by rejection, with implicit gradients.

The standard gamma law is sampled by Marsaglia and Tsang (2000); a round accepts at least 95 of 100 proposals, so ten
rounds are recorded as plain operations and the first proposal that is accepted is taken. Its gradient is implicit
(Figurnov, Mohamed, Mnih 2018): of the value x at which the distribution function is what it is, -(dF/da) / density.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

import weft
from weft import Tensor
from weft.autograd import Function
from weft.functional.support import host

if TYPE_CHECKING:
    from weft.autograd.custom.context import FunctionCtx


_ROUNDS = 10
_STEP = 1e-3


def _proposals(concentration: Tensor) -> Tensor:
    """Gamma numbers for concentrations of at least 1."""
    shape, dtype = concentration.shape, concentration.dtype
    base = concentration - 1.0 / 3.0
    spread = (9.0 * base).rsqrt()
    found = base
    for _ in range(_ROUNDS):
        normal = weft.randn(shape, dtype=dtype)
        cube = (1.0 + spread * normal) ** 3
        kept = cube.clamp(min=weft.finfo(dtype).tiny)
        chance = (1.0 - weft.rand(shape, dtype=dtype)).log()
        accepted = chance < 0.5 * normal.square() + base * (1.0 - kept + kept.log())
        found = weft.where(accepted & (cube > 0), base * kept, found)
    return found


def _draw_gamma(concentration: Tensor) -> Tensor:
    small = concentration < 1
    found = _proposals(weft.where(small, concentration + 1, concentration))
    uniform = 1.0 - weft.rand(concentration.shape, dtype=concentration.dtype)
    lowered = found * weft.exp(uniform.log() / concentration)
    return weft.where(small, lowered, found).clamp(min=weft.finfo(concentration.dtype).tiny)


def gamma_slope(value: float | np.ndarray, concentration: float | np.ndarray) -> Any:
    """dx/da of a standard gamma number x at a fixed probability, for arrays."""
    from scipy import special

    x, a = np.asarray(value, np.float64), np.asarray(concentration, np.float64)
    step = _STEP * np.minimum(a, 1.0)

    def change(function: Callable[..., Tensor]) -> Any:
        """A fourth-order central difference in the concentration."""
        near = function(a + step, x) - function(a - step, x)
        far = function(a + 2 * step, x) - function(a - 2 * step, x)
        return (8 * near - far) / (12 * step)

    upper = x > a  # where the distribution function is close to 1, its complement has the digits
    slope = np.where(upper, change(special.gammaincc), -change(special.gammainc))
    log_density = (a - 1) * np.log(x) - x - special.gammaln(a)
    with np.errstate(all="ignore"):
        found = slope * np.exp(-log_density)
    # Close to 0 the distribution function is x ** a / gamma(a + 1).
    tiny = x < 1e-30
    near_zero = x * (special.digamma(a + 1) - np.log(x)) / a
    return np.where(tiny | ~np.isfinite(found), near_zero, found)


class _StandardGamma(Function):
    """Gamma numbers of scale 1, with implicit gradients."""

    @staticmethod
    def forward(ctx: Any, concentration: Tensor) -> Tensor:
        """Draw."""
        found = _draw_gamma(concentration)
        ctx.save_for_backward(found, concentration)
        return found

    @staticmethod
    def backward(ctx: FunctionCtx, cotangent: Tensor) -> Tensor:
        """Reads the values: the derivative in the concentration is SciPy's."""
        value, concentration = ctx.saved_tensors
        arrays = [np.array(host.to_numpy(t.detach())) for t in (value, concentration)]
        slope = gamma_slope(*arrays)
        return cotangent * weft.tensor(slope, dtype=cotangent.dtype)


def standard_gamma(concentration: Tensor) -> Tensor:
    """Gamma numbers of scale 1, one for each concentration; with gradients."""
    if concentration.requires_grad and weft.is_grad_enabled():
        made: Tensor = _StandardGamma.apply(concentration)
        return made
    return _draw_gamma(concentration.detach())
