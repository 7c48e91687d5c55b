"""`weft.jit`: what programs ask of PyTorch's script compiler. Functions and modules stay what they are.

In: functions and modules. Out: the same ones, since every graph is compiled when it runs. There is no scripted form
to inspect, to save or to load.
"""

from __future__ import annotations

import sys
import typing
from collections.abc import Callable
from typing import Any, Final

from weft._lazy import join
from weft.errors import ArgumentError
from weft.nn import Module

__all__ = [
    "Final", "ScriptFunction", "ScriptModule", "annotate", "export", "freeze", "ignore", "is_scripting", "is_tracing",
    "load", "optimize_for_inference", "save", "script", "trace", "unused",
]  # fmt: skip


class ScriptModule(Module):
    """No module is one: `script` returns what it is given."""


class ScriptFunction:
    """No function is one: `script` returns what it is given."""


def script(obj: Any, optimize: Any = None, example_inputs: Any = None, **options: Any) -> Any:
    """The function or module itself."""
    return obj


def trace(func: Any, example_inputs: Any = None, *arguments: Any, **options: Any) -> Any:
    """The function or module itself: its branches are taken anew at every call."""
    return func


def freeze(mod: Any, preserved_attrs: Any = None, optimize_numerics: bool = True) -> Any:
    """The module itself."""
    return mod


def optimize_for_inference(mod: Any, other_methods: Any = None) -> Any:
    """The module itself."""
    return mod


def ignore(drop: Any = False, **options: Any) -> Any:
    """The function itself; also a decorator with options."""
    return drop if callable(drop) else lambda function: function


def unused(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function itself."""
    return fn


def export(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function itself."""
    return fn


_overload = _overload_method = _script_if_tracing = (
    export  # private names that libraries of models use
)


def annotate(the_type: Any, the_value: Any) -> Any:
    """The value."""
    return the_value


def is_scripting() -> bool:
    """Whether this runs in a scripted function: never."""
    return False


def is_tracing() -> bool:
    """Whether a function is being traced: never."""
    return False


def _no_file(name: str) -> ArgumentError:
    return ArgumentError(
        f"weft.jit.{name}: there is no scripted form of a module",
        expected="a module's parameters, as weft.save writes them",
        got="a scripted module",
        fix="weft.save(model.state_dict(), path), and model.load_state_dict(weft.load(path))",
    )


def save(m: Any, f: Any, _extra_files: Any = None) -> None:
    """Errors: ValueError, there is no scripted form."""
    raise _no_file("save")


def load(f: Any, map_location: Any = None, _extra_files: Any = None) -> Any:
    """Errors: ValueError, there is no scripted form."""
    raise _no_file("load")


_ANNOTATIONS = "Any", "Dict", "List", "Optional", "Tuple", "Union"
_LISTS = {f"BroadcastingList{count}": list for count in range(1, 7)}
join(
    sys.modules[__name__],
    {"annotations": {**_LISTS, **{name: getattr(typing, name) for name in _ANNOTATIONS}}},
)
