"""Activations as modules: a function of `functional` with its options, and multi-head attention's pointwise kin.

The result has the input's shape. Each class names the function that it calls and the constructor arguments that it
hands on; `inplace` layers change their input, as in PyTorch.
"""

from __future__ import annotations

from typing import Any

import weft
from weft import Tensor
from weft._typing import DeviceLike
from weft.engine.api.deprecation import warn_deprecated
from weft.engine.ir.dtype import DType
from weft.errors import ArgumentError, AssertedError
from weft.nn import functional as F
from weft.nn.module.module import Module
from weft.nn.parameter import Parameter


class _Pointwise(Module):
    """An activation without options."""

    def extra_repr(self) -> str:
        return ""


class Sigmoid(_Pointwise):
    """1 / (1 + exp(-x))."""

    def forward(self, input: Tensor) -> Tensor:
        """The layer applied to each element.

        Args:
            input: what the layer is applied to.

        Shape:
            any -> the same.
        """
        return input.sigmoid()


class Tanh(_Pointwise):
    """tanh(x)."""

    def forward(self, input: Tensor) -> Tensor:
        """The layer applied to each element.

        Args:
            input: what the layer is applied to.

        Shape:
            any -> the same.
        """
        return input.tanh()


class LogSigmoid(_Pointwise):
    """log(sigmoid(x))."""

    def forward(self, input: Tensor) -> Tensor:
        """The layer applied to each element.

        Args:
            input: what the layer is applied to.

        Shape:
            any -> the same.
        """
        return F.logsigmoid(input)


class Softsign(_Pointwise):
    """x / (1 + |x|)."""

    def forward(self, input: Tensor) -> Tensor:
        """The layer applied to each element.

        Args:
            input: what the layer is applied to.

        Shape:
            any -> the same.
        """
        return input / (input.abs() + 1)


class Tanhshrink(_Pointwise):
    """x - tanh(x)."""

    def forward(self, input: Tensor) -> Tensor:
        """The layer applied to each element.

        Args:
            input: what the layer is applied to.

        Shape:
            any -> the same.
        """
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
        """The layer applied to each element.

        Args:
            input: what the layer is applied to.

        Shape:
            any -> the same.
        """
        return F.relu(input, inplace=self.inplace)


class ReLU6(_InPlace):
    """min(max(x, 0), 6)."""

    def forward(self, input: Tensor) -> Tensor:
        """The layer applied to each element.

        Args:
            input: what the layer is applied to.

        Shape:
            any -> the same.
        """
        return F.relu6(input, inplace=self.inplace)


class SiLU(_InPlace):
    """x * sigmoid(x)."""

    def forward(self, input: Tensor) -> Tensor:
        """The layer applied to each element.

        Args:
            input: what the layer is applied to.

        Shape:
            any -> the same.
        """
        return F.silu(input, inplace=self.inplace)


class Mish(_InPlace):
    """x * tanh(softplus(x))."""

    def forward(self, input: Tensor) -> Tensor:
        """The layer applied to each element.

        Args:
            input: what the layer is applied to.

        Shape:
            any -> the same.
        """
        return F.mish(input, inplace=self.inplace)


class SELU(_InPlace):
    """The self-normalising exponential unit (Klambauer et al. 2017)."""

    def forward(self, input: Tensor) -> Tensor:
        """The layer applied to each element.

        Args:
            input: what the layer is applied to.

        Shape:
            any -> the same.
        """
        return F.selu(input, inplace=self.inplace)


class Hardswish(_InPlace):
    """x * relu6(x + 3) / 6."""

    def forward(self, input: Tensor) -> Tensor:
        """The layer applied to each element.

        Args:
            input: what the layer is applied to.

        Shape:
            any -> the same.
        """
        return F.hardswish(input, inplace=self.inplace)


class Hardsigmoid(_InPlace):
    """relu6(x + 3) / 6."""

    def forward(self, input: Tensor) -> Tensor:
        """The layer applied to each element.

        Args:
            input: what the layer is applied to.

        Shape:
            any -> the same.
        """
        return F.hardsigmoid(input, inplace=self.inplace)


class GELU(Module):
    """x times the normal distribution function, exact or by tanh (Hendrycks and Gimpel 2016)."""

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        """The layer applied to each element.

        Args:
            input: what the layer is applied to.

        Shape:
            any -> the same.
        """
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class LeakyReLU(Module):
    """x above zero, negative_slope * x below."""

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope, self.inplace = negative_slope, inplace

    def forward(self, input: Tensor) -> Tensor:
        """The layer applied to each element.

        Args:
            input: what the layer is applied to.

        Shape:
            any -> the same.
        """
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        return f"negative_slope={self.negative_slope}" + (", inplace=True" if self.inplace else "")


class ELU(Module):
    """x above zero, alpha * (exp(x) - 1) below."""

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha, self.inplace = alpha, inplace

    def forward(self, input: Tensor) -> Tensor:
        """The layer applied to each element.

        Args:
            input: what the layer is applied to.

        Shape:
            any -> the same.
        """
        return F.elu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}" + (", inplace=True" if self.inplace else "")


