"""The allow list of the caller's own classes in files, under PyTorch's path, with `save` and `load`.

A file is read without running anything. A class that is added here may be made and filled from a file: only add
classes that do no harm with any state.
"""

from __future__ import annotations

import enum
import io
import mmap
import pickletools
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from weft.engine.api.api_function import publish
from weft.errors import ArgumentError
from weft.io import allowed_classes, own_pickles, safe_unpickler, torch_format
from weft.io.saving import load, save
from weft.io.skipping import skip_data

if TYPE_CHECKING:
    from weft.engine.frontend.tensor import Storage
    from weft.nn.module.module import Module


__all__ = [
    "LoadEndianness", "SourceChangeWarning", "default_restore_location", "get_crc32_options",
    "get_default_mmap_options", "location_tag", "register_package", "set_crc32_options",
    "set_default_load_endianness", "set_default_mmap_options",
    "add_safe_globals", "clear_safe_globals", "get_default_load_endianness", "get_safe_globals", "load",
    "safe_globals", "save", "skip_data", "check_module_version_greater_or_equal", "get_unsafe_globals_in_checkpoint",
]  # fmt: skip

MAP_LOCATION: TypeAlias = Any  # the type of `map_location` of `load`, in annotations
FILE_LIKE: TypeAlias = Any  # the type of files of `load` and `save`
STORAGE_KEY_SEPARATOR = ","
DEFAULT_PROTOCOL = 2  # the protocol of pickles in files
MAGIC_NUMBER, PROTOCOL_VERSION = (
    0x1950A86A20F9469CFC6C,
    1001,
)  # at the head of files of the oldest form


class SourceChangeWarning(Warning):
    """Never given: files do not hold sources."""


class LoadEndianness(enum.Enum):
    """The byte order of numbers."""

    NATIVE, LITTLE, BIG = 1, 2, 3


def add_safe_globals(safe_globals: list[object]) -> None:
    """Allow classes and functions in files; each may be a pair with the name that files have for it.

    Args:
        safe_globals: classes and functions, or pairs (class, name).
    """
    for entry in safe_globals:
        allowed_classes.name_in_files(entry)
        allowed_classes.entries.append(entry)


def clear_safe_globals() -> None:
    """Allow none any more."""
    allowed_classes.entries.clear()


def get_safe_globals() -> list[Any]:
    """The allowed classes and functions."""
    return list(allowed_classes.entries)


@contextmanager
def safe_globals(safe_globals: list[object]) -> Iterator[None]:
    """Allow classes and functions within a block.

    Args:
        safe_globals: classes and functions, or pairs (class, name).
    """
    before = get_safe_globals()
    add_safe_globals(safe_globals)
    try:
        yield
    finally:
        allowed_classes.entries[:] = before


def get_default_load_endianness() -> None:
    """None: files say in what order their bytes are."""


def set_default_load_endianness(endianness: object) -> None:
    """Nothing: files say in what order their bytes are.

    Args:
        endianness: accepted, without effect.
    """


def get_default_mmap_options() -> int:
    """The way in which files are mapped: privately."""
    return mmap.MAP_PRIVATE


def set_default_mmap_options(flags: int) -> nullcontext[None]:
    """Nothing: files are mapped privately. Also a context.

    Args:
        flags: accepted, without effect.
    """
    return nullcontext()


def get_crc32_options() -> bool:
    """True if files have check sums: yes."""
    return True


def set_crc32_options(compute_crc32: bool) -> None:
    """Nothing: files have check sums.

    Args:
        compute_crc32: accepted, without effect.
    """


def location_tag(storage: Storage) -> str:
    """The device of a storage.

    Args:
        storage: the storage of a tensor.
    """
    return "cpu"


def default_restore_location(storage: Storage, location: str) -> Any:
    """The storage itself: all are on the CPU.

    Args:
        storage: the storage of a tensor.
        location: the name of a device.
    """
    return storage


def register_package(priority: int, tagger: object, deserializer: object) -> None:
    """Nothing: there are no devices to place storages on.

    Args:
        priority: accepted, without effect.
        tagger: accepted, without effect.
        deserializer: accepted, without effect.
    """


def get_unsafe_globals_in_checkpoint(f: Any) -> list[str]:
    """The names of classes and functions that a file asks for and `load` would not read without being allowed them.

    Nothing is run. Errors: ValueError for a file of no known form.
    """
    content = f.read() if hasattr(f, "read") else Path(f).read_bytes()
    known = {
        *safe_unpickler.plain_globals(),
        *torch_format.torch_globals(),
        *own_pickles.own_globals(),
        *allowed_classes.by_name_in_files(),
    }
    try:
        names = set(_globals_in(_pickle_in(content)))
    except (zipfile.BadZipFile, IndexError, ValueError):
        raise ArgumentError(
            "get_unsafe_globals_in_checkpoint: neither an archive of PyTorch's form nor a pickle",
            expected="a file of torch.save",
            got=str(f)[:80],
            fix="files of weft.save hold no classes but those that are allowed",
        ) from None
    return sorted(names - known)


def _pickle_in(content: bytes) -> bytes:
    """The pickle of a file: of an archive the one in it; what `save` wrote of a whole module is one."""
    if content[:1] == b"\x80":
        return content
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        names = [name for name in archive.namelist() if name.endswith("/data.pkl")]
        return archive.read(names[0])


def _globals_in(pickled: bytes) -> Iterator[str]:
    """The dotted names that a pickle refers to."""
    texts: list[str] = []
    for opcode, argument, _ in pickletools.genops(pickled):
        if opcode.name == "GLOBAL":
            yield str(argument).replace(" ", ".", 1).replace("__builtin__.", "builtins.")
        elif opcode.name == "STACK_GLOBAL":
            yield ".".join(texts[-2:])
        elif isinstance(argument, str):
            texts.append(argument)


def check_module_version_greater_or_equal(
    module: Module, req_version_tuple: tuple[Any, ...], error_if_malformed: bool = True
) -> bool:
    """True if a module's version is at least the one wanted; also, with a warning, if it cannot be compared, unless
    that is an error.

    Args:
        module: a module with a `__version__`.
        req_version_tuple: the least version, such as (1, 2): each part is compared as its type.
        error_if_malformed: True: a version that cannot be compared is an error; False: it is one that will do, with
            a warning.
    """
    try:
        parts = module.__version__.split(".")
        have = tuple(type(want)(part) for want, part in zip(req_version_tuple, parts, strict=False))
    except (AttributeError, ValueError) as error:
        text = f"'{module.__name__}' has a version that cannot be compared"
        if error_if_malformed:
            raise RuntimeError(text) from error
        warnings.warn(f"{text}; it is taken to be late enough", UserWarning, stacklevel=2)
        return True
    return have >= req_version_tuple


globals().update(torch_format.functions_in_pickles("torch.serialization"))
publish(globals())
del publish
