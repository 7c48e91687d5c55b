"""The calls of modules, as events: their names from the outermost module on, and what was recorded in them."""

from __future__ import annotations

import sys
import threading
from weakref import WeakKeyDictionary

from weft.engine.devices import trace
from weft.engine.ir.tape import last_sequence
from weft.errors import is_internal
from weft.nn import Module
from weft.nn.module.global_hooks import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)

MOST_FRAMES = 64


def frames_of_user() -> tuple[str, ...]:
    """The frames of the program that is running, the innermost first, without the library's own."""
    found: list[str] = []
    frame = sys._getframe(1)
    while frame is not None and len(found) < MOST_FRAMES:
        code = frame.f_code
        if not is_internal(code.co_filename):
            found.append(f"{code.co_filename}({frame.f_lineno}): {code.co_qualname}")
        frame = frame.f_back  # type: ignore[assignment]
    return tuple(found)


class ModuleRanges:
    """Hooks on all calls of modules that record them, from the making until `remove`."""

    def __init__(self) -> None:
        self._calls = threading.local()  # `open`: (begin, newest node before, module) of each call
        self._names: WeakKeyDictionary[Module, dict[int, str]] = WeakKeyDictionary()
        self._handles = [
            register_module_forward_pre_hook(self._begin),
            register_module_forward_hook(self._end, always_call=True),
        ]

    def remove(self) -> None:
        """Take the hooks away."""
        for handle in self._handles:
            handle.remove()

    def _begin(self, module: Module, args: object) -> None:
        if not hasattr(self._calls, "open"):
            self._calls.open = []
        self._calls.open.append((trace.clock(), last_sequence(), module))

    def _end(self, module: Module, args: object, output: object) -> None:
        calls = getattr(self._calls, "open", [])
        while calls and calls[-1][2] is not module:  # calls that an exception has ended
            calls.pop()
        if calls:
            begin, first, _ = calls[-1]
            name = self._name(calls[0][2], module)
            calls.pop()
            trace.note("module", begin, (name, type(module).__name__, first, last_sequence()))

    def _name(self, root: Module, module: Module) -> str:
        """The name of a module within the outermost one that is being called."""
        names = self._names.get(root)
        if names is None:
            names = self._names[root] = {id(m): n for n, m in root.named_modules()}
        name = names.get(id(module), type(module).__name__)
        return f"{type(root).__name__}.{name}" if name else type(root).__name__
