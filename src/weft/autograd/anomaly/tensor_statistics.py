"""Statistics of tensors, noted while anomaly mode is on: of the inputs and outputs of custom Functions.

They are extremes, mean and the number of non-finite elements, as values that are computed with whatever runs next. So
a Function can be found at fault when its forward pass is no longer in memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from weft.engine.frontend.recorder import cast
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir import tape as tapes
from weft.engine.ir.dtype import float64
from weft.ops.primitives import elementwise as call
from weft.ops.primitives import reduce, where


class Figures:
    """Of one tensor: its type, and four numbers."""

    def __init__(self, name: str, tensor: Tensor) -> None:
        self.name, self.dtype, self.shape = name, tensor.dtype.name, tensor._shape
        x = call("abs", tensor) if tensor.dtype.is_complex else tensor
        x = cast(x, float64)
        axes = tuple(range(len(self.shape)))
        known = call("isfinite", x)
        self._numbers = [
            reduce(kind, where(known, x, instead), axes) if axes else where(known, x, instead)
            for kind, instead in (("amin", math.inf), ("amax", -math.inf), ("sum", 0))
        ]
        missing = where(known, 0.0, where(call("isnan", x), 1.0, 1.0 / (1 << 30)))
        self._numbers.append(reduce("sum", missing, axes) if axes else missing)

    def read(self) -> tuple[float, float, float, int, bool]:
        """(least, greatest, mean, how many elements are not finite, whether one is nan)."""
        low, high, total, missing = (float(number) for number in self._numbers)
        nans = int(missing)
        count = nans + round((missing - nans) * (1 << 30))
        size = math.prod(self.shape) - count
        return low, high, total / size if size else math.nan, count, nans > 0


class CallTensors:
    """The tensors of one call."""

    def __init__(self, arguments: Any, outputs: list[Tensor]) -> None:
        mode = tapes.tape().mode
        tracked, duals, mode.grad, mode.duals = mode.grad, mode.duals, False, None
        try:
            self.inputs = _figures(arguments, "argument")
            self.outputs = _figures(outputs, "output")
        finally:
            mode.grad, mode.duals = tracked, duals

    def fault(self) -> str:
        """ "nan" or "inf" where an output is not finite and all inputs are; else nothing."""
        if any(figures.read()[3] for figures in self.inputs):
            return ""
        found = [figures.read() for figures in self.outputs]
        if not any(numbers[3] for numbers in found):
            return ""
        return "nan" if any(numbers[4] for numbers in found) else "inf"


def _figures(values: Sequence[Tensor], name: str) -> list[Figures]:
    return [
        Figures(f"{name} {number}", value)
        for number, value in enumerate(values)
        if isinstance(value, Tensor) and value.dtype.category >= 2 and value.numel()
    ]
