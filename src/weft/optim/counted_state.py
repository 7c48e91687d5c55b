"""CountedState: the state of one parameter, whose counts are kept as numbers and read as tensors.

Algorithms compute with numbers (`step`), PyTorch's programs find tensors there and write to them. A dictionary holds
the numbers; reading a count makes its tensor. What is written to that is taken over before the next step, and where the
program still holds it, it shows the new number afterwards.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, SupportsIndex, cast

import weft
from weft.engine.frontend.tensor import Tensor

Numbers = dict[str, Any]
Entries = Mapping[str, object] | Iterable[tuple[str, object]]
_REFERENCES_OF_OURS = 3  # the record, the name in `_is_held`, and getrefcount's argument


def scalar_dtype() -> Any:
    """The type of the numbers in a state: float64 where that is the default, else float32."""
    default = weft.get_default_dtype()
    return default if default is weft.float64 else weft.float32


def as_number(name: str, entry: object) -> Any:
    """A count as algorithms keep it; a tensor whose gradient is asked for as it is."""
    if isinstance(entry, Tensor) and entry.requires_grad:
        return entry
    number: Any = entry
    return int(number) if name == "step" else float(number)


def as_tensor(number: float) -> Any:
    """A count as programs and files see it."""
    return weft.tensor(float(number), dtype=scalar_dtype())


class _Shown:
    """The tensor of a count that was read, and the version of it that says what the number does."""

    __slots__ = ("tensor", "version")

    def __init__(self, tensor: Tensor) -> None:
        self.tensor, self.version = tensor, tensor._version

    def is_written(self) -> bool:
        return bool(self.tensor._version != self.version)

    def is_held(self) -> bool:
        """True if the program has a reference to the tensor."""
        tensor = self.tensor
        return sys.getrefcount(tensor) > _REFERENCES_OF_OURS

    def show(self, number: float) -> None:
        """Have the tensor say another number."""
        with weft.no_grad():
            self.tensor.fill_(number)
        self.version = self.tensor._version


class CountedState(dict[str, Any]):
    """A dictionary whose entries of some names are numbers inside and tensors outside.

    `dict`'s own methods (`dict.items(state)`) and compiled code see the numbers.
    """

    __slots__ = ("counts", "shown")

    def __init__(
        self, counts: Iterable[str] = (), entries: Mapping[str, object] | None = None
    ) -> None:
        super().__init__()
        self.counts = tuple(counts)
        self.shown: dict[str, _Shown] = {}
        self.update(entries or {})

    # -- what algorithms use ----------------------------------------------------------------------

    def settle(self) -> None:
        """Take over what the program has written to tensors of counts."""
        for name, shown in self.shown.items():
            if shown.is_written():
                dict.__setitem__(self, name, as_number(name, shown.tensor))
                shown.version = shown.tensor._version

    def take(self, numbers: Numbers) -> None:
        """New numbers, by an algorithm."""
        for name in [name for name in self.shown if name in numbers]:
            shown = self.shown[name]
            if shown.is_held() and not isinstance(numbers[name], Tensor):
                shown.show(numbers[name])
            else:
                del self.shown[name]
        dict.update(self, numbers)

    def plain(self) -> Numbers:
        """The numbers and tensors in a dictionary of their own."""
        if self.shown:
            self.settle()
        return dict(dict.items(self))  # `dict.copy` would ask for the entries, one by one

    def restore(self, entries: Numbers) -> None:
        """Have these numbers and tensors, and no others."""
        for name in [name for name in dict.keys(self) if name not in entries]:
            del self[name]
        self.take(entries)

    # -- what programs use ------------------------------------------------------------------------

    def _show(self, name: str, number: object) -> Any:
        if name not in self.counts or isinstance(number, Tensor):
            return number
        if name not in self.shown:
            self.shown[name] = _Shown(as_tensor(cast(float, number)))
        return self.shown[name].tensor

    def __getitem__(self, name: str) -> Any:
        return self._show(name, super().__getitem__(name))

    def __setitem__(self, name: str, value: object) -> None:
        if name in self.counts:
            shown = self.shown.pop(name, None)
            if isinstance(value, Tensor) and not value.requires_grad:
                self.shown[name] = _Shown(value)
            elif shown is not None and shown.is_held() and not isinstance(value, Tensor):
                shown.show(cast(float, value))
                self.shown[name] = shown
            value = as_number(name, value)
        super().__setitem__(name, value)

    def __delitem__(self, name: str) -> None:
        super().__delitem__(name)
        self.shown.pop(name, None)

    def __iter__(
        self,
    ) -> Iterator[str]:  # `dict(state)` asks for entries one by one where this is defined
        return super().__iter__()

    def get(self, name: str, default: object = None) -> Any:
        return self._show(name, super().get(name, default))

    def setdefault(self, name: str, default: object = None) -> Any:
        if name not in self:
            self[name] = default
        return self[name]

    def pop(self, name: str, *default: object) -> Any:
        value = self._show(name, super().pop(name, *default))
        self.shown.pop(name, None)
        return value

    def popitem(self) -> tuple[str, Any]:
        name = next(reversed(self))
        return name, self.pop(name)

    def clear(self) -> None:
        super().clear()
        self.shown.clear()

    def update(self, given: Entries = (), **named: object) -> None:  # type: ignore[override]
        for name, value in dict(given, **named).items():
            self[name] = value

    def __ior__(self, other: Entries) -> CountedState:  # type: ignore[override,misc]
        self.update(other)
        return self

    def __or__(self, other: Entries) -> Any:  # type: ignore[override]
        return dict(self) | dict(other)

    def items(self) -> Any:
        return dict(self).items()

    def values(self) -> Any:
        return dict(self).values()

    def copy(self) -> dict[str, Any]:
        return dict(self)

    def __eq__(self, other: object) -> bool:
        return dict(self) == other

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(dict(self))

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        return CountedState, (self.counts, self.plain())


def plain(state: Numbers) -> Numbers:
    """A state whose counts are numbers."""
    return state.plain() if type(state) is CountedState else state
