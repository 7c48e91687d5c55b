"""Pooling layers over one, two and three dimensions behind the channels; the batch dimension may be left out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft import Tensor
from weft._typing import Shape
from weft.errors import ArgumentError
from weft.nn import functional as F
from weft.nn.module.module import Module

Sizes = int | tuple[int, ...]
Targets = int | None | tuple[int | None, ...]


class _MaxPool(Module):
    """The largest value of each window."""

    pool: Callable[..., Any]

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding, self.dilation = padding, dilation
        self.return_indices, self.ceil_mode = return_indices, ceil_mode

    def forward(self, input: Tensor) -> Any:
        """The layer applied to its input.

        Args:
            input: what the layer is applied to.

        Shape:
            (N, C, *) -> (N, C, *places).
        """
        options = {"ceil_mode": self.ceil_mode, "return_indices": self.return_indices}
        return type(self).pool(
            input, self.kernel_size, self.stride, self.padding, self.dilation, **options
        )

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPool):
    """The largest value of each window of (N, C, L)."""

    pool = F.max_pool1d


class MaxPool2d(_MaxPool):
    """The largest value of each window of (N, C, H, W)."""

    pool = F.max_pool2d


class MaxPool3d(_MaxPool):
    """The largest value of each window of (N, C, D, H, W)."""

    pool = F.max_pool3d


def _single(size: int | Shape) -> tuple[Any, ...]:
    return tuple(size) if isinstance(size, tuple | list) else (size,)


class AvgPool1d(Module):
    """The mean of each window of (N, C, L)."""

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size = _single(kernel_size)
        self.stride = _single(kernel_size if stride is None else stride)
        self.padding = _single(padding)
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        """The layer applied to its input.

        Args:
            input: what the layer is applied to.

        Shape:
            (N, C, L) -> (N, C, L').
        """
        return F.avg_pool1d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
        )

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class _AvgPool(Module):
    """The mean of each window."""

    pool: Callable[..., Any]

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding, self.ceil_mode = padding, ceil_mode
        self.count_include_pad, self.divisor_override = count_include_pad, divisor_override

    def forward(self, input: Tensor) -> Any:
        """The layer applied to its input.

        Args:
            input: what the layer is applied to.

        Shape:
            (N, C, *) -> (N, C, *places).
        """
        return type(self).pool(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool2d(_AvgPool):
    """The mean of each window of (N, C, H, W)."""

    pool = F.avg_pool2d


class AvgPool3d(_AvgPool):
    """The mean of each window of (N, C, D, H, W)."""

    pool = F.avg_pool3d


class _AdaptivePool(Module):
    """As many windows as the output has places."""

    pool: Callable[..., Any]

    def __init__(self, output_size: Targets) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Any:
        """The layer applied to its input.

        Args:
            input: what the layer is applied to.

        Shape:
            (N, C, *) -> (N, C, *output_size).
        """
        return type(self).pool(input, self.output_size)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptivePool):
    """Means over nearly equal parts of (N, C, L)."""

    pool = F.adaptive_avg_pool1d


class AdaptiveAvgPool2d(_AdaptivePool):
    """Means over nearly equal parts of (N, C, H, W)."""

    pool = F.adaptive_avg_pool2d


class AdaptiveAvgPool3d(_AdaptivePool):
    """Means over nearly equal parts of (N, C, D, H, W)."""

    pool = F.adaptive_avg_pool3d


class _AdaptiveMaxPool(_AdaptivePool):
    """The largest value of each window."""

    def __init__(self, output_size: Targets, return_indices: bool = False) -> None:
        super().__init__(output_size)
        self.return_indices = return_indices

    def forward(self, input: Tensor) -> Any:
        """The layer applied to its input.

        Args:
            input: what the layer is applied to.

        Shape:
            (N, C, *) -> (N, C, *output_size).
        """
        return type(self).pool(input, self.output_size, self.return_indices)


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    """The largest values of nearly equal parts of (N, C, L)."""

    pool = F.adaptive_max_pool1d


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    """The largest values of nearly equal parts of (N, C, H, W)."""

    pool = F.adaptive_max_pool2d


class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    """The largest values of nearly equal parts of (N, C, D, H, W)."""

    pool = F.adaptive_max_pool3d


class _LPPool(Module):
    """The p-th root of the sum of p-th powers of each window."""

    pool: Callable[..., Any]

    def __init__(
        self,
        norm_type: float,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.norm_type, self.kernel_size = norm_type, kernel_size
        self.stride, self.ceil_mode = stride, ceil_mode

    def forward(self, input: Tensor) -> Any:
        """The layer applied to its input.

        Args:
            input: what the layer is applied to.

        Shape:
            (N, C, *) -> (N, C, *places).
        """
        power = float(self.norm_type)
        return type(self).pool(input, power, self.kernel_size, self.stride, self.ceil_mode)

    def extra_repr(self) -> str:
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class LPPool1d(_LPPool):
    """Power averages of (N, C, L)."""

    pool = F.lp_pool1d


class LPPool2d(_LPPool):
    """Power averages of (N, C, H, W)."""

    pool = F.lp_pool2d


class LPPool3d(_LPPool):
    """Power averages of (N, C, D, H, W)."""

    pool = F.lp_pool3d


class _MaxUnpool(Module):
    """Maxima put back at their places."""

    pool: Callable[..., Any]
    rank: int

    def __init__(self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0) -> None:
        super().__init__()
        self.kernel_size = _spread(kernel_size, self.rank)
        self.stride = _spread(kernel_size if stride is None else stride, self.rank)
        self.padding = _spread(padding, self.rank)

    def forward(self, input: Tensor, indices: Tensor, output_size: object = None) -> Any:
        """The layer applied to its input.

        Args:
            input: the maxima.
            indices: where they were, as max pooling with `return_indices` gives it.
            output_size: the size of the result; None: as kernel and stride make it.

        Shape:
            (N, C, *places) -> (N, C, *).
        """
        return type(self).pool(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpool):
    """The inverse of MaxPool1d but for what was not largest."""

    pool, rank = F.max_unpool1d, 1


class MaxUnpool2d(_MaxUnpool):
    """The inverse of MaxPool2d but for what was not largest."""

    pool, rank = F.max_unpool2d, 2


class MaxUnpool3d(_MaxUnpool):
    """The inverse of MaxPool3d but for what was not largest."""

    pool, rank = F.max_unpool3d, 3


class _FractionalMaxPool(Module):
    """The largest values of windows at random steps (Graham 2014)."""

    pool: Callable[..., Any]
    rank: int

    def __init__(
        self,
        kernel_size: Sizes,
        output_size: Sizes | None = None,
        output_ratio: float | tuple[float, ...] | None = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = _spread(kernel_size, self.rank)
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = None if output_size is None else _spread(output_size, self.rank)
        self.output_ratio = None if output_ratio is None else _spread(output_ratio, self.rank)
        self._check(output_size, output_ratio)

    def _check(
        self,
        output_size: object | float | tuple[float, ...] | None,
        output_ratio: float | tuple[float, ...] | None,
    ) -> None:
        name = type(self).__name__
        if (output_size is None) == (output_ratio is None):
            text = f"only one of output_size and output_ratio may be specified in {name}"
            if output_size is None:
                text = f"{name} requires specifying either an output size, or a pooling ratio"
            raise ArgumentError(
                text,
                expected="one of output_size and output_ratio",
                got="neither" if output_size is None else "both",
                fix="pass output_size",
            )
        if self.output_ratio is not None and not all(0 < part < 1 for part in self.output_ratio):
            raise ArgumentError(
                f"output_ratio must be between 0 and 1 (got {output_ratio})",
                expected="0 < output_ratio < 1",
                got=str(output_ratio),
                fix="pass the share of places to keep",
            )

    def forward(self, input: Tensor) -> Any:
        """The layer applied to its input.

        Args:
            input: what the layer is applied to.

        Shape:
            (N, C, *) -> (N, C, *output_size).
        """
        return type(self).pool(
            input,
            self.kernel_size,
            self.output_size,
            self.output_ratio,
            self.return_indices,
            self._random_samples,
        )


def _spread(value: float | Shape | tuple[float, ...], rank: int) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, tuple | list) else (value,) * rank


class FractionalMaxPool2d(_FractionalMaxPool):
    """Random windows over (N, C, H, W)."""

    pool, rank = F.fractional_max_pool2d, 2


class FractionalMaxPool3d(_FractionalMaxPool):
    """Random windows over (N, C, D, H, W)."""

    pool, rank = F.fractional_max_pool3d, 3
