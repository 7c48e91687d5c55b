"""Programs that import `torch` run on Weft as they are: `install()`, or `weft run train.py` in their place.

`import torch`, `from torch.nn import functional` and a package's check of the version give Weft's modules of those
names. `torch` itself is a module that has what `weft` has, and says which PyTorch's names those are. A process that is
forked goes on like that; one that starts afresh (`spawn`) has to call `install` itself.
"""

from __future__ import annotations

import importlib
import runpy
import sys
from collections.abc import Iterator, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import Distribution, DistributionFinder
from os import path as paths
from types import ModuleType
from typing import Any

import weft
from weft._build.lazy import Importable
from weft.distributed.launch import name_ranks
from weft.engine.capi.type_slots import show_under
from weft.errors import ArgumentError, name_package
from weft.torch_version import __version__ as VERSION

# What PyTorch's own tests are written with. It is plain Python: where PyTorch is installed, its files run on Weft.
_HARNESS = (
    "torch._vendor", "torch.testing._comparison", "torch.testing._internal", "torch.testing._utils"
)  # fmt: skip
# Modules of other packages that load what is compiled against PyTorch: Weft's in their place.
_STAND_INS = {"torchaudio._extension": "weft.compat.torchaudio_extension"}

# Parts of Python that PyTorch imports for itself, and packages use without importing them.
_BROUGHT = (
    "multiprocessing.connection",
    "multiprocessing.reduction",
    "concurrent.futures",
    "urllib.request",
)


class _Torch(Importable):
    """The module `torch`: what `weft` has, found when it is first asked for."""

    __version__ = VERSION
    version: ModuleType

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.version = _Version(f"{name}.version")

    @property
    def torch(self) -> ModuleType:
        """The module itself: programs write `torch.torch`."""
        return self

    def __getattr__(self, name: str) -> Any:
        try:
            value = getattr(weft, name)
        except AttributeError as error:
            raise AttributeError(str(error), name=name, obj=self) from None
        vars(self)[name] = value
        return value

    def __dir__(self) -> list[str]:
        return sorted({*vars(self), *dir(weft)})


class _Version(Importable):
    """The module `torch.version`: Weft's, under PyTorch's number."""

    __version__ = VERSION

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module("weft.version"), name)


class _Finder(MetaPathFinder, Loader):
    """Finds `torch.a.b` where `weft.a.b` is."""

    def find_spec(
        self, fullname: str, path: object = None, target: object = None
    ) -> ModuleSpec | None:
        """A spec for `torch` and what is below it, for `functorch` and stand-ins; none for what Weft does not have."""
        if fullname in _STAND_INS:
            stand_in = importlib.import_module(_STAND_INS[fullname])
            return ModuleSpec(fullname, self, loader_state=stand_in, is_package=True)
        if fullname.partition(".")[0] != "torch" and fullname not in _FUNCTORCH:
            return None
        if fullname in _HARNESS:
            return _installed_file(fullname)
        module = _Torch("torch") if fullname == "torch" else _module_of(fullname)
        if module is None:
            return None
        return ModuleSpec(fullname, self, loader_state=module, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Weft's module."""
        module: ModuleType = spec.loader_state
        own = {key: vars(module).get(key) for key in ("__spec__", "__loader__", "__path__")}
        spec.loader_state = own
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Nothing runs again; a module of Weft keeps its own origin, which importing has written over."""
        if not isinstance(module, _Torch):
            own = vars(module)["__spec__"].loader_state
            vars(module).update({key: value for key, value in own.items() if value is not None})

    def find_distributions(
        self,
        context: DistributionFinder.Context = DistributionFinder.Context(),  # noqa: B008
    ) -> Iterator[Distribution]:
        """The distribution that `importlib.metadata.version("torch")` reads."""
        if context.name == "torch":
            yield _Installed()


class _Installed(Distribution):
    """The package `torch`, as far as its version."""

    def read_text(self, filename: str) -> str | None:
        """The metadata."""
        return (
            f"Metadata-Version: 2.1\nName: torch\nVersion: {VERSION}\n"
            if filename == "METADATA"
            else None
        )

    def locate_file(self, path: Any) -> Any:
        """A file of Weft's."""
        return paths.join(paths.dirname(weft.__file__), path)


_FUNCTORCH = {"functorch": "EXPORTED", "functorch.compile": "COMPILE"}


def _functorch(name: str) -> ModuleType:
    """The package that PyTorch brings along: transforms, and models as functions; names of its compiler."""
    made = ModuleType(name, "Function transforms, as PyTorch's package has them.")
    exported = getattr(importlib.import_module("weft._functorch"), _FUNCTORCH[name])
    vars(made).update(exported, __version__=VERSION)
    return made


def _installed_file(name: str) -> ModuleSpec | None:
    """The spec of a module in PyTorch's files, or none where they are not installed. PyTorch is not imported."""
    installed = PathFinder.find_spec("torch")
    folders = installed.submodule_search_locations if installed is not None else None
    inside = name.split(".")[1:-1]
    return PathFinder.find_spec(name, [paths.join(folder, *inside) for folder in folders or ()])


def _module_of(name: str) -> ModuleType | None:
    """The module of Weft for one of PyTorch's, or none."""
    if name == "torch.version":
        return sys.modules["torch"].version
    if name in _FUNCTORCH:
        return _functorch(name)
    place = "weft" + name.removeprefix("torch")
    try:
        return importlib.import_module(place)
    except ModuleNotFoundError as error:
        if not place.startswith(error.name or "?"):
            raise  # the module is there and misses something
    found: Any = weft
    for part in place.split(".")[1:]:
        found = getattr(found, part, None)
    return found if isinstance(found, ModuleType) else None


def install() -> None:
    """From here on `import torch` gives Weft in this process. Errors: RuntimeError after PyTorch was imported."""
    present = sys.modules.get("torch")
    if isinstance(present, _Torch):
        return
    if present is not None:
        raise ArgumentError(
            "as_torch.install(): PyTorch is already imported",
            expected="a process that has not imported torch",
            got=f"torch {getattr(present, '__version__', '')} from {getattr(present, '__file__', None)}",
            fix="call weft.as_torch.install() first, or run the program with `weft run`",
        )
    name_package("torch")
    show_under(weft.Tensor, b"torch.Tensor")  # packages know tensors by the name of their class
    name_ranks()  # programs read them before they begin a group
    sys.meta_path.insert(0, _Finder())
    importlib.import_module("torch")
    for name in _BROUGHT:
        importlib.import_module(name)


def run(program: str, arguments: Sequence[str], as_module: bool = False) -> None:
    """Run a program, which may import `torch`, as Python would: a file, or a module by its name."""
    install()
    sys.argv = [program, *arguments]
    sys.path.insert(0, "" if as_module else paths.dirname(paths.abspath(program)))
    if as_module:
        runpy.run_module(program, run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(program, run_name="__main__")
