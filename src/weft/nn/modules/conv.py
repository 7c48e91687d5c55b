"""Convolution layers, plain and transposed: weights and options around the functions of `functional`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Unpack

import weft
from weft import Tensor
from weft._typing import DeviceLike
from weft.engine.ir.dtype import DType
from weft.errors import ArgumentError
from weft.nn import functional as F
from weft.nn import init
from weft.nn.module.module import Module
from weft.nn.parameter import Parameter

if TYPE_CHECKING:
    from weft._typing import FactoryOptions


PADDING_MODES = {
    "zeros": "constant",
    "reflect": "reflect",
    "replicate": "replicate",
    "circular": "circular",
}


def spread(value: int | tuple[int, ...], count: int) -> tuple[int, ...]:
    """One number for every dimension, or the numbers given."""
    return tuple(value) if isinstance(value, tuple | list) else (value,) * count


class _Weighted(Module):
    """The common part of plain and transposed convolutions of any rank: checks, weights and the printed form."""

    rank: int
    function: Callable[..., Tensor]
    transposed = False

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...],
        padding: int | str | tuple[int, ...],
        dilation: int | tuple[int, ...],
        groups: int,
        bias: bool,
        padding_mode: str,
        output_padding: int | tuple[int, ...],
        **options: Unpack[FactoryOptions],
    ) -> None:
        super().__init__()
        _check_channels(in_channels, out_channels, groups)
        _check_padding_mode(padding_mode, self.transposed, self.rank)
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size = spread(kernel_size, self.rank)
        self.stride, self.dilation = spread(stride, self.rank), spread(dilation, self.rank)
        self.padding = padding if isinstance(padding, str) else spread(padding, self.rank)
        self.output_padding = spread(output_padding, self.rank)
        self.padding_mode = padding_mode
        self._check_padding()
        first, second = (out_channels, in_channels // groups)
        if self.transposed:
            first, second = in_channels, out_channels // groups
        self.weight = Parameter(weft.empty((first, second, *self.kernel_size), **options))
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

    def extra_repr(self) -> str:
        text = (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}"
        )
        if self.padding != (0,) * self.rank:
            text += f", padding={self.padding}"
        if self.dilation != (1,) * self.rank:
            text += f", dilation={self.dilation}"
        if self.output_padding != (0,) * self.rank:
            text += f", output_padding={self.output_padding}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        if self.padding_mode != "zeros":
            text += f", padding_mode={self.padding_mode}"
        return text


class _Conv(_Weighted):
    """A plain convolution."""

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
        device: DeviceLike | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            groups,
            bias,
            padding_mode,
            0,
            device=device,
            dtype=dtype,
        )

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
        """The layer applied to its input.

        Args:
            input: what the layer is applied to.

        Shape:
            (N, in, *) -> (N, out, *).
        """
        return self._conv_forward(input, self.weight, self.bias)

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """The convolution with another weight and bias; subclasses of packages replace it."""
        function, options = type(self).function, (self.dilation, self.groups)
        if self.padding_mode == "zeros":
            return function(input, weight, bias, self.stride, self.padding, *options)
        padded = F.pad(input, self._border(), mode=PADDING_MODES[self.padding_mode])
        return function(padded, weight, bias, self.stride, 0, *options)


class _ConvTranspose(_Weighted):
    """The transpose of a convolution; `output_size` chooses among the sizes that it may come from."""

    transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] = 1,
        padding: int | tuple[int, ...] = 0,
        output_padding: int | tuple[int, ...] = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: int | tuple[int, ...] = 1,
        padding_mode: str = "zeros",
        device: DeviceLike | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            groups,
            bias,
            padding_mode,
            output_padding,
            device=device,
            dtype=dtype,
        )

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """The layer applied to its input.

        Args:
            input: what the layer is applied to.
            output_size: the size of the result, where the stride leaves a choice; None: the
                smallest, with `output_padding`.

        Shape:
            (N, in, *) -> (N, out, *).
        """
        extra = self.output_padding
        if output_size is not None:
            extra = self._output_padding(input, tuple(output_size))
        return type(self).function(
            input,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            extra,
            self.groups,
            self.dilation,
        )

    def _output_padding(self, input: Tensor, wanted: tuple[int, ...]) -> tuple[int, ...]:
        """The padding to add at the end so that the output has the wanted size. Errors: ArgumentError."""
        rank = self.rank
        if len(wanted) not in (rank, input.dim()):
            raise ArgumentError(
                f"ConvTranspose{rank}D: for {input.dim()}D input, output_size must have {rank} or "
                f"{input.dim()} elements (got {len(wanted)})",
                expected=f"{rank} sizes",
                got=str(wanted),
                fix="pass the spatial sizes",
            )
        sizes, least = wanted[-rank:], []
        for axis in range(rank):
            low = (input.shape[axis - rank] - 1) * self.stride[axis] - 2 * self.padding[axis]  # type: ignore[operator]
            least.append(low + self.dilation[axis] * (self.kernel_size[axis] - 1) + 1)
        most = [low + step - 1 for low, step in zip(least, self.stride, strict=True)]
        if not all(a <= size <= b for a, size, b in zip(least, sizes, most, strict=True)):
            raise ArgumentError(
                f"requested an output size of {sizes}, but valid sizes range from {least} to {most} (for an input of "
                f"{input.shape[2:]})",
                expected=f"{least} to {most}",
                got=str(sizes),
                fix="pass the size of what was convolved",
            )
        return tuple([size - low for size, low in zip(sizes, least, strict=True)])


def _check_padding_mode(mode: str, transposed: bool, rank: int) -> None:
    if transposed and mode != "zeros":
        raise ArgumentError(
            f'Only "zeros" padding mode is supported for ConvTranspose{rank}d',
            expected="'zeros'",
            got=repr(mode),
            fix="pad the input with nn.functional.pad",
        )
    if mode not in PADDING_MODES:
        raise ArgumentError(
            f"padding_mode must be one of {set(PADDING_MODES)}, but got padding_mode='{mode}'",
            expected=", ".join(PADDING_MODES),
            got=repr(mode),
            fix="use padding_mode='zeros'",
        )


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


class Conv3d(_Conv):
    """Convolution over three dimensions. Shapes: (N, C, D, H, W) -> (N, out, D', H', W')."""

    rank = 3
    function = staticmethod(F.conv3d)


class ConvTranspose1d(_ConvTranspose):
    """The transpose of Conv1d. Shapes: (N, C, L) -> (N, out, L')."""

    rank = 1
    function = staticmethod(F.conv_transpose1d)


class ConvTranspose2d(_ConvTranspose):
    """The transpose of Conv2d. Shapes: (N, C, H, W) -> (N, out, H', W')."""

    rank = 2
    function = staticmethod(F.conv_transpose2d)


class ConvTranspose3d(_ConvTranspose):
    """The transpose of Conv3d. Shapes: (N, C, D, H, W) -> (N, out, D', H', W')."""

    rank = 3
    function = staticmethod(F.conv_transpose3d)
