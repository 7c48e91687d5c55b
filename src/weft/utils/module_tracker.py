"""ModuleTracker: the names of modules whose calls are under way.

Within `with ModuleTracker() as tracker`, `tracker.parents` has the names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.nn.module.global_hooks import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)

if TYPE_CHECKING:
    from weft.nn.module.module import Module


__all__ = ["ModuleTracker"]


class ModuleTracker:
    """A context; `parents` holds "Global" and the dotted names of the modules whose forward is under way.

    A backward pass is recorded as a whole and runs no forward, so `is_bw` is False.
    """

    is_bw = False

    def __init__(self) -> None:
        self.parents: set[str] = {"Global"}
        self._names: dict[int, str] = {}
        self._handles: list[Any] = []

    def _name(self, module: Module) -> str:
        """The name of a module: its path below the outermost one that has been called."""
        if id(module) not in self._names:
            top = type(module).__name__
            for path, part in module.named_modules():
                self._names.setdefault(id(part), f"{top}.{path}" if path else top)
        return self._names[id(module)]

    def __enter__(self) -> ModuleTracker:
        self._handles = [
            register_module_forward_pre_hook(
                lambda module, inputs: self.parents.add(self._name(module))
            ),
            register_module_forward_hook(
                lambda module, inputs, output: self.parents.discard(self._name(module)),
                always_call=True,
            ),
        ]
        return self

    def __exit__(self, *exception: object) -> None:
        for handle in self._handles:
            handle.remove()
        self.parents = {"Global"}
