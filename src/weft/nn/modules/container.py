"""Containers: modules and parameters in sequences and dictionaries, which can be listed, indexed, sliced and
(Sequential) called.
"""

from __future__ import annotations

import itertools
import operator
import warnings
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self

from weft import Tensor
from weft.errors import (
    ArgumentError,
    ArgumentTypeError,
    AssertedKindError,
    DimensionError,
    MemberNameError,
    NotDefinedError,
)
from weft.nn.module.members import own_values
from weft.nn.module.module import Module
from weft.nn.parameter import Parameter


class Container(Module):
    """Modules under the names of keywords; PyTorch's old name for what `Module` is. Warns: FutureWarning."""

    def __init__(self, **kwargs: Module | None) -> None:
        warnings.warn(
            "`nn.Container` is deprecated. Subclass `nn.Module` instead.",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__()
        for name, module in kwargs.items():
            self.add_module(name, module)


def _position_of(index: int, count: int) -> int:
    """A position among `count` parts, negative ones counted from the end. Errors: IndexError."""
    position = operator.index(index)
    if not -count <= position < count:
        raise DimensionError(
            f"index {position} is out of range",
            expected=f"-{count} <= index < {count}",
            got=str(position),
            fix="check the index against len()",
        )
    return position % count


class _Numbered(Module):
    """Children under the names "0", "1", ...; indexing and slicing by position."""

    def _position(self, index: int) -> str:
        """The name of the child at a position, negative ones counted from the end."""
        names = list(self._modules)
        return names[_position_of(index, len(names))]

    def _replace_all(self, modules: Iterable[Module]) -> None:
        """Make `modules` the children, numbered from zero."""
        kept = list(modules)
        for name in list(self._modules):
            del self._modules[name]
        for number, module in enumerate(kept):
            self.add_module(str(number), module)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(list(self._modules.values()))

    def __setitem__(self, index: int, module: Module | None) -> None:
        setattr(self, self._position(index), module)

    def __delitem__(self, index: int | slice) -> None:
        names = list(self._modules)
        for name in names[index] if isinstance(index, slice) else [self._position(index)]:
            delattr(self, name)
        self._replace_all(self)

    def append(self, module: Module) -> Self:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def insert(self, index: int, module: Module) -> Any:
        """Add a module before a position. Errors: AssertionError (a TypeError, too) on anything else."""
        if not isinstance(module, Module):
            raise AssertedKindError(
                f"module should be of type: {Module}",
                expected="a module",
                got=type(module).__name__,
                fix="pass an instance of a module",
            )
        if not -len(self) <= index <= len(self):
            raise DimensionError(
                f"Index out of range: {index}",
                expected=f"-{len(self)} <= index <= {len(self)}",
                got=str(index),
                fix="check the index against len()",
            )
        modules = list(self)
        modules.insert(index, module)
        self._replace_all(modules)
        return self

    def extend(self, modules: Iterable[Module]) -> Self:
        """Add modules at the end. Errors: TypeError on a single object."""
        _need_iterable("ModuleList", modules)
        for module in list(modules):
            self.append(module)
        return self

    def pop(self, index: int | slice = -1) -> Any:
        """Take a module out."""
        taken = self[index]  # type: ignore[index]
        del self[index]
        return taken


class Sequential(_Numbered):
    """Calls its modules one after the other, each on the result of the one before.

    Takes modules, or one OrderedDict that names them. A slice is a Sequential of the same modules.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        named = len(args) == 1 and isinstance(args[0], OrderedDict)
        items = args[0].items() if named else ((str(i), module) for i, module in enumerate(args))
        for name, module in items:
            self.add_module(name, module)

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(OrderedDict(list(self._modules.items())[index]))
        return getattr(self, self._position(index))

    def __add__(self, other: Sequential) -> Sequential:
        if not isinstance(other, Sequential):
            raise ArgumentError(
                "add operator supports only objects of Sequential class, "
                f"but {type(other)} is given.",
                expected="a Sequential",
                got=type(other).__name__,
                fix="put the module into nn.Sequential(...) first",
            )
        return Sequential(*self, *other)

    def __iadd__(self, other: Sequential) -> Self:
        for module in list(self + other)[len(self) :]:
            self.append(module)
        return self

    def __mul__(self, count: int) -> Sequential:
        if not isinstance(count, int):
            raise ArgumentTypeError(
                f"unsupported operand type(s) for *: {type(self)} and {type(count)}",
                expected="how often to repeat the modules",
                got=type(count).__name__,
                fix="pass an int",
            )
        if count <= 0:
            raise ArgumentError(
                f"Non-positive multiplication factor {count} for {type(self)}",
                expected="at least 1",
                got=str(count),
                fix="use nn.Sequential() for none",
            )
        return Sequential(*(list(self) * count))

    def __rmul__(self, count: int) -> Sequential:
        return self * count

    def __imul__(self, count: int) -> Self:
        return self.extend(list(self * count)[len(self) :])

    def forward(self, input: Tensor) -> Any:
        """The composition of all modules.

        Args:
            input: what the first module is given.
        """
        values = own_values(self)
        for name, kind in values["_kinds"].items():
            if kind == "module":
                input = values[name](input)
        return input


class ModuleList(_Numbered):
    """A list of modules that the module it is assigned to knows about."""

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self)[index])
        return getattr(self, self._position(index))

    def __iadd__(self, modules: Iterable[Module]) -> Self:
        return self.extend(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList(itertools.chain(self, other))

    def __repr__(self) -> str:
        """Runs of children that print alike are shown once, with their range."""
        runs: list[tuple[int, int, str]] = []
        for number, text in enumerate(repr(module) for module in self):
            if runs and runs[-1][2] == text:
                runs[-1] = (runs[-1][0], number, text)
            else:
                runs.append((number, number, text))
        if not runs:
            return f"{self._get_name()}()"
        lines = []
        for first, last, text in runs:
            label = f"({first}): " if first == last else f"({first}-{last}): {last - first + 1} x "
            lines.append("  " + label + text.replace("\n", "\n  "))
        return f"{self._get_name()}(\n" + "\n".join(lines) + "\n)"


class _Named(Module):
    """The common part of the two dictionaries: looking up, listing, updating."""

    def _table(self) -> Any:
        raise NotImplementedError

    def __getitem__(self, key: str) -> Any:
        return self._table()[key]

    def __delitem__(self, key: str) -> None:
        del self._table()[key]

    def __len__(self) -> int:
        return len(self._table())

    def __iter__(self) -> Iterator[str]:
        return iter(self._table())

    def __contains__(self, key: object) -> bool:
        return key in self._table()

    def keys(self) -> list[str]:
        """The names."""
        return list(self._table())

    def values(self) -> list[Any]:
        """The members."""
        return list(self._table().values())

    def items(self) -> list[tuple[str, Any]]:
        """The names and members."""
        return list(self._table().items())

    def get(self, key: str, default: object = None) -> Any:
        """The member of a name, or the default."""
        return self._table().get(key, default)

    def pop(self, key: str) -> Any:
        """Take a member out."""
        taken = self[key]
        del self[key]
        return taken

    def clear(self) -> None:
        """Take everything out."""
        for key in self.keys():  # noqa: SIM118 - the list, because the table changes
            del self[key]

    def update(self, members: object) -> None:
        """Add from a mapping or from pairs."""
        pairs = members.items() if isinstance(members, Mapping | _Named) else members
        for key, member in _as_pairs(type(self).__name__, pairs):
            self[key] = member

    def __setitem__(self, key: str, member: Any) -> None:
        raise NotImplementedError


def _as_pairs(name: str, pairs: object) -> list[Any]:
    """All pairs, so that nothing is added where one of them is none. Errors: TypeError, ValueError."""
    if not isinstance(pairs, Iterable):
        raise ArgumentTypeError(
            f"{name}.update should be called with an iterable of key/value pairs, but got {type(pairs).__name__}",
            expected="pairs of a name and a member",
            got=repr(pairs),
            fix="pass a dictionary",
        )
    found = list(pairs)
    for number, pair in enumerate(found):
        if not isinstance(pair, Iterable) or isinstance(pair, str):
            raise ArgumentTypeError(
                f"{name} update sequence element #{number} should be Iterable; is {type(pair).__name__}",
                expected="pairs of a name and a member",
                got=type(pair).__name__,
                fix="pass a dictionary",
            )
        if len(list(pair)) != 2:
            raise ArgumentError(
                f"{name} update sequence element #{number} has length {len(list(pair))}; 2 is required",
                expected="pairs of a name and a member",
                got=repr(pair),
                fix="pass a dictionary",
            )
    return found


class ModuleDict(_Named):
    """A dictionary of modules that the module it is assigned to knows about."""

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def _table(self) -> Any:
        return self._modules

    def __setitem__(self, key: str, module: Module | None) -> None:
        self.add_module(key, module)


class ParameterDict(_Named):
    """A dictionary of parameters; tensors become parameters on the way in, other objects stay what they are. Members
    are attributes too, and in a state only where they are parameters."""

    def __init__(self, parameters: object = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def _table(self) -> Any:
        return {key: getattr(self, key) for key in self._keys}

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._keys)

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def __getitem__(self, key: str) -> Any:
        return getattr(self, _as_name(key))

    def __setitem__(self, key: str, value: Any) -> None:
        setattr(self, _as_name(key), _as_parameter(value))
        self._keys[key] = None

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, key)

    def get(self, key: str, default: object = None) -> Any:
        """The member of a name, or the default."""
        return self[key] if key in self else default  # noqa: SIM401 - this is it

    def setdefault(self, key: str, default: int | None = None) -> Any:
        """The member of a name, which is the default where there was none."""
        if key not in self:
            self[key] = default
        return self[key]

    def popitem(self) -> tuple[str, Any]:
        """Take the last member out, with its name. Errors: KeyError if it is empty."""
        if not self._keys:
            raise MemberNameError(
                "popitem(): dictionary is empty",
                expected="a member",
                got="an empty ParameterDict",
                fix="ask for len() first",
            )
        key = next(reversed(self._keys))
        return key, self.pop(key)

    def update(self, members: Any) -> None:
        """Add from a mapping or from pairs; from a plain dictionary in the order of the names."""
        plain = isinstance(members, Mapping) and not isinstance(members, OrderedDict)
        super().update(sorted(members.items()) if plain else members)

    def copy(self) -> ParameterDict:
        """Another dictionary with the same members."""
        return ParameterDict(self)

    def fromkeys(self, keys: Iterable[str], default: int | None = None) -> ParameterDict:
        """Another dictionary with the default for each name."""
        return ParameterDict((key, default) for key in keys)

    def __or__(self, other: ParameterDict) -> ParameterDict:
        made = self.copy()
        made.update(other)
        return made

    def __ror__(self, other: ParameterDict) -> ParameterDict:
        made = other.copy()
        made.update(self)
        return made

    def __ior__(self, other: ParameterDict) -> Self:
        self.update(other)
        return self

    def extra_repr(self) -> str:
        lines = []
        for key, value in self.items():
            kind = str(value.type()) if isinstance(value, Tensor) else ""
            lines.append(f"  ({key}): {_describe(value, kind)}")
        return "\n".join(lines)


def _as_name(key: int | str) -> str:
    if isinstance(key, str):
        return key
    raise ArgumentTypeError(
        f"Index given to ParameterDict cannot be used as a key as it is not a string (type is '{type(key).__name__}')",
        expected="a name",
        got=repr(key),
        fix="use str(key)",
    )


class ParameterList(Module):
    """A list of parameters; tensors become parameters on the way in, other objects stay what they are."""

    def __call__(self, *args: object, **kwargs: object) -> Any:
        raise NotDefinedError(
            "ParameterList should not be called.",
            expected="use of its entries",
            got="a call of the list",
            fix="index it, or go through it",
        )

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return iter([getattr(self, str(number)) for number in range(self._size)])

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self)[index])
        return getattr(self, self._name(index))

    def __setitem__(self, index: int, value: Tensor) -> None:
        setattr(self, self._name(index), _as_parameter(value))

    def _name(self, index: int) -> str:
        return str(_position_of(index, len(self)))

    def append(self, value: Tensor | int) -> Self:
        """Add a parameter (or another object) at the end."""
        number, self._size = self._size, self._size + 1
        setattr(self, str(number), _as_parameter(value))
        return self

    def extend(self, values: Iterable[Any]) -> Self:
        """Add parameters at the end. Errors: TypeError on a tensor or a single object."""
        _need_iterable("ParameterList", values)
        for value in list(values):
            self.append(value)
        return self

    def __iadd__(self, values: Iterable[object]) -> Self:
        return self.extend(values)

    def extra_repr(self) -> str:
        return "\n".join(f"  ({i}): {_describe(value)}" for i, value in enumerate(self))


def _as_parameter(value: Tensor | int | str | None) -> Any:
    is_plain = isinstance(value, Tensor) and not isinstance(value, Parameter)
    return Parameter(value) if is_plain else value


def _describe(value: Tensor | int | str, kind: str = "") -> str:
    if not isinstance(value, Tensor):
        return f"Object of type: {type(value).__name__}"
    size = "x".join(str(size) for size in value.shape)
    return f"Parameter containing: [{kind or value.dtype} of size {size}]"


def _need_iterable(name: str, values: object) -> None:
    """Errors: TypeError on what `extend` cannot go through, or is one tensor."""
    if not isinstance(values, Iterable) or isinstance(values, Tensor):
        raise ArgumentTypeError(
            f"{name}.extend should be called with an iterable, but got {type(values).__name__}",
            expected="a list",
            got=type(values).__name__,
            fix="use append for one",
        )
