"""Padding layers: constants, zeros, reflected, repeated and circular edges around one, two and three dimensions."""

from __future__ import annotations

from weft import Tensor
from weft.errors import ArgumentError
from weft.nn import functional as F
from weft.nn.module.module import Module
from weft.tensor.arguments import per_dimension

Widths = int | tuple[int, ...]


class _Pad(Module):
    """Widths in pairs, the last dimension's first; one number stands for all."""

    rank: int
    mode = "constant"

    def __init__(self, padding: Widths) -> None:
        super().__init__()
        self.padding = per_dimension("padding", padding, 2 * self.rank)

    def forward(self, input: Tensor) -> Tensor:
        """The layer applied to its input.

        Args:
            input: what the layer is applied to.

        Shape:
            (N, C, *) or (C, *) -> the same with larger last dimensions.
        """
        return F.pad(input, self.padding, self.mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPad(_Pad):
    """One value on every side."""

    def __init__(self, padding: Widths, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        """The layer applied to its input.

        Args:
            input: what the layer is applied to.

        Shape:
            (N, C, *) or (C, *) -> the same with larger last dimensions.
        """
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPad):
    """A value on both sides of (N, C, L)."""

    rank = 1


class ConstantPad2d(_ConstantPad):
    """A value on all sides of (N, C, H, W)."""

    rank = 2


class ConstantPad3d(_ConstantPad):
    """A value on all sides of (N, C, D, H, W)."""

    rank = 3


class ZeroPad1d(ConstantPad1d):
    """Zeros on both sides of (N, C, L)."""

    def __init__(self, padding: Widths) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad2d(ConstantPad2d):
    """Zeros on all sides of (N, C, H, W)."""

    def __init__(self, padding: Widths) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad3d(ConstantPad3d):
    """Zeros on all sides of (N, C, D, H, W)."""

    def __init__(self, padding: Widths) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ReflectionPad(_Pad):
    """The input mirrored at its edges."""

    mode = "reflect"


class ReflectionPad1d(_ReflectionPad):
    """(N, C, L) mirrored at its ends."""

    rank = 1


class ReflectionPad2d(_ReflectionPad):
    """(N, C, H, W) mirrored at its edges."""

    rank = 2


class ReflectionPad3d(_ReflectionPad):
    """(N, C, D, H, W) mirrored at its faces."""

    rank = 3


class _ReplicationPad(_Pad):
    """The edge repeated."""

    mode = "replicate"


class ReplicationPad1d(_ReplicationPad):
    """(N, C, L) with its ends repeated."""

    rank = 1


class ReplicationPad2d(_ReplicationPad):
    """(N, C, H, W) with its edges repeated."""

    rank = 2


class ReplicationPad3d(_ReplicationPad):
    """(N, C, D, H, W) with its faces repeated."""

    rank = 3


class _CircularPad(_Pad):
    """The input continued by its other end."""

    mode = "circular"

    def forward(self, input: Tensor) -> Tensor:
        """The layer applied to its input.

        Args:
            input: what the layer is applied to.

        Shape:
            (N, C, *) or (C, *) -> the same with larger last dimensions.

        Raises:
            ArgumentError.
        """
        ranks = (self.rank + 1, self.rank + 2)
        if input.dim() not in ranks:
            raise ArgumentError(
                f"expected {ranks[0]}D or {ranks[1]}D input (got {input.dim()}D input)",
                expected=f"{ranks[0]} or {ranks[1]} dimensions",
                got=str(list(input.shape)),
                fix="use the layer of the other rank",
            )
        return super().forward(input)


class CircularPad1d(_CircularPad):
    """(N, C, L) continued by its other end."""

    rank = 1


class CircularPad2d(_CircularPad):
    """(N, C, H, W) continued by its other edges."""

    rank = 2


class CircularPad3d(_CircularPad):
    """(N, C, D, H, W) continued by its other faces."""

    rank = 3
