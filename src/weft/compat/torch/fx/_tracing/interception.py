"""Interception: brings calls of modules, members of modules and marked functions to a tracer while it traces.

Functions of Weft reach a proxy by `__torch_function__`, and need nothing here. Three things do not:

- a call of a module, which may become one node: `Module.__call__` is replaced meanwhile;
- the reading of a parameter or buffer, which is a node: `Module.__getattribute__` sees names of members;
- functions that know nothing of proxies (`math.sqrt`, `len`), if they are marked: in the globals of modules they are
  replaced by functions that record a call with a proxy and make any other.

The first two are installed once while any thread traces, and ask the tracer of the thread that calls.
"""

from __future__ import annotations

import builtins
import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from weft.errors import ArgumentError, NotDefinedError
from weft.nn import Module
from weft.nn.module.members import own_values

if TYPE_CHECKING:
    from weft.compat.torch.fx.node import Argument


_module_class: Any = Module
_original_call = Module.__call__
_original_getattr = Module.__getattr__
_lock = threading.Lock()
_threads = 0  # traces that go on, of all threads
_local = threading.local()

_wrapped_fns_to_patch: dict[
    tuple[int, str], dict[str, Any]
] = {}  # marked names, and the globals that have them
_wrapped_methods_to_patch: list[tuple[type, str]] = []


def current() -> Any:
    """The tracer of this thread, or None."""
    tracers = getattr(_local, "tracers", None)
    return tracers[-1] if tracers else None


@contextmanager
def intercepted_by(tracer: object) -> Iterator[None]:
    """A context in which this thread's calls and members of modules go to a tracer."""
    _local.__dict__.setdefault("tracers", []).append(tracer)
    _install(1)
    try:
        yield
    finally:
        _install(-1)
        _local.tracers.pop()


def _install(change: int) -> None:
    global _threads
    with _lock:
        before, _threads = _threads, _threads + change
        if before == 0:
            _module_class.__call__ = _call
            _module_class.__getattr__ = _getattr
            _module_class.__getattribute__ = _getattribute
        elif _threads == 0:
            _module_class.__call__ = _original_call
            _module_class.__getattr__ = _original_getattr
            del _module_class.__getattribute__


def _call(module: Module, /, *args: object, **kwargs: object) -> Any:
    tracer = current()
    if tracer is None:
        return _original_call(module, *args, **kwargs)

    def forward(*args: Any, **kwargs: Any) -> Any:
        return _original_call(module, *args, **kwargs)

    tracer._see_globals(getattr(type(module).forward, "__globals__", None))
    return tracer.call_module(module, forward, args, kwargs)


def _getattr(module: Module, name: str) -> Any:
    value = _original_getattr(module, name)
    tracer = current()
    return value if tracer is None else tracer._member(name, value)


def _getattribute(module: Module, name: str) -> Any:
    value = object.__getattribute__(module, name)
    tracer = current()
    if tracer is None or name not in own_values(module).get("_kinds", ()):
        return value
    return tracer._member(name, value)


# -- marked functions ----------------------------------------------------------------------------------------------


class Patches:
    """Entries of dictionaries and attributes of classes that are others for a while."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []
        self._seen: set[int] = set()

    def __enter__(self) -> Patches:
        return self

    def __exit__(self, *exception: object) -> None:
        for undo in reversed(self._undo):
            undo()
        self._undo.clear()

    def put(self, names: dict[str, Any], name: str, value: object) -> None:
        """Another value under a name in a dictionary."""
        if name in names:
            self._undo.append(functools.partial(names.__setitem__, name, names[name]))
        else:
            self._undo.append(functools.partial(names.pop, name, None))
        names[name] = value

    def set(self, cls: object, name: str, value: object) -> None:
        """Another value of an attribute of a class."""
        self._undo.append(functools.partial(setattr, cls, name, getattr(cls, name)))
        setattr(cls, name, value)

    def is_new(self, names: dict[str, object]) -> bool:
        """True if a dictionary was not yet searched; notes that it is."""
        known = id(names) in self._seen
        self._seen.add(id(names))
        return not known


def mark(fn_or_name: Any, names: dict[str, object], where: str) -> Any:
    """Mark a function, by itself or by its name among the globals of the module that calls: see `wrap`."""
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise ArgumentError(
            "Unsupported type for global function! Must be either a callable or string name",
            expected="a function, or the name of one",
            got=repr(fn_or_name),
            fix="pass the function itself, or its name as a string",
        )
    if where != "<module>":
        raise NotDefinedError(
            "wrap must be called at the top level of a module",
            expected="a call where the module begins",
            got=f"a call in {where}",
            fix="call wrap outside of functions",
        )
    name = fn_or_name.__name__ if callable(fn_or_name) else fn_or_name
    _wrapped_fns_to_patch[id(names), name] = names
    return fn_or_name


def recording(function: Callable[..., object]) -> Any:
    """A function that records its calls with proxies, and makes others."""

    @functools.wraps(function)
    def recorded(*args: object, **kwargs: object) -> Any:
        proxy = first_proxy(args, kwargs)
        if proxy is None:
            return function(*args, **kwargs)
        made = proxy.tracer.create_proxy("call_function", function, args, kwargs)
        made.node.meta["is_wrapped"] = True
        return made

    return recorded


def _recording_method(cls: type, name: str) -> Any:
    method = getattr(cls, name)

    @functools.wraps(method)
    def recorded(*args: object, **kwargs: object) -> Any:
        proxy = first_proxy(args, kwargs)
        if proxy is None:
            return method(*args, **kwargs)
        return proxy.tracer.create_proxy("call_method", name, args, kwargs)

    return recorded


def first_proxy(args: tuple[Argument, ...], kwargs: dict[str, Argument]) -> Any:
    """A proxy among the arguments, or None."""
    from ..node import map_aggregate
    from ..proxy import Proxy

    found: list[Any] = []
    map_aggregate(
        (tuple(args), dict(kwargs)), lambda x: found.append(x) if isinstance(x, Proxy) else None
    )
    return found[0] if found else None


def patch_marked(patches: Patches) -> None:
    """Have all marked functions record, until the patches end."""
    for (_, name), names in _wrapped_fns_to_patch.copy().items():
        function = names.get(name, getattr(builtins, name, None))
        if function is not None and not hasattr(function, "__fx_already_patched"):
            patches.put(names, name, recording(function))
    for cls, name in _wrapped_methods_to_patch:
        patches.set(cls, name, _recording_method(cls, name))


def patch_globals(patches: Patches, names: dict[str, object], functions: set[int]) -> None:
    """Have functions (by their ids) record where a module's globals have them under a public name."""
    if not patches.is_new(names):
        return
    for name, value in list(names.items()):
        if not name.startswith("_") and callable(value) and id(value) in functions:
            patches.put(names, name, recording(value))
