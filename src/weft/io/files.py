"""Whole files read and written, with errors that say what is wrong with a path.

A file is written next to the old one and renamed over it, so that a reader never sees half of one. The callers define
its content.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from weft._progress import bar, is_wanted
from weft.errors import AccessError, DirectoryError, MissingFileError, PathError, WeftError

PIECE_BYTES = 16 << 20


def read_file(path: Path) -> bytes:
    """The content of a file. Errors: MissingFileError, DirectoryError, AccessError, PathError."""
    try:
        return _in_pieces(path) if is_wanted() else path.read_bytes()
    except (OSError, ValueError) as error:
        raise not_read("load", path, error) from None


def _in_pieces(path: Path) -> bytes:
    """The content of a file, with a bar of how much is read."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        content = bytearray()
        with bar(f"reading {path.name}", size, "B") as moving:
            while piece := file.read(PIECE_BYTES):
                content += piece
                moving.update(len(piece))
    return bytes(content)


def not_read(what: str, path: Path, error: OSError | ValueError) -> WeftError:
    """The error to raise if a file cannot be read, by the system's error."""
    if isinstance(error, (FileNotFoundError, NotADirectoryError)):
        return MissingFileError(
            f"[Errno {error.errno}] No such file or directory: '{path}'",
            operation=what,
            expected="the path of a file",
            got=f"{path}, from {Path.cwd()}",
            fix="check the path",
        )
    if isinstance(error, IsADirectoryError):
        return _is_directory(what, path)
    return (
        _no_access(what, path)
        if isinstance(error, PermissionError)
        else _unusable(what, path, error)
    )


def _is_directory(what: str, path: Path) -> DirectoryError:
    return DirectoryError(
        f"{what}: Is a directory: '{path}'",
        expected="the path of a file",
        got="a directory",
        fix=f"name a file in it, such as {path / 'model.safetensors'}",
    )


def _no_access(what: str, path: Path) -> AccessError:
    return AccessError(
        f"{what}: Permission denied: '{path}'",
        expected="a file that may be read, or a directory that may be written to",
        got=str(path),
        fix="check the owner and the mode of the file and its directory",
    )


def _unusable(what: str, path: Path, error: OSError | ValueError) -> PathError:
    return PathError(
        f"{what}: {getattr(error, 'strerror', None) or error}: {str(path)!r}",
        expected="the path of a file that can be read, or written to",
        got=repr(str(path)),
        fix="check the path",
    )


def write_file(path: Path, content: bytes) -> None:
    """Replace the file that a path leads to; links stay, and a device or a pipe is written to. Errors:
    MissingFileError, DirectoryError, AccessError, PathError."""
    try:
        place = Path(os.path.realpath(path))
        if place.is_dir():
            raise _is_directory("save", path)
        if place.exists() and not place.is_file():
            place.write_bytes(content)
        else:
            _replace(place, content)
    except DirectoryError:
        raise
    except (FileNotFoundError, NotADirectoryError) as error:
        if path.parent.is_dir():
            raise _unusable("save", path, error) from None
        raise MissingFileError(
            f"save: Parent directory {path.parent} does not exist.",
            expected="a path in a directory that exists",
            got=str(path),
            fix=f"create it first: os.makedirs({str(path.parent)!r})",
        ) from None
    except PermissionError:
        raise _no_access("save", path) from None
    except (OSError, ValueError) as error:
        raise _unusable("save", path, error) from None


def _replace(path: Path, content: bytes) -> None:
    """Write a temporary file in the same folder and rename it over the file, which keeps its mode."""
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask()
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name[:32], suffix=".tmp")
    try:
        with open(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _umask() -> int:
    current = os.umask(0o077)
    os.umask(current)
    return current
