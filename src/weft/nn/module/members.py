"""The members of a module by kind: live views of parameters, buffers and child modules.

A module keeps every member in its own dictionary of attributes (so that `self.weight` is an ordinary attribute
look-up) and one ordered table `name -> kind`. The views here join the two into the dictionaries that PyTorch users
expect: `module._parameters`, and `module.__dict__["_parameters"]`. Weft itself asks for `own_values`, the dictionary
of all attributes.
"""

from __future__ import annotations

from collections.abc import (
    Callable,
    Collection,
    ItemsView,
    Iterator,
    KeysView,
    Mapping,
    MutableMapping,
    ValuesView,
)
from copy import deepcopy
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft.nn.module.module import Module


PARAMETER, BUFFER, HIDDEN_BUFFER, MODULE = "parameter", "buffer", "hidden buffer", "module"
BUFFERS = (BUFFER, HIDDEN_BUFFER)


class Holder:
    """An object with a dictionary of attributes, which a subclass may show otherwise."""


# The dictionary itself, whatever `__dict__` of the object's class is.
own_values: Callable[[Any], dict[str, Any]] = vars(Holder)["__dict__"].__get__
_set_own_values = vars(Holder)["__dict__"].__set__


class _Reversible:
    """A view of a dictionary, which can be walked backwards and printed as a dict's views can."""

    _name = ""

    def __reversed__(self: Any) -> Iterator[Any]:
        return reversed(list(self))

    def __repr__(self: Any) -> str:
        return f"{self._name}({list(self)})"


class _Keys(_Reversible, KeysView[str]):
    """Names."""

    _name = "dict_keys"


class _Values(_Reversible, ValuesView[Any]):
    """Values."""

    _name = "dict_values"


class _Items(_Reversible, ItemsView[str, Any]):
    """Names with values."""

    _name = "dict_items"


class _DictLike(MutableMapping[str, Any]):
    """A mapping with the methods of a dict that a mapping lacks: unions, iteration backwards, copies (which are
    dicts)."""

    __slots__ = ()

    def keys(self) -> _Keys:
        """The names."""
        return _Keys(self)

    def values(self) -> _Values:
        """The values."""
        return _Values(self)

    def items(self) -> _Items:
        """The names with the values."""
        return _Items(self)

    def copy(self) -> dict[str, Any]:
        """A dict of the present members."""
        return dict(self)

    def __copy__(self) -> dict[str, Any]:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, object]) -> dict[str, Any]:
        return {name: deepcopy(value, memo) for name, value in self.copy().items()}

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (self.copy(),)

    def __reversed__(self) -> Iterator[str]:
        return reversed(list(self))

    def __or__(self, other: Mapping[str, object]) -> dict[str, Any]:
        return {**self, **other}

    def __ror__(self, other: Mapping[str, object]) -> dict[str, Any]:
        return {**other, **self}

    def __ior__(self, other: Mapping[str, object]) -> Any:
        self.update(other)
        return self


class Members(_DictLike):
    """`module._parameters` and its like: the members of some kinds in order of registration."""

    __slots__ = ("_kinds", "_owner", "_values")

    def __new__(cls, owner: Any = (), *kinds: str) -> Any:
        """A plain dictionary where no kind is named: `type(members)(pairs)` is how programs copy a dict."""
        return super().__new__(cls) if kinds else dict(owner)

    def __init__(self, owner: Any, *kinds: str) -> None:
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


_BY_KIND = {"_parameters": (PARAMETER,), "_buffers": BUFFERS, "_modules": (MODULE,)}
_HIDDEN = "_non_persistent_buffers_set"
_SHOWN = (*_BY_KIND, _HIDDEN)


class Attributes(_DictLike):
    """`module.__dict__` as PyTorch's modules have it: plain attributes, and members below `_parameters`, `_buffers` and
    `_modules`; live. What a module of Weft was saved or copied with can be written to it as well."""

    __slots__ = ("_values",)

    def __new__(cls, module: Any = ()) -> Any:
        """A plain dictionary of a mapping, or of pairs, as of `Members`."""
        return dict(module) if isinstance(module, Mapping | list | tuple) else super().__new__(cls)

    def __init__(self, module: Module) -> None:
        self._values = own_values(module)

    def _is_shown(self, name: object) -> bool:
        return name != "_kinds" and name not in self._values.get("_kinds", ())

    def __getitem__(self, name: str) -> Any:
        if "_kinds" in self._values and name in _SHOWN:
            if name == _HIDDEN:
                return hidden_buffers(self._values)
            return Members(self._values, *_BY_KIND[name])
        if not self._is_shown(name):
            raise KeyError(name)
        return self._values[name]

    def __setitem__(self, name: str, value: Any) -> None:
        if name not in _SHOWN:
            self._values[name] = value
            return
        self._values.setdefault("_kinds", {})
        if name == _HIDDEN:
            hide_buffers(self._values, value)
        else:
            Members(self._values, *_BY_KIND[name]).exchange(value)

    def __delitem__(self, name: str) -> None:
        if not self._is_shown(name):
            raise KeyError(name)
        del self._values[name]

    def __iter__(self) -> Iterator[str]:
        shown = _SHOWN if "_kinds" in self._values else ()
        return iter([*shown, *(name for name in self._values if self._is_shown(name))])

    def __len__(self) -> int:
        return len(list(iter(self)))

    def copy(self) -> dict[str, Any]:
        """The attributes as they are now, in dictionaries of their own."""
        return {name: _plain(value) for name, value in self.items()}

    def __repr__(self) -> str:
        return repr(self.copy())


def _plain(value: object) -> Any:
    return value.copy() if isinstance(value, Members) else value


def hidden_buffers(values: dict[str, Any]) -> set[str]:
    """The buffers of a module's dictionary that its state leaves out."""
    return {name for name, kind in values["_kinds"].items() if kind == HIDDEN_BUFFER}


def hide_buffers(values: dict[str, Any], names: Collection[str]) -> None:
    """Leave these buffers out of the state, and no others."""
    kinds = values["_kinds"]
    for name, kind in kinds.items():
        if kind in BUFFERS:
            kinds[name] = HIDDEN_BUFFER if name in names else BUFFER


def take_attributes(module: Module, values: dict[str, object]) -> None:
    """Have these attributes and no others: `clone.__dict__ = module.__dict__.copy()`."""
    _set_own_values(module, {})
    Attributes(module).update(values)


def ask_for_members(cls: Any) -> None:
    """Have a class that finds or sets attributes by itself do so as over PyTorch: its `__getattr__` is asked for every
    member, so that packages notice which parameters are used. A class that answers to every name already keeps what it
    does."""
    if cls.__getattribute__ is object.__getattribute__:
        cls.__getattribute__ = _with_members_asked_for


def _with_members_asked_for(module: Module, name: str) -> Any:
    if name in own_values(module).get("_kinds", ()) and not hasattr(type(module), name):
        return type(module).__getattr__(module, name)
    return object.__getattribute__(module, name)
