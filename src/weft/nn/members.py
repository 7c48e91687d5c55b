"""The members of a module by kind: live views of parameters, buffers and child modules.

A module keeps every member in its own `__dict__` (so that `self.weight` is an ordinary attribute
look-up) and, beside it, one ordered table `name -> kind`. The views here join the two into the
dictionaries that PyTorch users expect.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

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


def ask_for_members(cls: Any) -> None:
    """Have members of a class with a `__getattr__` of its own found by that, as PyTorch's are: packages notice there
    which parameters are used. A class that answers to every name already keeps what it does."""
    if cls.__getattribute__ is object.__getattribute__:
        cls.__getattribute__ = _with_members_asked_for


def _with_members_asked_for(module: Any, name: str) -> Any:
    kinds = object.__getattribute__(module, "__dict__").get("_kinds", ())
    if name in kinds and not hasattr(type(module), name):
        return type(module).__getattr__(module, name)
    return object.__getattribute__(module, name)
