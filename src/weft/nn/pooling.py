"""Pooling layers over one, two and three dimensions behind the channels; the batch dimension may be left out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft import Tensor
from weft.nn import functional as F
from weft.nn.module import Module

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
        """(N, C, *) -> (N, C, *places)."""
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


def _single(size: Any) -> tuple[Any, ...]:
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
        """(N, C, L) -> (N, C, L')."""
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
        """(N, C, *) -> (N, C, *places)."""
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
        """(N, C, *) -> (N, C, *output_size)."""
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
        """(N, C, *) -> (N, C, *output_size)."""
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
