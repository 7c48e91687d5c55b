# cython: language_level=3
"""The spill file: where values go for which there is no room in memory.

One file for the process, without a name from the moment it is made: it is gone when the process is, however that ends,
and it stays usable where its folder vanishes. `transfer` is an instruction of programs that writes bytes of a slot to
it, or reads them back; a failure stops the program there (`executor`). Room is reserved before a program runs, so that
a full disk is met before anything is lost. Which values are spilled is left to `engine.pipeline.budget`.
"""

import errno as codes
import os
import tempfile

import cython
from cython.cimports.libc.errno import errno
from cython.cimports.libc.stdint import int64_t, uintptr_t
from cython.cimports.posix.types import off_t

from weft._build.compiled import require
from weft.config import config
from weft.errors import AccessError, MissingFileError, PathError, SpillError

require(__name__, cython.compiled)

CHUNK = 1 << 22  # bytes of one unit of work
NS_OF_CHUNK = 4_000_000  # about
_chunk = cython.declare(int64_t, CHUNK)
_interrupted = cython.declare(cython.int, codes.EINTR)
_file = cython.declare(cython.int, -1)
_reserved = cython.declare(cython.longlong, 0)
_folder: str | None = None
spill_failure = 0


def folder() -> str:
    """Where values are spilled to; empty where they are not."""
    return config.spill_dir if _folder is None else _folder


def given_folder() -> str | None:
    """The folder that `set_folder` was given."""
    return _folder


def set_folder(path: str | None) -> None:
    """Spill to files in a folder, or do not (None). Errors: OSError where that is no folder that can be written."""
    global _folder
    if path is not None:
        check_folder(path)
    if path != _folder:
        close()
    _folder = path


def check_folder(path: str) -> None:
    """Refuse what is no folder that files can be made in."""
    fix = "name a folder that exists and can be written"
    if not os.path.exists(path):
        raise MissingFileError("spill folder", expected="a folder that exists", got=path, fix=fix)
    if not os.path.isdir(path):
        raise PathError("spill folder", expected="a folder", got=f"a file: {path}", fix=fix)
    try:
        os.close(_made_in(path))
    except OSError as error:
        raise AccessError("spill folder", got=f"{path}: {error.strerror}", fix=fix) from None


def _made_in(path: str) -> int:
    """A new file without a name."""
    unnamed = getattr(os, "O_TMPFILE", 0)
    if unnamed:
        try:
            return os.open(path, os.O_RDWR | unnamed | os.O_CLOEXEC, 0o600)
        except OSError as error:
            if error.errno not in (codes.EISDIR, codes.EOPNOTSUPP, codes.ENOENT):
                raise
    number, name = tempfile.mkstemp(prefix="weft-spill-", dir=path)
    os.unlink(name)
    return number


def reserve(nbytes: int) -> None:
    """Make sure that the file has room for so many bytes. Errors: SpillError, and nothing has changed."""
    global _file, _reserved
    try:
        if _file < 0:
            _file, _reserved = _made_in(folder()), 0
        if nbytes > _reserved:
            os.posix_fallocate(_file, 0, nbytes)
            _reserved = nbytes
    except OSError as error:
        raise spill_error(error.errno, nbytes) from None


def close() -> None:
    """Give the file back; the next program that spills makes a new one."""
    global _file, _reserved
    if _file >= 0:
        os.close(_file)
    _file, _reserved = -1, 0


def break_for_tests() -> None:
    """Cut the file off, as where its disk fails."""
    global _file
    _file = os.open(os.devnull, os.O_RDONLY)


os.register_at_fork(after_in_child=close)  # the parent's programs write to the other


def spill_error(code: int, nbytes: int = 0) -> SpillError:
    """The error of a transfer that failed."""
    return SpillError(
        "values could not be spilled; what has not been computed is still pending",
        expected=f"room for {nbytes:,} bytes in {folder()}" if nbytes else f"a file in {folder()}",
        got=os.strerror(code),
        fix="make room there, name another folder (weft.set_memory_budget(..., spill=folder)), "
        "or raise the budget",
    )


@cython.ccall
def take_failure() -> object:
    """The error of the transfer that has failed, which is forgotten."""
    global spill_failure
    code, spill_failure = spill_failure, 0
    return spill_error(code)


def transfer_address() -> int:
    """Where the code of `transfer` lies."""
    return cython.cast(uintptr_t, cython.cast(cython.p_void, transfer))


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def transfer(
    pointers: cython.pp_void, arguments: cython.pointer(int64_t), begin: int64_t, end: int64_t
) -> cython.void:
    """Write the chunks [begin, end) of a slot to the file, or read them: `arguments` are the offset in the file, the
    bytes of the slot, and whether they are written."""
    memory: cython.p_char = cython.cast(cython.p_char, pointers[0])
    first: int64_t = begin * _chunk
    last: int64_t = min(end * _chunk, arguments[1])
    moved: cython.Py_ssize_t
    while first < last and spill_failure == 0:
        moved = _move(memory + first, last - first, arguments[0] + first, arguments[2] != 0)
        if moved < 0:
            return
        first += moved


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _move(
    memory: cython.p_char, nbytes: cython.size_t, offset: off_t, out: cython.bint
) -> cython.Py_ssize_t:
    """One call of the system: the bytes moved, -1 where it failed."""
    global spill_failure
    moved: cython.Py_ssize_t
    moved = pwrite(_file, memory, nbytes, offset) if out else pread(_file, memory, nbytes, offset)
    if moved > 0:
        return moved
    if moved < 0 and errno == _interrupted:
        return 0
    spill_failure = errno if moved < 0 else 5  # EIO: the file is shorter than what was written
    return -1
