"""Names: of functions, as generated code and printed graphs write them; of values, each one once in a graph.

Weft's functions are written under the name of the package that the program has imported: `torch.relu` where
`weft.as_torch` stands in for PyTorch, else `weft.relu`. Generated code knows both.
"""

from __future__ import annotations

import builtins
import inspect
import keyword
import re
import types
from collections.abc import Callable
from typing import Any

import weft
from weft.engine.api.api_function import Public
from weft.engine.api.public_names import home
from weft.errors import ArgumentError, rooted

BUILT_IN = ("inf", "nan", "NoneType", "torch", "weft", "device", "fx_pytree", "pytree")
_NUMBERED = re.compile(r"(.*)_(\d+)$")


def is_of_library(value: object) -> bool:
    """True if a function or class is defined in a module of Weft."""
    module = getattr(value, "__module__", None)
    return isinstance(value, Public) or str(module).partition(".")[0] == "weft"


def is_of_layers(function: Public) -> bool:
    """True if a function is one of `nn.functional`, and of the package itself only as a method of tensors."""
    name = function.__name__  # type: ignore[attr-defined]
    here, at_top = vars(weft.nn.functional).get(name), vars(weft).get(name)
    return here is function and at_top is not function


def qualified_name(function: Callable[..., object]) -> str:
    """The dotted name of a function or class, such as `torch.nn.functional.relu`. Errors: RuntimeError where it has
    none."""
    name = getattr(function, "__name__", None)
    if name is None:
        raise _nameless(function)
    if getattr(builtins, name, None) is function:
        return str(name)
    if isinstance(function, Public):
        if is_of_layers(function):
            return rooted(f"weft.nn.functional.{name}")
        if (found := home(function)) is not None:
            return rooted(f"{found[0]}.{found[1]}")
    if name == "<lambda>":
        name = _assigned_name(function)
    module = _module_of(function)
    if isinstance(function, types.MethodDescriptorType | types.WrapperDescriptorType):
        name = f"{function.__objclass__.__name__}.{name}"
    return rooted(f"{module}.{name}")


def _module_of(function: Callable[..., object]) -> str:
    """The module that a function is found in."""
    owner = getattr(function, "__objclass__", None)
    module = getattr(function, "__module__", None) or getattr(owner, "__module__", None)
    if module is None:
        raise _nameless(function)
    return str(module)


def _assigned_name(function: Callable[..., object]) -> str:
    """The name to which the source of a lambda assigns it."""
    try:
        name = inspect.getsource(function).split("=")[0].strip()
    except OSError:
        name = ""
    if not name.isidentifier():
        raise _nameless(function)
    return name


def _nameless(function: Callable[..., object]) -> ArgumentError:
    return ArgumentError(
        "Unable to represent lambda" if getattr(function, "__name__", "") == "<lambda>"
        else f"cannot find module for {function}",
        expected="a function that generated code can name",
        got=repr(function),
        fix="define it by `def` at the top of a module",
    )  # fmt: skip


def snake_case(name: str) -> str:
    """`BatchNorm` as `batch_norm`."""
    words: list[str] = []
    for before, letter in zip(" " + name, name, strict=False):
        if letter.isupper() and before not in " _" and not before.isupper():
            words.append("_")
        words.append(letter.lower())
    return "".join(words)


class Namespace:
    """The names that are taken, each by one value: values that ask for a taken name get it with a number."""

    def __init__(self) -> None:
        self._owners: dict[Any, str] = {}
        self._used_names: set[str] = set()
        self._last: dict[str, int] = {}

    def create_name(self, candidate: str, obj: object) -> str:
        """A valid identifier that nobody has, as near to `candidate` as there is. An object gets one name only."""
        if obj is not None and obj in self._owners:
            return self._owners[obj]
        candidate = re.sub(r"[^0-9a-zA-Z_]+", "_", candidate) or "_unnamed"
        if candidate[0].isdigit():
            candidate = f"_{candidate}"
        name = self._free(candidate, obj)
        self._used_names.add(name)
        if obj is not None:
            self._owners[obj] = name
        return name

    def _free(self, candidate: str, obj: object) -> str:
        parts = _NUMBERED.fullmatch(candidate)
        base, number = (parts[1], int(parts[2])) if parts else (candidate, 0)
        name, number = candidate, number or self._last.get(base, 0)
        while name in self._used_names or _is_illegal(name, obj):
            number += 1
            name = f"{base}_{number}"
        self._last[base] = number
        return name

    def associate_name_with_obj(self, name: str, obj: object) -> None:
        """Note whose name one is."""
        self._owners.setdefault(obj, name)

    def _rename_object(self, obj: object, name: str) -> None:
        self._owners[obj] = name
        self._used_names.add(name)


def _is_illegal(name: str, obj: object) -> bool:
    """True if Python, or generated code, uses a name for something else."""
    if keyword.iskeyword(name) or name in BUILT_IN:
        return True
    if name == "_":  # what an interactive Python showed last, no name of the language
        return False
    return hasattr(builtins, name) and getattr(builtins, name) is not obj
