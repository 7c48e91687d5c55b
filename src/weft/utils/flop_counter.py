"""How many multiplications and additions the products, convolutions and attention of a block need.

In: calls within `with FlopCounterMode() as counter`. Out: `counter.get_total_flops()`, and counts by function; what is
elementwise is not counted, as in PyTorch. The backward pass is not seen: its products are recorded by the library.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

from weft.overrides import TorchFunctionMode

__all__ = ["FlopCounterMode"]


def _product(result: Any, a: Any, b: Any, *rest: Any, **options: Any) -> int:
    """Of a product of matrices: each element of the result is a sum over the last dimension of the first operand."""
    return 2 * int(result.numel()) * int(a.shape[-1])


def _product_after_sum(result: Any, added: Any, a: Any, b: Any, **options: Any) -> int:
    return _product(result, a, b)


def _convolution(result: Any, input: Any, weight: Any, *rest: Any, **options: Any) -> int:  # noqa: A002
    """Each element of the result is a sum over a window of all channels of a group."""
    return 2 * int(result.numel()) * math.prod(weight.shape[1:])


def _transposed(result: Any, input: Any, weight: Any, *rest: Any, **options: Any) -> int:  # noqa: A002
    return 2 * int(input.numel()) * math.prod(weight.shape[1:])


def _attention(result: Any, query: Any, key: Any, value: Any, *rest: Any, **options: Any) -> int:
    rows = math.prod(query.shape[:-1])
    return 2 * rows * int(key.shape[-2]) * int(query.shape[-1] + value.shape[-1])


_COUNTS: dict[str, Callable[..., int]] = {
    **dict.fromkeys(("matmul", "mm", "bmm", "mv", "linear"), _product),
    **dict.fromkeys(("addmm", "addmv", "baddbmm"), _product_after_sum),
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), _convolution),
    **{f"conv_transpose{rank}d": _transposed for rank in (1, 2, 3)},
    "scaled_dot_product_attention": _attention,
}


class FlopCounterMode(TorchFunctionMode):
    """A context that counts. `get_flop_counts()["Global"]` has the counts by name."""

    def __init__(
        self, mods: Any = None, depth: int = 2, display: bool = True, custom_mapping: Any = None
    ) -> None:
        self.display, self.depth = display, depth
        self.flop_counts: dict[str, Counter[str]] = {"Global": Counter()}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call the function, and count it."""
        result = func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", "").strip("_")
        if name in _COUNTS:
            self.flop_counts["Global"][name] += _COUNTS[name](result, *args, **(kwargs or {}))
        return result

    def __exit__(self, *exception: object) -> None:
        super().__exit__(*exception)
        if self.display:
            print(self.get_table())

    def get_total_flops(self) -> int:
        """All of them."""
        return sum(self.flop_counts["Global"].values())

    def get_flop_counts(self) -> dict[str, dict[str, int]]:
        """By function, under "Global"."""
        return {place: dict(counts) for place, counts in self.flop_counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        """A line for each function."""
        rows = [("Global", self.get_total_flops()), *self.flop_counts["Global"].items()]
        return "\n".join(f"{name:32} {count:>16}" for name, count in rows)
