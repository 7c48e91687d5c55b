"""`_cdata`: a number for what a handle shows, which `swap_tensors` exchanges."""

from __future__ import annotations

from itertools import count
from weakref import ref

from weft.engine.frontend.tensor import Tensor

_numbers = count(1 << 20, 64)
# By the id of a handle that has been asked, or swapped.
_identities: dict[int, tuple[object, int]] = {}


def identity(self: Tensor) -> int:
    """A number that a tensor keeps while it is the same tensor, whatever its value."""
    known = _identities.get(id(self))
    return renumber(self, next(_numbers)) if known is None else known[1]


def renumber(tensor: Tensor, number: int) -> int:
    """Give a tensor a number."""
    place = id(tensor)
    _identities[place] = ref(tensor, lambda _: _identities.pop(place, None)), number
    return number
