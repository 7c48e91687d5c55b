"""Arguments of layers that are one number for all dimensions or one for each: kernel sizes, strides and paddings.

PyTorch's module `nn.modules.utils` also has a helper for the names of a state, and so has this one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, MutableMapping
from itertools import repeat
from typing import Any

from weft.engine.frontend.tensor import Tensor


def _ntuple(n: int, name: str = "parse") -> Callable[[Any], tuple[Any, ...]]:
    """A function that repeats a number `n` times and makes a tuple of a sequence."""

    def parse(x: Tensor) -> tuple[Any, ...]:
        return tuple(x) if isinstance(x, Iterable) else tuple(repeat(x, n))

    parse.__name__ = name
    return parse


_single = _ntuple(1, "_single")
_pair = _ntuple(2, "_pair")
_triple = _ntuple(3, "_triple")
_quadruple = _ntuple(4, "_quadruple")


def _reverse_repeat_tuple(t: Any, n: int) -> tuple[Any, ...]:
    """Paddings by dimension, as `pad` takes them: the last first, each `n` times."""
    return tuple(value for value in reversed(t) for _ in range(n))


def _list_with_default(out_size: Any, defaults: list[int]) -> Any:
    """Sizes with the last of the defaults where they are None. Errors: ValueError for too few defaults."""
    if isinstance(out_size, int):
        return out_size
    if len(defaults) <= len(out_size):
        raise ValueError(f"Input dimension should be at least {len(out_size) + 1}")
    last = defaults[-len(out_size) :]
    return [default if v is None else v for v, default in zip(out_size, last, strict=True)]


def consume_prefix_in_state_dict_if_present(
    state_dict: MutableMapping[str, object], prefix: str
) -> None:
    """Take a prefix ("module.", of a wrapped model) off the names in a state, in place, and off its versions."""
    for name in [name for name in state_dict if name.startswith(prefix)]:
        state_dict[name[len(prefix) :]] = state_dict.pop(name)
    versions = getattr(state_dict, "_metadata", {})
    for path in [path for path in versions if f"{path}.".startswith(prefix)]:
        versions[path[len(prefix) :]] = versions.pop(path)
