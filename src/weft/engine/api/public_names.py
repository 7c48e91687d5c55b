"""Public names: the module and the name under which pickles and documentation refer to a public function.

It takes the public form of a function and returns a module and a qualified name that lead back to it. The modules that
users import come before those in which functions are written.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

# Of layers first where a function is one of those; else the top first.
_OF_LAYERS = ("weft.nn.functional", "weft.nn.init")
_OTHERS = (
    "weft",
    "weft.linalg",
    "weft.special",
    "weft.fft",
    "weft.func",
    "weft.autograd",
    "weft.sparse",
    "weft.nested",
    "weft.amp",
    "weft.masked",
    "weft.signal.windows",
)


def home(public: Any) -> tuple[str, str] | None:
    """The module and the qualified name of a public function; None of one that no module has."""
    function = public.__wrapped__
    written: str = function.__module__
    modules = list(_modules(written))
    for module in modules:
        for name in (function.__qualname__, function.__name__, f"Tensor.{function.__name__}"):
            if _member(module, name) is public:
                return module.__name__, name
    for module in modules:
        for prefix, space in (("", module), ("Tensor.", vars(module).get("Tensor"))):
            for name, value in vars(space).items() if space is not None else ():
                if value is public:
                    return module.__name__, prefix + name
    return None


def _modules(written: str) -> Iterator[ModuleType]:
    """The modules in which a function of the module `written` may stand, as far as they are imported."""
    of_layers = written.startswith("weft.nn.")
    places = (*_OF_LAYERS, *_OTHERS) if of_layers else (*_OTHERS, *_OF_LAYERS)
    parts = written.split(".")
    packages = [".".join(parts[:end]) for end in range(2, len(parts) + 1)]
    for name in dict.fromkeys((*places, *packages)):
        if name in sys.modules:
            yield sys.modules[name]


def _member(module: ModuleType, name: str) -> Any:
    """The object that a module already has under a qualified name, or None; asking imports nothing."""
    first, _, rest = name.partition(".")
    found = vars(module).get(first)
    return getattr(found, rest, None) if rest else found
