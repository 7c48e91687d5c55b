"""Numbers of one test apart from those of the others, under PyTorch's names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import weft


def wrapper_set_seed(op: Callable[..., Any], *args: object, **kwargs: object) -> Any:
    """`op(*args, **kwargs)` from the seed 42; the generator is afterwards where it was."""
    with freeze_rng_state():
        weft.manual_seed(42)
        return op(*args, **kwargs)


@contextmanager
def freeze_rng_state() -> Iterator[None]:
    """A block after which the generator is where it was before."""
    with weft.random.fork_rng():
        yield
