"""Activations as modules: a function of `functional` with its options, and multi-head attention's
pointwise kin.

In: a tensor. Out: a tensor of the same shape. Each class names the function that it calls and the
constructor arguments that it hands on; `inplace` layers change their input, as in PyTorch.
"""

from __future__ import annotations

from typing import Any

from weft import Tensor
from weft.errors import AssertedError
from weft.nn import functional as F
from weft.nn.module import Module


class _Pointwise(Module):
    """An activation without options."""

    def extra_repr(self) -> str:
        return ""


class Sigmoid(_Pointwise):
    """1 / (1 + exp(-x))."""

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        return input.sigmoid()


class Tanh(_Pointwise):
    """tanh(x)."""

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        return input.tanh()


class LogSigmoid(_Pointwise):
    """log(sigmoid(x))."""

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        return F.logsigmoid(input)


class Softsign(_Pointwise):
    """x / (1 + |x|)."""

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        return input / (input.abs() + 1)


class Tanhshrink(_Pointwise):
    """x - tanh(x)."""

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        return input - input.tanh()


class _InPlace(Module):
    """An activation that may change its input."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class ReLU(_InPlace):
    """max(x, 0)."""

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        return F.relu(input, inplace=self.inplace)


class ReLU6(_InPlace):
    """min(max(x, 0), 6)."""

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        return F.relu6(input, inplace=self.inplace)


class SiLU(_InPlace):
    """x * sigmoid(x)."""

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        return F.silu(input, inplace=self.inplace)


class Mish(_InPlace):
    """x * tanh(softplus(x))."""

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        return F.mish(input, inplace=self.inplace)


class SELU(_InPlace):
    """The self-normalising exponential unit (Klambauer et al. 2017)."""

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        return F.selu(input, inplace=self.inplace)


class Hardswish(_InPlace):
    """x * relu6(x + 3) / 6."""

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        return F.hardswish(input, inplace=self.inplace)


class Hardsigmoid(_InPlace):
    """relu6(x + 3) / 6."""

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        return F.hardsigmoid(input, inplace=self.inplace)


class GELU(Module):
    """x times the normal distribution function, exact or by tanh (Hendrycks and Gimpel 2016)."""

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class LeakyReLU(Module):
    """x above zero, negative_slope * x below."""

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope, self.inplace = negative_slope, inplace

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        return f"negative_slope={self.negative_slope}" + (", inplace=True" if self.inplace else "")


class ELU(Module):
    """x above zero, alpha * (exp(x) - 1) below."""

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha, self.inplace = alpha, inplace

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        return F.elu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}" + (", inplace=True" if self.inplace else "")


class Hardtanh(Module):
    """x between two bounds, the bounds outside."""

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.min_val, self.max_val, self.inplace = min_val, max_val, inplace
        if max_val <= min_val:
            raise AssertedError(
                f"max_val ({max_val}) must be greater than min_val ({min_val})",
                expected="min_val < max_val",
                got=f"min_val={min_val}, max_val={max_val}",
                fix="exchange the two",
            )

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        bounds = f"min_val={self.min_val}, max_val={self.max_val}"
        return bounds + (", inplace=True" if self.inplace else "")


class Softplus(Module):
    """log(1 + exp(beta * x)) / beta, linear above the threshold."""

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta, self.threshold = beta, threshold

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        return f"beta={self.beta}, threshold={self.threshold}"


class _AlongDimension(Module):
    """An activation that looks at one dimension as a whole."""

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softmax(_AlongDimension):
    """exp(x) normalised to sum one along `dim`."""

    def forward(self, input: Tensor) -> Tensor:
        """Any shape -> the same."""
        return F.softmax(input, self.dim)


class LogSoftmax(_AlongDimension):
    """log(softmax(x)) along `dim`."""

    def forward(self, input: Tensor) -> Tensor:
        """Any shape -> the same."""
        return F.log_softmax(input, self.dim)


class Softmin(_AlongDimension):
    """softmax(-x) along `dim`."""

    def forward(self, input: Tensor) -> Any:
        """Any shape -> the same."""
        return F.softmax(-input, self.dim)


class GLU(Module):
    """The first half of a dimension times the sigmoid of the second (Dauphin et al. 2016)."""

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """(*, 2n, *) -> (*, n, *)."""
        value, gate = input.chunk(2, self.dim)
        return value * gate.sigmoid()

    def extra_repr(self) -> str:
        return f"dim={self.dim}"
