"""Causal masks by name, for attention of fewer queries than keys: `causal_lower_right`, `causal_upper_left`.

Each makes a tensor that stands for the mask of so many queries and keys. `scaled_dot_product_attention` takes it as
`attn_mask`; as an operand of any other function it is the mask.
"""

from __future__ import annotations

import enum
from typing import Any

import weft
from weft import Tensor
from weft._typing import DeviceLike
from weft.errors import ArgumentError
from weft.nn import functional as F

__all__ = ["CausalBias", "CausalVariant", "causal_lower_right", "causal_upper_left"]


class CausalVariant(enum.IntEnum):
    """At which corner the diagonal of the mask begins: that of the first query and key, or of the last ones."""

    UPPER_LEFT = 1
    LOWER_RIGHT = 2


class CausalBias(Tensor):
    """A mask in which each query sees the keys up to its own position; with LOWER_RIGHT the last query sees all keys.

    With more queries than keys and LOWER_RIGHT the first queries see nothing, and attend to
    zeros.

    Args:
        variant: `CausalVariant.UPPER_LEFT` or `LOWER_RIGHT`.
        seq_len_q: the number of queries.
        seq_len_kv: the number of keys.

    Shape:
        (queries, keys).

    Raises:
        ArgumentError, a ValueError, if attention is asked to be causal as well.

    Example:
        >>> from weft.nn.attention.bias import causal_lower_right, causal_upper_left
        >>> causal_upper_left(2, 3)
        tensor([[ True, False, False],
                [ True,  True, False]])
        >>> causal_lower_right(2, 3)
        tensor([[ True,  True, False],
                [ True,  True,  True]])
    """

    variant: CausalVariant

    def __init__(self, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> None:
        if not isinstance(variant, CausalVariant):
            raise ArgumentError(
                f"CausalBias: {variant!r} is no variant",
                expected="CausalVariant.UPPER_LEFT or CausalVariant.LOWER_RIGHT",
                got=repr(variant),
                fix="use causal_upper_left or causal_lower_right",
            )
        self.variant, self.seq_len_q, self.seq_len_kv = variant, seq_len_q, seq_len_kv

    @staticmethod
    def __new__(cls: type, variant: object, seq_len_q: int, seq_len_kv: int) -> Any:
        late = variant == CausalVariant.LOWER_RIGHT
        mask = weft.ones(seq_len_q, seq_len_kv, dtype=weft.bool)
        return Tensor._make_subclass(cls, mask.tril(seq_len_kv - seq_len_q if late else 0))

    def _materialize(self, device: DeviceLike | None = None) -> Tensor:
        """The mask as a plain tensor."""
        return self.as_subclass(Tensor)  # type: ignore[no-any-return]

    @classmethod
    def __torch_function__(
        cls,
        func: Any,
        types: Any,
        args: Any = (),
        kwargs: Any = None,
    ) -> Any:
        """The result of a function of the mask; results are plain tensors."""
        kwargs = kwargs or {}
        if func is F.scaled_dot_product_attention and (
            kwargs.get("is_causal") or True in args[5:6]
        ):
            raise ArgumentError(
                "CausalBias should not be used with causal=True",
                expected="one of the two",
                got="a causal mask and is_causal=True",
                fix="leave is_causal out",
            )
        with weft._C.DisableTorchFunctionSubclass():
            result = func(*args, **kwargs)
        kind = isinstance(result, cls) and not hasattr(result, "variant")
        return result.as_subclass(Tensor) if kind else result

    def __repr__(self, **options: object) -> str:
        return self._materialize().__repr__()


def causal_upper_left(*size: int) -> CausalBias:
    """The mask whose diagonal begins at the first query and the first key.

    Args:
        *size: the number of queries, and that of keys.

    Shape:
        (queries, keys).

    Example:
        >>> import weft
        >>> from weft.nn.attention.bias import causal_upper_left
        >>> from weft.nn import functional as F
        >>> q, k = weft.ones(1, 1, 2, 4), weft.ones(1, 1, 3, 4)
        >>> F.scaled_dot_product_attention(q, k, k, attn_mask=causal_upper_left(2, 3)).shape
        weft.Size([1, 1, 2, 4])
    """
    queries, keys = _two(size)
    return CausalBias(CausalVariant.UPPER_LEFT, queries, keys)


def causal_lower_right(*size: int) -> CausalBias:
    """The mask whose diagonal ends at the last query and the last key.

    Args:
        *size: the number of queries, and that of keys.

    Shape:
        (queries, keys).

    Example:
        >>> import weft
        >>> from weft.nn.attention.bias import causal_lower_right
        >>> from weft.nn import functional as F
        >>> q, k = weft.ones(1, 1, 2, 4), weft.ones(1, 1, 3, 4)
        >>> F.scaled_dot_product_attention(q, k, k, attn_mask=causal_lower_right(2, 3)).shape
        weft.Size([1, 1, 2, 4])
    """
    queries, keys = _two(size)
    return CausalBias(CausalVariant.LOWER_RIGHT, queries, keys)


def _two(size: tuple[int, ...]) -> tuple[int, int]:
    assert len(size) == 2, "causal_lower_right only supports 2D tensors"
    return size[0], size[1]
