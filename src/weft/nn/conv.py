"""Convolution layers: weights and options around `functional.conv1d` and `conv2d`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import weft
from weft import Tensor
from weft.errors import ArgumentError
from weft.nn import functional as F
from weft.nn import init
from weft.nn.module import Module
from weft.nn.parameter import Parameter

PADDING_MODES = {
    "zeros": "constant",
    "reflect": "reflect",
    "replicate": "replicate",
    "circular": "circular",
}


def spread(value: int | tuple[int, ...], count: int) -> tuple[int, ...]:
    """One number for every dimension, or the numbers given."""
    return tuple(value) if isinstance(value, tuple | list) else (value,) * count


class _Conv(Module):
    """What convolutions of any rank share: checks, weights and the printed form."""

    rank: int
    function: Callable[..., Tensor]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] = 1,
        padding: int | str | tuple[int, ...] = 0,
        dilation: int | tuple[int, ...] = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        _check_channels(in_channels, out_channels, groups)
        if padding_mode not in PADDING_MODES:
            raise ArgumentError(
                f"padding_mode must be one of {set(PADDING_MODES)}, "
                f"but got padding_mode='{padding_mode}'",
                expected=", ".join(PADDING_MODES),
                got=repr(padding_mode),
                fix="use padding_mode='zeros'",
            )
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size = spread(kernel_size, self.rank)
        self.stride, self.dilation = spread(stride, self.rank), spread(dilation, self.rank)
        self.padding = padding if isinstance(padding, str) else spread(padding, self.rank)
        self.padding_mode = padding_mode
        self._check_padding()
        options = {"device": device, "dtype": dtype}
        shape = (out_channels, in_channels // groups, *self.kernel_size)
        self.weight = Parameter(weft.empty(shape, **options))
        self.register_parameter(
            "bias", Parameter(weft.empty(out_channels, **options)) if bias else None
        )
        self.reset_parameters()

    def _check_padding(self) -> None:
        if not isinstance(self.padding, str):
            return
        if self.padding not in ("same", "valid"):
            raise ArgumentError(
                f"Invalid padding string {self.padding!r}, should be one of {{'valid', 'same'}}",
                expected="'same', 'valid' or numbers",
                got=repr(self.padding),
                fix="pass a number per dimension",
            )
        if self.padding == "same" and any(step != 1 for step in self.stride):
            raise ArgumentError(
                "padding='same' is not supported for strided convolutions",
                expected="stride 1 with padding='same'",
                got=str(self.stride),
                fix="pass the padding as numbers",
            )

    def reset_parameters(self) -> None:
        """Draw new weights."""
        init.init_weight_and_bias(self.weight, self.bias)

    def _border(self) -> tuple[int, ...]:
        """The padding on both sides of each dimension, last dimension first, as `functional.pad`
        takes it.
        """
        border: list[int] = []
        for size, step, index in zip(
            self.kernel_size, self.dilation, range(self.rank), strict=True
        ):
            if isinstance(self.padding, str):
                total = step * (size - 1) if self.padding == "same" else 0
                sides = [total // 2, total - total // 2]
            else:
                sides = [self.padding[index]] * 2
            border = sides + border
        return tuple(border)

    def forward(self, input: Tensor) -> Tensor:
        """(N, in, *) -> (N, out, *)."""
        if self.padding_mode == "zeros":
            return self._convolve(input, self.padding)
        padded = F.pad(input, self._border(), mode=PADDING_MODES[self.padding_mode])
        return self._convolve(padded, 0)

    def _convolve(self, input: Tensor, padding: Any) -> Tensor:
        return type(self).function(
            input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups
        )

    def extra_repr(self) -> str:
        text = (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}"
        )
        if self.padding != (0,) * self.rank:
            text += f", padding={self.padding}"
        if self.dilation != (1,) * self.rank:
            text += f", dilation={self.dilation}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        if self.padding_mode != "zeros":
            text += f", padding_mode={self.padding_mode}"
        return text


def _check_channels(in_channels: int, out_channels: int, groups: int) -> None:
    if groups <= 0:
        raise ArgumentError(
            "groups must be a positive integer",
            expected="groups > 0",
            got=str(groups),
            fix="use groups=1",
        )
    if in_channels % groups != 0:
        raise ArgumentError(
            "in_channels must be divisible by groups",
            expected=f"in_channels divisible by {groups}",
            got=str(in_channels),
            fix="choose groups that divide both numbers of channels",
        )
    if out_channels % groups != 0:
        raise ArgumentError(
            "out_channels must be divisible by groups",
            expected=f"out_channels divisible by {groups}",
            got=str(out_channels),
            fix="choose groups that divide both numbers of channels",
        )


class Conv1d(_Conv):
    """Convolution over one dimension. Shapes: (N, C, L) -> (N, out, L')."""

    rank = 1
    function = staticmethod(F.conv1d)


class Conv2d(_Conv):
    """Convolution over two dimensions. Shapes: (N, C, H, W) -> (N, out, H', W')."""

    rank = 2
    function = staticmethod(F.conv2d)
