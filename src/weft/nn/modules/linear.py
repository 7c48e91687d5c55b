"""Layers that are one affine map: Identity, Linear, Bilinear."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import weft
from weft import Tensor
from weft._typing import DeviceLike
from weft.errors import ArgumentError
from weft.nn import functional as F
from weft.nn import init
from weft.nn.module.module import Module
from weft.nn.parameter import Parameter

if TYPE_CHECKING:
    from weft._typing import FactoryOptions
    from weft.engine.ir.dtype import DType


class Identity(Module):
    """Returns its input; takes any arguments, so that it can stand in for another layer."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        """The input.

        Args:
            input: anything.
        """
        return input


class Linear(Module):
    """A linear layer: `x @ weight.T + bias`.

    Shapes: (*, in_features) -> (*, out_features).
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: DeviceLike | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        options: FactoryOptions = {"device": device, "dtype": dtype}
        self.weight = Parameter(weft.empty((out_features, in_features), **options))
        self.register_parameter(
            "bias", Parameter(weft.empty(out_features, **options)) if bias else None
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new weights."""
        init.init_weight_and_bias(self.weight, self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """The layer applied to its input.

        Args:
            input: what the layer is applied to.

        Shape:
            (*, in) @ (in, out) -> (*, out).
        """
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )


class Bilinear(Module):
    """`x1.T @ weight[k] @ x2 + bias[k]` for each output k.

    Shapes: (*, in1_features), (*, in2_features) -> (*, out_features).
    """

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: DeviceLike | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        if in1_features <= 0:
            raise ArgumentError(
                f"in1_features must be > 0, but got {in1_features}",
                expected="in1_features > 0",
                got=repr(in1_features),
                fix="pass the size of the first input's last dimension",
            )
        self.in1_features, self.in2_features = in1_features, in2_features
        self.out_features = out_features
        options: FactoryOptions = {"device": device, "dtype": dtype}
        self.weight = Parameter(weft.empty((out_features, in1_features, in2_features), **options))
        self.register_parameter(
            "bias", Parameter(weft.empty(out_features, **options)) if bias else None
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new weights."""
        bound = 1 / math.sqrt(self.weight.shape[1])
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        """The bilinear form of the two inputs, for each output feature.

        Args:
            input1: the first input.
            input2: the second input, with the same leading dimensions.

        Shape:
            (*, in1), (*, in2) -> (*, out).
        """
        flat1 = input1.reshape(-1, self.in1_features)  # (*, i) -> (n, i)
        flat2 = input2.reshape(-1, self.in2_features)  # (*, j) -> (n, j)
        half = flat1 @ self.weight  # (n, i) @ (k, i, j) -> (k, n, j)
        out = (half * flat2).sum(-1).T  # (k, n, j) * (n, j) -> (n, k)
        out = out if self.bias is None else out + self.bias
        return out.reshape(*input1.shape[:-1], self.out_features)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )


class NonDynamicallyQuantizableLinear(Linear):
    """Linear under the name that the projection of MultiheadAttention has in PyTorch."""
