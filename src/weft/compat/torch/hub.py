"""`weft.hub`: weights by their address, and models by the `hubconf.py` of a folder.

Nothing is fetched over a network; local files and folders are read.
"""

from __future__ import annotations

import builtins
import importlib.util
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import unquote, urlparse

from weft.errors import ArgumentError, MissingFileError
from weft.io.saving import load as _load

__all__ = [
    "HASH_REGEX", "download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url", "set_dir",
]  # fmt: skip
_directory: builtins.list[str] = []
HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")  # finds the hash in a file's name: model-0123abcd.pth


def get_dir() -> str:
    """The directory that holds files by name, such as `checkpoints/model.pth`."""
    if _directory:
        return _directory[0]
    home = os.path.expanduser("~/.cache")
    return os.path.join(home, "weft", "hub")


def _get_torch_home() -> str:
    """The folder of hubs; libraries of models ask for it by this name."""
    return os.path.dirname(get_dir())


def set_dir(d: str | os.PathLike[str]) -> None:
    """Use another directory.

    Args:
        d: the directory, which `get_dir` returns from now on; "~" is the home of the user.
    """
    _directory[:] = [os.path.expanduser(os.fspath(d))]


def _not_fetched(name: str, url: str, path: object) -> MissingFileError:
    return MissingFileError(
        f"{name}: {url} is not fetched over the network",
        expected=f"the file at {path}",
        got="no such file",
        fix=f"fetch it yourself and put it at {path}",
    )


def download_url_to_file(
    url: str, dst: str, hash_prefix: str | None = None, progress: bool = True
) -> None:
    """Refuse: nothing is fetched over the network.

    Args:
        url: the address.
        dst: where the file is to be put.
        hash_prefix: accepted, without effect; None: the same.
        progress: accepted, without effect.

    Errors: FileNotFoundError, which says where to put the file.
    """
    raise _not_fetched("download_url_to_file", url, dst)


def load_state_dict_from_url(
    url: str,
    model_dir: str | None = None,
    map_location: object = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = True,
) -> Any:
    """The content of a file: of a `file://` address, or of the file of this name in `model_dir`.

    Args:
        url: the address. Its last part is the name of the file.
        model_dir: where the file lies; None: `checkpoints` in the directory of `get_dir`.
        map_location: as of `weft.load`; None: tensors lie where they lay.
        progress: accepted, without effect.
        check_hash: accepted, without effect: a file that is there is read as it is.
        file_name: the name of the file; None: that in the address.
        weights_only: as of `weft.load`. True: data alone. False: whatever the file has been pickled from.

    Errors: FileNotFoundError, which says where to put the file, because nothing is fetched.
    """
    parts = urlparse(url)
    name = file_name or os.path.basename(parts.path)
    path = Path(model_dir or os.path.join(get_dir(), "checkpoints")) / name
    if parts.scheme == "file":
        path = Path(unquote(parts.path))
    if not path.exists():
        raise _not_fetched("load_state_dict_from_url", url, path)
    return _load(path, map_location, weights_only=weights_only)


def load(
    repo_or_dir: str | os.PathLike[str],
    model: str,
    *args: object,
    source: str = "github",
    trust_repo: object = None,
    force_reload: bool = False,
    verbose: bool = True,
    skip_validation: bool = False,
    **kwargs: object,
) -> Any:
    """The result of a function of the `hubconf.py` of a folder: mostly a model. The file runs as any program does.

    Args:
        repo_or_dir: the folder with `source="local"`; else "owner/name" or "owner/name:branch", whose folder
            "owner_name_branch" has to lie in the directory of `get_dir`. Without a branch: "main".
        model: the name of the function.
        *args: what it is called with.
        source: "github" or "local": which of the two `repo_or_dir` is.
        trust_repo: accepted, without effect; None: the same. You put the folder there.
        force_reload: accepted, without effect: nothing is fetched.
        verbose: accepted, without effect.
        skip_validation: accepted, without effect.
        **kwargs: what it is called with by name.

    Errors: FileNotFoundError where the folder or its `hubconf.py` is not there, ValueError on another source and where
    the file has no such function.

    Example:
        >>> import weft
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = pathlib.Path(folder, "hubconf.py").write_text("from weft.nn import Linear")
        ...     model = weft.hub.load(folder, "Linear", 3, 2, source="local")
        >>> model(weft.ones(1, 3)).shape
        weft.Size([1, 2])
    """
    return _entry("load", _hubconf("load", repo_or_dir, source), model)(*args, **kwargs)


def list(  # noqa: A001 - PyTorch's name
    github: str,
    force_reload: bool = False,
    skip_validation: bool = False,
    trust_repo: object = None,
    verbose: bool = True,
) -> builtins.list[str]:
    """The names of the functions in the `hubconf.py` of a folder that `load` can call.

    Args:
        github: "owner/name" or "owner/name:branch", as `load` takes them.
        force_reload, skip_validation, verbose: accepted, without effect.
        trust_repo: accepted, without effect; None: the same.

    Errors: those of `load`.
    """
    return _callables(_hubconf("list", github, "github"))


def help(  # noqa: A001 - PyTorch's name
    github: str,
    model: str,
    force_reload: bool = False,
    skip_validation: bool = False,
    trust_repo: object = None,
) -> str | None:
    """The docstring of a function that `load` can call.

    Args:
        github: "owner/name" or "owner/name:branch", as `load` takes them.
        model: the name of the function.
        force_reload, skip_validation: accepted, without effect.
        trust_repo: accepted, without effect; None: the same.

    Errors: those of `load`.
    """
    return _entry("help", _hubconf("help", github, "github"), model).__doc__


def _hubconf(name: str, place: str | os.PathLike[str], source: str) -> ModuleType:
    """The module `hubconf.py` of a folder, run anew; it imports what lies beside it."""
    if source not in ("github", "local"):
        raise ArgumentError(
            f"hub.{name}: source is {source!r}",
            expected="'github' or 'local'",
            got=repr(source),
            fix="pass source='local' with the path of a folder",
        )
    folder = Path(place)
    if source == "github":
        repository, _, branch = os.fspath(place).partition(":")
        folder = Path(get_dir()) / f"{repository}_{branch or 'main'}".replace("/", "_")
    path = folder / "hubconf.py"
    if not path.exists():
        raise _not_fetched(f"hub.{name}", os.fspath(place), path)
    spec: Any = importlib.util.spec_from_file_location("hubconf", path)
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(folder))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(folder))
    return module


def _callables(module: ModuleType) -> builtins.list[str]:
    return [
        name for name in dir(module) if callable(getattr(module, name)) and not name.startswith("_")
    ]


def _entry(name: str, module: ModuleType, model: str) -> Callable[..., Any]:
    """The function of a `hubconf.py` that makes a model."""
    found = getattr(module, model, None)
    if callable(found):
        return found  # type: ignore[no-any-return]
    raise ArgumentError(
        f"hub.{name}: {module.__file__} has no function {model!r}",
        expected="the name of a function in it",
        got=repr(model),
        fix="call one of those that are there: " + ", ".join(_callables(module)),
    )
