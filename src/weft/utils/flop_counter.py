"""Counts of multiplications and additions in the products, convolutions and attention of a block.

Calls within `with FlopCounterMode() as counter` are counted: `counter.get_total_flops()`, and counts by function.
Elementwise operations are not counted, as in PyTorch. The backward pass is not seen: the library records its products.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

from weft import Tensor
from weft.overrides import TorchFunctionMode
from weft.utils._pytree import tree_map

__all__ = ["FlopCounterMode", "register_flop_formula"]


def _product(result: Any, a: Any, b: object, *rest: object, **options: object) -> int:
    """Of a product of matrices: each element of the result is a sum over the last dimension of the first operand."""
    return 2 * int(result.numel()) * int(a.shape[-1])


def _product_after_sum(
    result: object, added: object, a: object, b: object, **options: object
) -> int:
    return _product(result, a, b)


def _convolution(
    result: Any, input: Tensor, weight: Tensor, *rest: object, **options: object
) -> int:  # noqa: A002
    """Each element of the result is a sum over a window of all channels of a group."""
    return 2 * int(result.numel()) * math.prod(weight.shape[1:])


def _transposed(
    result: object, input: Tensor, weight: Tensor, *rest: object, **options: object
) -> int:  # noqa: A002
    return 2 * int(input.numel()) * math.prod(weight.shape[1:])


def _attention(
    result: object, query: Tensor, key: Tensor, value: Any, *rest: object, **options: object
) -> int:
    rows = math.prod(query.shape[:-1])
    return 2 * rows * int(key.shape[-2]) * int(query.shape[-1] + value.shape[-1])


_COUNTS: dict[str, Callable[..., int]] = {
    **dict.fromkeys(("matmul", "mm", "bmm", "mv", "linear"), _product),
    **dict.fromkeys(("addmm", "addmv", "baddbmm"), _product_after_sum),
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), _convolution),
    **{f"conv_transpose{rank}d": _transposed for rank in (1, 2, 3)},
    "scaled_dot_product_attention": _attention,
}


def register_flop_formula(
    targets: object, get_raw: bool = False
) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """A decorator: what it decorates says how many operations a call of a function, or of each of several, takes.

    It is called with the shapes of tensors in place of tensors, and `out_shape`; with the arguments themselves, and
    `out_val`, if `get_raw`.

    Args:
        targets: a function, or a list of them.
        get_raw: True: it is given the arguments, not their shapes. Default: False.
    """

    def register(formula: Callable[..., int]) -> Callable[..., int]:
        def count(result: object, *args: object, **kwargs: object) -> int:
            if get_raw:
                return formula(*args, **kwargs, out_val=result)
            shapes: Any = tree_map(_shape_of, (args, kwargs))
            return formula(*shapes[0], **shapes[1], out_shape=tree_map(_shape_of, result))

        for target in targets if isinstance(targets, (tuple, list)) else (targets,):
            _COUNTS[getattr(target, "__name__", str(target)).strip("_")] = count
        return formula

    return register


def _shape_of(entry: object) -> Any:
    return entry.shape if isinstance(entry, Tensor) else entry


class FlopCounterMode(TorchFunctionMode):
    """A context that counts. `get_flop_counts()["Global"]` has the counts by name.

    Args:
        mods: accepted: functions are counted, not modules; None: the same.
        depth: accepted. Default: 2.
        display: True: print the table at the end. Default: True.
        custom_mapping: functions, and what counts their operations; None: none.

    Example:
        >>> import weft
        >>> from weft.utils.flop_counter import FlopCounterMode
        >>> with FlopCounterMode(display=False) as counter:
        ...     y = weft.ones(4, 3) @ weft.ones(3, 5)
        >>> counter.get_total_flops()  # 2 * 4 * 3 * 5
        120
    """

    def __init__(
        self,
        mods: object = None,
        depth: int = 2,
        display: bool = True,
        custom_mapping: object = None,
    ) -> None:
        self.display, self.depth = display, depth
        self.flop_counts: dict[str, Counter[str]] = {"Global": Counter()}

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: Any = (),
        kwargs: Any = None,
    ) -> Any:
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
        """All of them.

        Example:
            >>> import weft
            >>> from weft.utils.flop_counter import FlopCounterMode
            >>> with FlopCounterMode(display=False) as counter:
            ...     y = weft.ones(4, 3) @ weft.ones(3, 5)
            >>> counter.get_total_flops()
            120
        """
        return sum(self.flop_counts["Global"].values())

    def get_flop_counts(self) -> dict[str, dict[str, int]]:
        """By function, under "Global".

        Example:
            >>> import weft
            >>> from weft.utils.flop_counter import FlopCounterMode
            >>> with FlopCounterMode(display=False) as counter:
            ...     y = weft.ones(4, 3) @ weft.ones(3, 5)
            >>> counter.get_flop_counts()["Global"]
            {'matmul': 120}
        """
        return {place: dict(counts) for place, counts in self.flop_counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        """A line for each function.

        Args:
            depth: accepted; None: the same.
        """
        rows = [("Global", self.get_total_flops()), *self.flop_counts["Global"].items()]
        return "\n".join(f"{name:32} {count:>16}" for name, count in rows)