class Hardtanh(Module):
    """x between two bounds, the bounds outside."""

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        super().__init__()
        for older, bound in ((min_value, "min"), (max_value, "max")):
            if older is not None:
                warn_deprecated(
                    f"keyword argument `{bound}_value` is deprecated and renamed to `{bound}_val`"
                )
        min_val = min_val if min_value is None else min_value
        max_val = max_val if max_value is None else max_value
        self.min_val, self.max_val, self.inplace = min_val, max_val, inplace
        if max_val <= min_val:
            raise AssertedError(
                f"max_val ({max_val}) must be greater than min_val ({min_val})",
                expected="min_val < max_val",
                got=f"min_val={min_val}, max_val={max_val}",
                fix="exchange the two",
            )

    def forward(self, input: Tensor) -> Tensor:
        """The layer applied to each element.

        Args:
            input: what the layer is applied to.

        Shape:
            any -> the same.
        """
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
        """The layer applied to each element.

        Args:
            input: what the layer is applied to.

        Shape:
            any -> the same.
        """
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
        """The layer applied to its input.

        Args:
            input: what the layer is applied to.

        Shape:
            any -> the same.
        """
        return F.softmax(input, self.dim)


class LogSoftmax(_AlongDimension):
    """log(softmax(x)) along `dim`."""

    def forward(self, input: Tensor) -> Tensor:
        """The layer applied to its input.

        Args:
            input: what the layer is applied to.

        Shape:
            any -> the same.
        """
        return F.log_softmax(input, self.dim)


class Softmin(_AlongDimension):
    """softmax(-x) along `dim`."""

    def forward(self, input: Tensor) -> Any:
        """The layer applied to its input.

        Args:
            input: what the layer is applied to.

        Shape:
            any -> the same.
        """
        return F.softmax(-input, self.dim)


class Softmax2d(Module):
    """Softmax over the channels of (N, C, H, W) or (C, H, W)."""

    def forward(self, input: Tensor) -> Tensor:
        """The layer applied to its input.

        Args:
            input: what the layer is applied to.

        Shape:
            any -> the same.

        Raises:
            ArgumentError.
        """
        if input.dim() not in (3, 4):
            raise ArgumentError(
                f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead",
                expected="(N, C, H, W) or (C, H, W)",
                got=str(list(input.shape)),
                fix="use Softmax(dim)",
            )
        return F.softmax(input, -3)


class GLU(Module):
    """The first half of a dimension times the sigmoid of the second (Dauphin et al. 2016)."""

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """The layer applied to its input.

        Args:
            input: what the layer is applied to.

        Shape:
            (*, 2n, *) -> (*, n, *).
        """
        value, gate = input.chunk(2, self.dim)
        return value * gate.sigmoid()

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class CELU(Module):
    """x above zero, alpha * (exp(x / alpha) - 1) below (Barron 2017)."""

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha, self.inplace = alpha, inplace

    def forward(self, input: Tensor) -> Tensor:
        """The layer applied to each element.

        Args:
            input: what the layer is applied to.

        Shape:
            any -> the same.
        """
        return F.celu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}" + (", inplace=True" if self.inplace else "")


class Threshold(Module):
    """x above a threshold, a value elsewhere."""

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold, self.value, self.inplace = threshold, value, inplace

    def forward(self, input: Tensor) -> Tensor:
        """The layer applied to each element.

        Args:
            input: what the layer is applied to.

        Shape:
            any -> the same.
        """
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        text = f"threshold={self.threshold}, value={self.value}"
        return text + (", inplace=True" if self.inplace else "")


class RReLU(Module):
    """x above zero, times a random slope below while training (Xu et al. 2015)."""

    def __init__(
        self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False
    ) -> None:
        super().__init__()
        self.lower, self.upper, self.inplace = lower, upper, inplace

    def forward(self, input: Tensor) -> Tensor:
        """The layer applied to each element.

        Args:
            input: what the layer is applied to.

        Shape:
            any -> the same.
        """
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        text = f"lower={self.lower}, upper={self.upper}"
        return text + (", inplace=True" if self.inplace else "")


class _Shrink(Module):
    """An activation that is zero near zero."""

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def extra_repr(self) -> str:
        return f"{self.lambd}"


class Hardshrink(_Shrink):
    """x, zero where |x| <= lambd."""

    def forward(self, input: Tensor) -> Tensor:
        """The layer applied to each element.

        Args:
            input: what the layer is applied to.

        Shape:
            any -> the same.
        """
        return F.hardshrink(input, self.lambd)


class Softshrink(_Shrink):
    """x moved towards zero by lambd, zero within."""

    def forward(self, input: Tensor) -> Tensor:
        """The layer applied to each element.

        Args:
            input: what the layer is applied to.

        Shape:
            any -> the same.
        """
        return F.softshrink(input, self.lambd)


class PReLU(Module):
    """x above zero, a learned slope times x below (He et al. 2015)."""

    def __init__(
        self,
        num_parameters: int = 1,
        init: float = 0.25,
        device: DeviceLike | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.num_parameters, self.init = num_parameters, init
        self.weight = Parameter(weft.empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """All slopes are what they begin with."""
        with weft.no_grad():
            self.weight.fill_(self.init)

    def forward(self, input: Tensor) -> Tensor:
        """The layer applied to its input.

        Args:
            input: what the layer is applied to.

        Shape:
            (N, C, *) -> the same.
        """
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"
