"""`weft._utils_internal`: paths and packages that PyTorch's tests ask for."""

from __future__ import annotations

import os
import tempfile
from importlib.util import find_spec

import weft

torch_parent = os.path.dirname(os.path.dirname(weft.__file__))


def get_file_path(*path_components: str) -> str:
    """A path below the folder that the package lies in."""
    return os.path.join(torch_parent, *path_components)


def get_file_path_2(*path_components: str) -> str:
    """The parts of a path, joined."""
    return os.path.join(*path_components)


def get_writable_path(path: str) -> str:
    """The folder itself where it can be written to, otherwise a fresh temporary one."""
    return path if os.access(path, os.W_OK) else tempfile.mkdtemp(suffix=os.path.basename(path))


def _check_module_exists(name: str) -> bool:
    """True if a module can be found; it is not imported."""
    try:
        return find_spec(name) is not None
    except ImportError:
        return False


def dill_available() -> bool:
    """True if dill is installed."""
    return _check_module_exists("dill")
