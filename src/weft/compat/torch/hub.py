"""`weft.hub`: weights by their address. Nothing is fetched over a network; local files are read."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from weft.errors import MissingFileError
from weft.io.saving import load

_directory: list[str] = []
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
    """Use another directory."""
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
    """Errors: FileNotFoundError that says where the file is to be put, for it is not fetched."""
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

    Errors: FileNotFoundError, which says where to put the file, because nothing is fetched."""
    parts = urlparse(url)
    name = file_name or os.path.basename(parts.path)
    path = Path(model_dir or os.path.join(get_dir(), "checkpoints")) / name
    if parts.scheme == "file":
        path = Path(unquote(parts.path))
    if not path.exists():
        raise _not_fetched("load_state_dict_from_url", url, path)
    return load(path, map_location, weights_only=weights_only)
