"""`weft.jit`: the interface of PyTorch's script compiler. Functions and modules stay what they are.

Every graph is compiled when it runs. There is no scripted form to inspect, to save or to load.
"""

from __future__ import annotations

import builtins
import sys
import typing
from collections import namedtuple
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, Final, TypeAlias

from weft import futures
from weft._build.lazy import join as _join
from weft.compat.absent import ScriptFunction
from weft.errors import ArgumentError
from weft.nn import Module

__all__ = [
    "Final", "Attribute", "CompilationUnit", "Error", "Future", "ScriptFunction", "ScriptModule", "TracerWarning",
    "annotate", "enable_onednn_fusion", "fork", "interface", "isinstance", "last_executed_optimized_graph",
    "onednn_fusion_enabled", "run_frozen_optimizations", "script_if_tracing", "set_fusion_strategy", "strict_fusion",
    "trace_module", "wait", "export", "freeze", "ignore", "is_scripting", "is_tracing",
    "load", "optimize_for_inference", "save", "script", "trace", "unused",
]  # fmt: skip


class ScriptModule(Module):
    """No module is one: `script` returns what it is given. One that a program makes itself is a plain `nn.Module`.

    Args:
        *args: not looked at, as by `nn.Module`.
        **kwargs: likewise.
    """


class TracerWarning(Warning):
    """Never given: nothing is traced."""


class CompilationUnit:
    """No object is one: there is no script.

    Args:
        *arguments, **options: not looked at.

    Errors: ValueError when one is made.
    """

    def __init__(self, *arguments: object, **options: object) -> None:
        raise _no_file("CompilationUnit")


Error = RuntimeError
Attribute = namedtuple("Attribute", ["value", "type"])
Attribute.__doc__ = """A value with its type, which is kept and not looked at: no module is scripted.

Args:
    value: the value.
    type: its type.
"""
Future: TypeAlias = futures.Future


def fork(func: Callable[..., object], *args: object, **kwargs: object) -> futures.Future[Any]:
    """A future of the function's result, which `wait` takes; the function is called at once.

    Args:
        func: the function; what it raises is raised here.
        *args: what it is called with.
        **kwargs: what it is called with by name.

    Example:
        >>> import weft
        >>> waiting = weft.jit.fork(lambda x: x * 2, weft.ones(2))
        >>> weft.jit.wait(waiting)
        tensor([2., 2.])
    """
    result: futures.Future[Any] = futures.Future()
    result.set_result(func(*args, **kwargs))
    return result


def wait(future: futures.Future[object]) -> Any:
    """The value of a future.

    Args:
        future: what `fork` returned, or any other `weft.futures.Future`; one without a value yet is waited for.

    Example:
        >>> import weft
        >>> weft.jit.wait(weft.jit.fork(weft.exp, weft.zeros(2)))
        tensor([1., 1.])
    """
    return future.wait()


def isinstance(obj: Any, target_type: Any) -> bool:  # noqa: A001 - PyTorch's name
    """True if an object is of a type, one of several, or one of `typing`'s such as `list[int]`.

    Args:
        obj: any object.
        target_type: a type, or a tuple of types. Of `list[int]` the list counts; its elements are not looked at.
    """
    kinds: Any = target_type if builtins.isinstance(target_type, tuple) else (target_type,)
    return builtins.isinstance(obj, tuple(typing.get_origin(kind) or kind for kind in kinds))


def enable_onednn_fusion(enabled: bool) -> None:
    """Nothing: kernels are fused anyway.

    Args:
        enabled: accepted, without effect.
    """


def onednn_fusion_enabled() -> bool:
    """True if oneDNN fuses kernels: no."""
    return False


def set_fusion_strategy(strategy: list[tuple[str, int]]) -> list[Any]:
    """The strategy before, an empty list: there is none to set.

    Args:
        strategy: accepted, without effect: pairs of a kind and a depth.
    """
    return []


def last_executed_optimized_graph() -> None:
    """The graph that was compiled last: none is kept."""


@contextmanager
def fuser(name: str) -> Iterator[None]:
    """A context that changes nothing.

    Args:
        name: accepted, without effect.
    """
    yield


class strict_fusion(nullcontext[None]):  # noqa: N801 - PyTorch's name
    """A context that changes nothing.

    Args:
        enter_result: what `with ... as` gets. Default: None.
    """


optimized_execution = fuser


