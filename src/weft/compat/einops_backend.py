"""Registration with libraries that choose what to call by a table of known frameworks; they may be imported before or
after Weft.

`WATCHED` names the modules that have such tables. The first import of one is noticed on `sys.meta_path`; no other
import goes through here, and nothing is imported for it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import Any

WATCHED = ("autoray.autoray", "einops._backends", "opt_einsum.backends.dispatch", "optree.registry")


def _introduce(name: str) -> None:
    """Tell an imported module about tensors."""
    import_module("weft.utils.notation").tell(name)


class _Watch:
    """A finder that lets the watched modules be found as always, and told as soon as they have been executed."""

    @staticmethod
    def find_spec(
        fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> Any:
        """The specification of a watched module; None for all others."""
        if fullname not in WATCHED:
            return None
        from importlib.machinery import PathFinder, SourceFileLoader

        class Introduced(SourceFileLoader):
            def exec_module(self, module: ModuleType) -> None:
                super().exec_module(module)
                _introduce(module.__name__)

        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and type(spec.loader) is SourceFileLoader:
            spec.loader = Introduced(spec.loader.name, spec.loader.path)
        return spec


def watch() -> None:
    """Tell the modules that are imported already; notice those that will be."""
    sys.meta_path.insert(0, _Watch)
    for name in WATCHED:
        if name in sys.modules:
            _introduce(name)
