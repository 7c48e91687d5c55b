"""The arguments of a traced program: a placeholder for each, or a fixed value if `concrete_args` has one.

It takes the program and the fixed values, and returns the function to call in the program's place, and its arguments.
A fixed number stays an argument of the graph, which asserts that it has that value; of a structure each `PH` becomes a
placeholder.
"""

from __future__ import annotations

import inspect
import types
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import weft
from weft.engine.frontend.tensor import Tensor
from weft.errors import ArgumentError
from weft.functional.assertions import _assert
from weft.utils import _pytree

from .._code.code_generation import PyTreeCodeGen, PyTreeInfo
from .._code.names import is_of_library
from ..node import base_types

if TYPE_CHECKING:
    from ..proxy import Proxy

__all__ = ["PH", "PHBase", "PHWithMeta"]

_VARIABLE = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS


class PHBase:
    """Stands in `concrete_args` for what stays an argument."""

    def __repr__(self) -> str:
        return "PH"


class PHWithMeta(PHBase):
    """A `PH` whose attributes the placeholder's node gets."""

    def __init__(self, ph_key: str | None = None) -> None:
        super().__init__()
        self.ph_key = ph_key


PH = PHBase()


def _assert_is_none(value: object, msg: str) -> None:
    assert value is None, msg  # noqa: S101 - the traced program's own check


def _default_of(signature: inspect.Signature, name: str) -> tuple[Any, ...]:
    parameter = signature.parameters.get(name.lstrip("*"))
    if name[0] == "*" or parameter is None or parameter.default is inspect.Parameter.empty:
        return ()
    return (parameter.default,)


def placeholder(
    tracer: Any,
    name: str,
    concrete_args: Any,
    signature: inspect.Signature,
    function: Callable[..., Tensor],
) -> Any:
    """The proxy of an argument, or the structure with fixed values that `concrete_args` has for it."""
    default = _default_of(signature, name)
    if concrete_args is None or name not in concrete_args:
        kind = None if is_of_library(function) else function.__annotations__.get(name)
        if name[0] == "*":
            default = ()
        return tracer.create_proxy("placeholder", name, default, {}, type_expr=kind)
    count = 0

    def replace(leaf: Any) -> Any:
        nonlocal count
        count += 1
        made = tracer.create_proxy("placeholder", f"{name}_{count}", default, {})
        if isinstance(leaf, PHBase):
            if leaf is not PH:
                vars(made.node).update(vars(leaf))
            return made
        _assert_fixed(tracer, name, made, leaf)
        return leaf

    return _pytree.tree_map(replace, concrete_args[name])


def _assert_fixed(tracer: Any, name: str, given: Proxy, value: object) -> None:
    """Record that the argument has to have the value that the graph was made for."""
    message = f"{name} has been specialized to have value {value} but got another value"
    if value is None:
        tracer.create_proxy("call_function", _assert_is_none, (given, message), {})
    elif isinstance(value, base_types) and not isinstance(value, weft.Tensor):
        _assert(given == value, message)
    else:
        warnings.warn(
            f"Was not able to add assertion to guarantee correct input {name} to specialized function. It is up to "
            "the user to make sure that your inputs match the inputs you specialized the function with.",
            stacklevel=2,
        )


def placeholders_for(
    tracer: Any, program: Callable[..., object], is_module: bool, concrete_args: object
) -> tuple[Callable[..., Any], list[Any]]:
    """The function to call, and its arguments: the root first if the program is a method of it."""
    function: Any = inspect.unwrap(program)
    code = function.__code__
    count = code.co_argcount + code.co_kwonlyargcount
    names = iter(code.co_varnames)
    own: list[Any] = []
    if is_module:
        if count == 0:
            raise ArgumentError(
                "``self`` argument cannot be part of *args expansion!",
                expected="forward(self, ...)",
                got=f"forward{inspect.signature(function)}",
                fix="name self as the first parameter",
            )
        next(names)
        own = [tracer.root]
    signature = inspect.signature(function)
    if isinstance(concrete_args, tuple):
        concrete_args = _named(concrete_args, code.co_varnames[len(own) : count])

    def take(name: str) -> Any:
        return tracer._proxy_placeholder(name, concrete_args, signature, function)

    listed = [next(names) for _ in range(count - len(own))]
    variable = list(_variable(code, names))
    arguments = own + [take(name) for name in (*listed, *variable)]
    called = _all_positional(program, len(arguments)) if _takes_more(code) else program
    shown = [name for name in listed]
    return _flattened(tracer, called, own, arguments, shown, concrete_args)


def _named(fixed: tuple[object, ...], names: tuple[str, ...]) -> dict[str, Any]:
    if len(names) != len(fixed):
        raise RuntimeError(
            f"Tracing expected {len(names)} arguments but got {len(fixed)} concrete arguments"
        )
    return dict(zip(names, fixed, strict=True))


def _takes_more(code: types.CodeType) -> bool:
    """True if a function has parameters that are not simply positional."""
    return bool(code.co_kwonlyargcount or code.co_flags & _VARIABLE)


def _variable(code: types.CodeType, names: Iterator[str]) -> Iterator[str]:
    """The parameters `*args` and `**kwargs`, which become one placeholder each."""
    if code.co_flags & inspect.CO_VARARGS:
        yield f"*{next(names)}"
    if code.co_flags & inspect.CO_VARKEYWORDS:
        yield f"**{next(names)}"


def _all_positional(function: Callable[..., object], count: int) -> Callable[..., Any]:
    """The function with all its parameters taken by place, `args` and `kwargs` too: a proxy can stand for each."""
    code = function.__code__
    taken = code.co_flags & ~_VARIABLE
    changed = code.replace(
        co_argcount=count, co_posonlyargcount=0, co_kwonlyargcount=0, co_flags=taken
    )
    made = types.FunctionType(
        changed, function.__globals__, function.__name__, None, function.__closure__
    )
    made.__annotations__ = function.__annotations__
    return made


def _flattened(
    tracer: Any,
    called: Any,
    own: list[object],
    arguments: list[object],
    names: list[str],
    concrete_args: object,
) -> tuple[Callable[..., Any], list[Any]]:
    """A program of the leaves of its arguments, if these are structures; the graph's code takes them apart."""
    given = arguments[len(own) :]
    if not concrete_args or not any(_pytree.tree_structure(a).type is not None for a in given):
        return called, arguments
    leaves, spec = _pytree.tree_flatten(tuple(given))
    tracer.graph.set_codegen(PyTreeCodeGen(PyTreeInfo(names, spec, None)))

    def of_leaves(*flat: Any) -> Any:
        result = called(*own, *_pytree.tree_unflatten(list(flat[len(own) :]), spec))
        parts, out_spec = _pytree.tree_flatten(result)
        tracer.graph.set_codegen(PyTreeCodeGen(PyTreeInfo(names, spec, out_spec)))
        return parts

    return of_leaves, [*own, *leaves]
