"""The members of a module by kind: live views of parameters, buffers and child modules.

A module keeps every member in its own `__dict__` (so that `self.weight` is an ordinary attribute
look-up) and, beside it, one ordered table `name -> kind`. The views here join the two into the
dictionaries that PyTorch users expect.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any
from weakref import ref

PARAMETER, BUFFER, HIDDEN_BUFFER, MODULE = "parameter", "buffer", "hidden buffer", "module"
BUFFERS = (BUFFER, HIDDEN_BUFFER)


class Members(MutableMapping[str, Any]):
    """`module._parameters` and its like: the members of some kinds in order of registration."""

    __slots__ = ("_kinds", "_owner", "_values")

    def __init__(self, owner: dict[str, Any], *kinds: str) -> None:
        self._owner, self._values, self._kinds = owner["_kinds"], owner, kinds

    def __getitem__(self, name: str) -> Any:
        if self._owner.get(name) not in self._kinds:
            raise KeyError(name)
        return self._values[name]

    def __setitem__(self, name: str, value: Any) -> None:
        if self._owner.get(name) not in self._kinds:
            self._owner.pop(name, None)
            self._owner[name] = self._kinds[0]
        self._values[name] = value

    def __delitem__(self, name: str) -> None:
        if self._owner.get(name) not in self._kinds:
            raise KeyError(name)
        del self._owner[name], self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter([name for name, kind in self._owner.items() if kind in self._kinds])

    def __len__(self) -> int:
        return sum(kind in self._kinds for kind in self._owner.values())

    def __contains__(self, name: object) -> bool:
        return self._owner.get(name) in self._kinds

    def exchange(self, members: Mapping[str, Any]) -> None:
        """Have these members and no others: what an assignment to `module._parameters` does."""
        given = dict(members)
        kinds = {name: self._owner[name] for name in given if name in self}
        self.clear()
        for name, value in given.items():
            self._owner.pop(name, None)
            self._owner[name] = kinds.get(name, self._kinds[0])
            self._values[name] = value

    def __repr__(self) -> str:
        return repr(dict(self))


class _Shown(Members):
    """Members as they lie in the dictionary of a module that shows them there; it does not keep the module."""

    __slots__ = ("_module",)

    def __init__(self, module: Any, *kinds: str) -> None:
        self._module, self._kinds = ref(module), kinds

    @property
    def _values(self) -> dict[str, Any]:  # type: ignore[override]
        return object.__getattribute__(self._module(), "__dict__")

    @property
    def _owner(self) -> dict[str, str]:  # type: ignore[override]
        kinds: dict[str, str] = self._values["_kinds"]
        return kinds

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)  # a copy of the module shows its own


def ask_for_members(cls: Any) -> None:
    """Have a class that finds or sets attributes by itself do so as over PyTorch: its `__getattr__` is asked for every
    member, so that packages notice which parameters are used, and its `__dict__` has `_parameters`, `_buffers` and
    `_modules`. A class that answers to every name already keeps what it does."""
    if cls.__getattribute__ is object.__getattribute__:
        cls.__getattribute__ = _with_members_asked_for


def _with_members_asked_for(module: Any, name: str) -> Any:
    values = object.__getattribute__(module, "__dict__")
    if name == "__dict__":
        _show(module, values)
        return values
    if name in values.get("_kinds", ()) and not hasattr(type(module), name):
        return type(module).__getattr__(module, name)
    return object.__getattribute__(module, name)


def _show(module: Any, values: dict[str, Any]) -> None:
    """Put the members into the dictionary of a module; those that a copy brought along are another's."""
    shown = values.get("_parameters")
    if "_kinds" in values and not (type(shown) is _Shown and shown._module() is module):
        values["_parameters"] = _Shown(module, PARAMETER)
        values["_buffers"] = _Shown(module, *BUFFERS)
        values["_modules"] = _Shown(module, MODULE)