def script(
    obj: object, optimize: object = None, example_inputs: object = None, **options: object
) -> Any:
    """The function or module itself.

    Args:
        obj: the function, module or class.
        optimize: accepted, without effect.
        example_inputs: accepted, without effect.
        **options: accepted, without effect.

    Example:
        >>> import weft
        >>> weft.jit.script(weft.sin) is weft.sin
        True
    """
    return obj


def trace(
    func: Callable[..., object],
    example_inputs: object = None,
    *arguments: object,
    **options: object,
) -> Any:
    """The function or module itself: its branches are taken anew at every call.

    Args:
        func: the function or module.
        example_inputs: accepted, without effect: nothing is called.
        *arguments, **options: accepted, without effect, such as `check_trace`.

    Example:
        >>> import weft
        >>> weft.jit.trace(weft.sin, weft.ones(2)) is weft.sin
        True
    """
    return func


def freeze(
    mod: Module, preserved_attrs: list[str] | None = None, optimize_numerics: bool = True
) -> Any:
    """The module itself: its parameters stay, and stay trainable.

    Args:
        mod: the module.
        preserved_attrs: accepted, without effect: all attributes stay.
        optimize_numerics: accepted, without effect.

    Example:
        >>> import weft
        >>> model = weft.jit.freeze(weft.jit.script(weft.nn.Linear(3, 2).eval()))
        >>> model(weft.ones(1, 3)).shape
        weft.Size([1, 2])
    """
    return mod


def optimize_for_inference(mod: Module, other_methods: list[str] | None = None) -> Any:
    """The module itself: every graph is compiled when it runs.

    Args:
        mod: the module.
        other_methods: accepted, without effect.
    """
    return mod


def ignore(drop: object = False, **options: object) -> Any:
    """The function itself; also a decorator with options.

    Args:
        drop: the function; anything else, such as a flag: a decorator that returns its function.
        **options: accepted, without effect.
    """
    return drop if callable(drop) else lambda function: function


def unused(fn: Callable[..., object]) -> Callable[..., Any]:
    """The function itself, which can be called as before.

    Args:
        fn: the function.
    """
    return fn


def export(fn: Callable[..., object]) -> Callable[..., Any]:
    """The function itself.

    Args:
        fn: the function.
    """
    return fn


_overload = _overload_method = _script_if_tracing = (
    export  # private names that libraries of models use
)


def annotate(the_type: object, the_value: object) -> Any:
    """The value.

    Args:
        the_type: accepted, without effect: the value is not compared with it.
        the_value: the value.
    """
    return the_value


def trace_module(mod: Module, inputs: object, *arguments: object, **options: object) -> Any:
    """The module itself.

    Args:
        mod: the module.
        inputs: accepted, without effect: no method is called.
        *arguments, **options: accepted, without effect.
    """
    return mod


def run_frozen_optimizations(mod: Module, *arguments: object, **options: object) -> None:
    """Nothing: every graph is compiled when it runs.

    Args:
        mod: the module, which stays as it is.
        *arguments, **options: accepted, without effect.
    """


def interface(obj: object) -> Any:
    """The class itself.

    Args:
        obj: the class.
    """
    return obj


script_if_tracing = export


def is_scripting() -> bool:
    """True if this runs in a scripted function: never.

    Example:
        >>> import weft
        >>> weft.jit.is_scripting()
        False
    """
    return False


def is_tracing() -> bool:
    """True if a function is being traced: never."""
    return False


def _no_file(name: str) -> ArgumentError:
    return ArgumentError(
        f"weft.jit.{name}: there is no scripted form of a module",
        expected="a module's parameters, as weft.save writes them",
        got="a scripted module",
        fix="weft.save(model.state_dict(), path), and model.load_state_dict(weft.load(path))",
    )


def save(m: object, f: object, _extra_files: object = None) -> None:
    """Refuse: there is no scripted form to write; `weft.save` writes a module's parameters.

    Args:
        m: the module.
        f: the file.

    Errors: ValueError.
    """
    raise _no_file("save")


def load(f: object, map_location: object = None, _extra_files: object = None) -> Any:
    """Refuse: there is no scripted form to read; `weft.load` reads a module's parameters.

    Args:
        f: the file.
        map_location: accepted, without effect.

    Errors: ValueError.
    """
    raise _no_file("load")


_ANNOTATIONS = "Any", "Dict", "List", "Optional", "Tuple", "Union"
_LISTS = {f"BroadcastingList{count}": list for count in range(1, 7)}
_join(
    sys.modules[__name__],
    {"annotations": {**_LISTS, **{name: getattr(typing, name) for name in _ANNOTATIONS}}},
)
