# cython: language_level=3
"""The spill file: where values go for which there is no room in memory.

A file without a name from the moment it is made: it is gone when the process is, however that ends, and it stays usable
where its folder vanishes. A run takes it for itself and leaves it to the next one; a run within another one, as of a
signal handler that reads a value, has a file of its own. `transfer` is an instruction of programs that writes bytes of
a slot to it, or reads them back; a failure stops the program there (`executor`). Room is reserved before a program
runs, so that a full disk is met before anything is lost. Which values are spilled is left to `engine.pipeline.budget`.
"""

import errno as codes
import os

import cython
from cython.cimports.libc.errno import errno
from cython.cimports.libc.stdint import int64_t, uintptr_t
from cython.cimports.posix.types import off_t
from cython.cimports.posix.unistd import close as close_descriptor

from weft._build.compiled import require
from weft.config import config
from weft.errors import AccessError, MissingFileError, PathError, SpillError

require(__name__, cython.compiled)

CHUNK = 1 << 22  # bytes of one unit of work
NS_OF_CHUNK = 4_000_000  # an estimate: about a gigabyte per second
_chunk = cython.declare(int64_t, CHUNK)
_interrupted = cython.declare(cython.int, codes.EINTR)
_file = cython.declare(cython.int, -1)  # of the innermost run
_folder: str | None = None
spill_failure = 0


@cython.final
@cython.cclass
class SpillFile:
    """An open file, closed when nobody holds it any more."""

    descriptor: cython.int
    reserved: cython.longlong
    folder: str

    def __cinit__(self):
        self.descriptor = -1  # 0 is a file of the process

    def __init__(self, descriptor: cython.int, reserved: cython.longlong, folder: str):
        self.descriptor, self.reserved, self.folder = descriptor, reserved, folder

    def __dealloc__(self):
        if self.descriptor >= 0:
            close_descriptor(self.descriptor)


_idle = cython.declare(SpillFile, None)  # what the next run takes
_in_use = cython.declare(list, [])  # of runs, the innermost last


def folder() -> str:
    """The folder of the spill file; empty if spilling is off."""
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
    import tempfile  # and with it what compresses files

    number, name = tempfile.mkstemp(prefix="weft-spill-", dir=path)
    os.unlink(name)
    return number


@cython.cfunc
@cython.exceptval(-1, check=False)
def take_file(nbytes: cython.longlong) -> cython.int:
    """Give the run that begins a file with room for so many bytes. Errors: SpillError, and nothing has changed."""
    global _file, _idle
    waited: SpillFile = _idle
    file: SpillFile = waited
    _idle = None  # a signal handler may run meanwhile, whose runs take files as well
    try:
        if file is None:
            file = SpillFile(_made_in(folder()), 0, folder())
        if nbytes > file.reserved:
            os.posix_fallocate(file.descriptor, 0, nbytes)
            file.reserved = nbytes
    except BaseException as error:
        if waited is not None:
            _let_wait(waited)
        if isinstance(error, OSError):
            raise spill_error(error.errno, nbytes) from None
        raise
    _in_use.append(file)
    _file = file.descriptor
    return 0


@cython.cfunc
@cython.exceptval(check=False)
def leave_file() -> cython.void:
    """The innermost run is over: its file waits for the next one."""
    global _file
    file: SpillFile = _in_use.pop()
    _file = cython.cast(SpillFile, _in_use[len(_in_use) - 1]).descriptor if _in_use else -1
    _let_wait(file)


@cython.cfunc
@cython.exceptval(check=False)
def _let_wait(file: SpillFile) -> cython.void:
    """Keep a file for the next run, unless another one waits or that run is to spill elsewhere."""
    global _idle
    if _idle is None and file.descriptor >= 0 and file.folder == folder():
        _idle = file


def close() -> None:
    """Give the file back that waits; the next program that spills makes a new one."""
    global _idle
    _idle = None


def break_for_tests() -> None:
    """Let the next run have a file that is cut off, as where its disk fails."""
    global _idle
    _idle = SpillFile(os.open(os.devnull, os.O_RDONLY), 1 << 62, folder())


def _close_in_child() -> None:
    """After a fork: the parent's runs go on with their files, which what runs here must not write to."""
    global _file, _in_use
    close()
    _file, _in_use = -1, [SpillFile(-1, 0, "") for _ in _in_use]


os.register_at_fork(after_in_child=_close_in_child)


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
    """The address of the code of `transfer`."""
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
