"""Shipped kernels, compiled when the package was built: a read-only layer over the user's disk cache.

`open_for(target)` gives the archive of this processor's level, `Archive.load` the object code of a kernel by its key,
or None. An archive belongs to one revision of the sources that write kernels: another one's is as if there were none.
An entry that is damaged, or that is for another processor, counts as absent: then the kernel is compiled. A kernel with
gathers has two entries, of which the processor's maker decides. `pack` writes an archive (`tools/ship_kernels.py`).

An archive is a head (magic, revision), a table of entries sorted by the hash of their key (hash, checksum, offset,
size), and compressed object code.
"""

from __future__ import annotations

import bisect
import hashlib
import os
import struct
import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

from weft.engine.devices.cpu.kernel_files.object_files import is_for_this_processor
from weft.engine.devices.cpu.llvm.target import reads_lane_by_lane

if TYPE_CHECKING:
    from pathlib import Path

MAGIC = b"weft-shipped-kernels-1\n"
FOLDER = os.path.join(os.path.dirname(os.path.dirname(__file__)), "shipped")
MOST_BYTES = 8 << 20  # bytes of an archive
_HEAD = struct.Struct("<64sI")  # revision, count of entries
_ENTRY = struct.Struct("<32s32sII")  # hash of the key, checksum of the code, offset, size


def path_of(level: str) -> str:
    """The path of a level's archive (`Target.name`) in the package."""
    return os.path.join(FOLDER, f"{level}.kernels")


def open_for(level: str, revision: str) -> Archive | None:
    """The archive of a level; None where none was built, or one of other sources."""
    try:
        file = open(path_of(level), "rb")  # noqa: SIM115
    except OSError:
        return None
    with file:
        head = file.read(len(MAGIC) + _HEAD.size)
        if len(head) < len(MAGIC) + _HEAD.size or not head.startswith(MAGIC):
            return None
        written, count = _HEAD.unpack(head[len(MAGIC) :])
        table = file.read(count * _ENTRY.size) if written == revision.encode() else b""
    if len(table) != count * _ENTRY.size:
        return None
    return Archive(path_of(level), table)


class Archive:
    """The kernels of one archive, read one by one."""

    def __init__(self, path: str, table: bytes) -> None:
        self.path, self._table = path, table

    def __len__(self) -> int:
        return len(self._table) // _ENTRY.size

    def _hash(self, number: int) -> bytes:
        return self._table[number * _ENTRY.size : number * _ENTRY.size + 32]

    def load(self, key: str) -> bytes | None:
        """The object code of a kernel; None if there is none, or if it is damaged or for another processor."""
        return self._entry(key) or self._entry(key_of_way(key, reads_lane_by_lane()))

    def _entry(self, key: str) -> bytes | None:
        wanted = _key_hash(key)
        number = bisect.bisect_left(range(len(self)), wanted, key=self._hash)
        if number == len(self) or self._hash(number) != wanted:
            return None
        _, checksum, offset, size = _ENTRY.unpack_from(self._table, number * _ENTRY.size)
        try:
            with open(self.path, "rb") as file:
                file.seek(offset)
                code = zlib.decompress(file.read(size))
        except (OSError, zlib.error):
            return None
        whole = hashlib.sha256(wanted + code).digest() == checksum
        return code if whole and is_for_this_processor(code) else None


def key_of_way(key: str, lane_by_lane: bool) -> str:
    """The key of one of both codes of a kernel with gathers: which one is quicker depends on the processor, and both
    give the same bits."""
    return f"{key} {'lane by lane' if lane_by_lane else 'by instruction'}"


def _key_hash(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()


def pack(level: str, revision: str, codes: Mapping[str, bytes], path: Path | None = None) -> int:
    """Write the archive of a level, whole or not at all; its size. Errors: ValueError where it is too large."""
    entries, body = [], b""
    begin = len(MAGIC) + _HEAD.size + len(codes) * _ENTRY.size
    for key, code in sorted(codes.items(), key=lambda item: _key_hash(item[0])):
        compressed = zlib.compress(code, 9)
        checksum = hashlib.sha256(_key_hash(key) + code).digest()
        entries.append(_ENTRY.pack(_key_hash(key), checksum, begin + len(body), len(compressed)))
        body += compressed
    packed = b"".join((MAGIC, _HEAD.pack(revision.encode(), len(codes)), *entries, body))
    if len(packed) > MOST_BYTES:
        raise ValueError(f"{len(packed):,} bytes of kernels, more than {MOST_BYTES:,}")
    target = path_of(level) if path is None else os.fspath(path)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    temporary = f"{target}.tmp"
    with open(temporary, "wb") as file:
        file.write(packed)
    os.replace(temporary, target)
    return len(packed)
