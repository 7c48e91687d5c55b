"""`weft.nn.attention`: the choice between implementations of attention, of which there is one here.

A context takes the names of PyTorch's implementations; `scaled_dot_product_attention` computes in it what it computes
anywhere. `weft.nn.functional.attention` uses the kernel. Start with `flex_attention`.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from contextlib import contextmanager

from weft.errors import ArgumentTypeError


class SDPBackend(enum.IntEnum):
    """PyTorch's implementations of attention, by the numbers they have there."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextmanager
def sdpa_kernel(backends: list[SDPBackend] | str, set_priority: bool = False) -> Iterator[None]:
    """A context that changes nothing: attention has one implementation.

    Args:
        backends: kinds of attention, or one of them.
        set_priority: accepted. Default: False.

    Raises:
        TypeError on what is no backend.

    Example:
        >>> import weft
        >>> from weft.nn.attention import SDPBackend, sdpa_kernel
        >>> q = weft.ones(1, 2, 4)
        >>> with sdpa_kernel(SDPBackend.MATH):  # there is one way to compute it, whatever is chosen
        ...     y = weft.nn.functional.scaled_dot_product_attention(q, q, q)
        >>> y.shape
        weft.Size([1, 2, 4])
    """
    chosen = [backends] if isinstance(backends, SDPBackend) else backends
    if not isinstance(chosen, list) or not all(isinstance(one, SDPBackend) for one in chosen):
        raise ArgumentTypeError(
            "sdpa_kernel(): backends must be an instance of SDPBackend or a list of them",
            expected="a SDPBackend, or a list of them",
            got=repr(backends),
            fix="for example sdpa_kernel(SDPBackend.MATH)",
        )
    yield
