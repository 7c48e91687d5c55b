"""Importing on first use: `import weft` loads what recording needs, the rest comes when it is first named.

`later` stands for a module inside the package; `export_later` makes a package's `__getattr__` and `__dir__` (PEP 562)
from a table of the names that it exports and the modules that define them. The tables stand in the packages.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any


def load(path: str) -> ModuleType:
    """Import a module of the package. Errors: ImportError that names what is not built, where that is why."""
    try:
        return import_module(path)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        if isinstance(error, ModuleNotFoundError) and (error.name or "").startswith("weft"):
            raise
        from weft._build.compiled import import_failure

        raise import_failure(error) from error.__cause__


class later:  # noqa: N801 - reads as the import that it stands for
    """A module that is imported when one of its names is first asked for; the names that were are kept."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        value = getattr(load(self._module), name)
        self.__dict__[name] = value
        return value


class Importable(ModuleType):
    """A module of a class of its own, pickled by name: functions that are sent to other processes may use it."""

    def __reduce__(self) -> tuple[Callable[[str], ModuleType], tuple[str]]:
        return import_module, (self.__name__,)


class _Package(Importable):
    """A package that keeps what it exports where a submodule has the same name: importing one binds it otherwise."""

    def __setattr__(self, name: str, value: object) -> None:
        place = self.__dict__["_EXPORTS"].get(name) if isinstance(value, ModuleType) else None
        if place == name:
            value = getattr(value, name)
        elif place is not None:
            return  # it stands in another module, which `__getattr__` finds
        super().__setattr__(name, value)


def export_later(
    package: str, exports: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a package that exports names of modules below it, and its submodules.

    Errors: AttributeError from `__getattr__` on what the package does not have.
    """
    module = sys.modules[package]
    vars(module)["_EXPORTS"] = exports
    if not set(exports).isdisjoint(exports.values()):
        module.__class__ = _Package

    def get(name: str) -> Any:
        path = f"{package}.{exports.get(name, name)}"
        try:
            found = None if name[:1] in ("", "_") and name not in exports else load(path)
        except ModuleNotFoundError as error:
            if error.name != path:
                raise  # the submodule is there and misses something
            found = None
        if found is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(found, name) if name in exports else found
        setattr(module, name, value)
        return value

    def listed() -> list[str]:
        from pkgutil import iter_modules

        below = {found.name for found in iter_modules(module.__path__)}
        return sorted(
            {*vars(module), *exports, *(name for name in below if not name.startswith("_"))}
        )

    return get, listed


class _Gathered(Importable):
    """A module of PyTorch's whose names stand elsewhere in the package: each is fetched when it is asked for."""

    def __getattr__(self, name: str) -> Any:
        place, _, own = vars(self)["_PLACES"].get(name, "").partition(":")
        if not place:
            raise AttributeError(
                f"module {self.__name__!r} has no attribute {name!r}", name=name, obj=self
            )
        value = vars(self)[name] = getattr(load(f"weft.{place}".rstrip(".")), own or name)
        return value

    def __setattr__(self, name: str, value: object) -> None:
        """Not for a module of a name that stands here: PyTorch's package has its own, behind those of its files."""
        if not (isinstance(value, ModuleType) and name in vars(self).get("_PLACES", ())):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*vars(self), *vars(self)["_PLACES"]})


def gather(
    package: ModuleType,
    modules: Mapping[str, Mapping[str, str]],
    imported: Mapping[str, str] | None = None,
) -> None:
    """Modules of PyTorch's below `package`: for each the names in it, by the modules of Weft that hold them.

    A place is a module below `weft`, its names are separated by blanks; `theirs=ours` is a name that is called
    otherwise here. A module with a dot in its name is below another of the table. What is `imported` every module has
    and none exports."""
    others = {
        word: f"{at}:{word}" for at, words in (imported or {}).items() for word in words.split()
    }
    for name, places in modules.items():
        path = f"{package.__name__}.{name}"
        module = _Gathered(path, f"What PyTorch keeps in {name}.py.")
        pairs = [
            (word.split("="), place) for place, words in places.items() for word in words.split()
        ]
        module.__dict__["_PLACES"] = others | {
            word[0]: f"{place}:{word[-1]}" for word, place in pairs
        }
        module.__dict__["__path__"] = []
        module.__dict__["__all__"] = [word[0] for word, _ in pairs if word[0][0] != "_"]
        sys.modules[path] = module
        above, _, last = path.rpartition(".")
        if last not in vars(sys.modules[above]):
            setattr(sys.modules[above], last, module)


def join(package: ModuleType, held: Mapping[str, Mapping[str, Any]]) -> None:
    """Modules of PyTorch's below `package`, of what they hold: imports find them as they find `os.path`. A name with a
    dot is below another."""
    for name, values in held.items():
        path = f"{package.__name__}.{name}"
        module = ModuleType(path, f"What PyTorch keeps in {name}.py.")
        vars(module).update(values)
        sys.modules[path] = module
        above, _, last = path.rpartition(".")
        vars(sys.modules[above])[last] = module
