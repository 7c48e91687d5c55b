"""The disk cache of compiled kernels: object code under the hash of everything that shaped it.

`load(key)` gives the object code that an earlier process stored with `store(key, code)`, or None. Code is run, so the
directory must be the user's own with mode 0700, or there is no cache at all. An entry opens with a checksum; a
truncated or altered one counts as absent and is written anew. Entries appear by rename, whole or not at all. The least
recently used ones go when the total passes the cap. The caller decides what goes into a key.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import stat
import time

MAGIC = b"weft-kernel-1\n"
DIGEST_BYTES = 32
CAP = 512 << 20
TOUCH_AFTER = 3600.0  # seconds between two updates of an entry's time of use
PRUNE_EVERY = 256  # entries written, at least, between two measurements of the total
PRUNE_SHARE = 16  # and this fraction of all entries, because each is looked at


def default_directory() -> str | None:
    """$WEFT_CACHE_DIR, else weft/kernels under the user's cache; None when it is switched off.

    An empty WEFT_CACHE_DIR switches the cache off.
    """
    chosen = os.environ.get("WEFT_CACHE_DIR")
    if chosen is not None:
        return chosen or None
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(base, "weft", "kernels") if os.path.isabs(base) else None


def safe_directory(path: str) -> bool:
    """Make the directory if need be; whether it is ours alone and can be written."""
    with contextlib.suppress(OSError):
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, 0o700)
        found = os.lstat(path)
        private = stat.S_ISDIR(found.st_mode) and stat.S_IMODE(found.st_mode) == 0o700
        return private and found.st_uid == os.getuid() and os.access(path, os.W_OK)
    return False


class DiskCache:
    """Object code by key in one directory; with directory None, or an unsafe one, always empty."""

    def __init__(self, directory: str | os.PathLike[str] | None, cap: int = CAP) -> None:
        chosen = None if directory is None else os.fspath(directory)
        self.directory = chosen if chosen is not None and safe_directory(chosen) else None
        self.cap = cap
        # Anywhere below: over many processes one write in PRUNE_EVERY looks.
        self._unpruned = os.urandom(1)[0]
        self._prune_after = PRUNE_EVERY
        self._temporary = itertools.count()

    def path(self, key: str) -> str | None:
        """The path of a key's entry; None if there is no cache."""
        return None if self.directory is None else f"{self.directory}/{key}.o"

    def load(self, key: str) -> bytes | None:
        """The code stored under a key, None if there is none or it is damaged."""
        path = self.path(key)
        if path is None:
            return None
        try:
            with open(path, "rb") as file:
                entry = file.read()
                used = os.fstat(file.fileno()).st_mtime
        except OSError:
            return None
        code = _checked(entry, key)
        with contextlib.suppress(OSError):
            if code is None:
                os.unlink(path)
            elif time.time() - used > TOUCH_AFTER:
                os.utime(path)
        return code

    def store(self, key: str, code: bytes) -> None:
        """Write an entry. If the disk is full or gone, there is simply no entry."""
        path = self.path(key)
        if path is None:
            return
        temporary = f"{path}.{os.getpid()}.{next(self._temporary)}.tmp"
        try:
            with open(temporary, "xb", opener=_open_private) as file:
                file.write(MAGIC + _digest(key, code) + code)
            os.replace(temporary, path)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            return
        self._unpruned += 1
        if self._unpruned > self._prune_after:
            self._unpruned = 0
            self.prune()

    def prune(self) -> int:
        """Remove the least recently used entries above the cap; how many were removed."""
        if self.directory is None:
            return 0
        entries = sorted(_entries(self.directory), reverse=True)  # the latest first
        self._prune_after = max(PRUNE_EVERY, len(entries) // PRUNE_SHARE)
        total = removed = 0
        for _, size, path in entries:
            total += size
            if total > self.cap:
                with contextlib.suppress(OSError):
                    os.unlink(path)
                    removed += 1
        return removed


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _entries(directory: str) -> list[tuple[float, int, str]]:
    """Time of use, size and path of each entry, and of temporary files that a crash left."""
    found = []
    with contextlib.suppress(OSError), os.scandir(directory) as listing:
        for item in listing:
            with contextlib.suppress(OSError):
                about = item.stat(follow_symlinks=False)
                abandoned = item.name.endswith(".tmp") and time.time() - about.st_mtime > 3600
                if item.name.endswith(".o") or abandoned:
                    used = 0.0 if abandoned else about.st_mtime
                    found.append((used, about.st_size, item.path))
    return found


def _digest(key: str, code: bytes) -> bytes:
    """The checksum covers the key: an entry under another's name is damaged too."""
    return hashlib.sha256(key.encode() + b"\0" + code).digest()


def _checked(entry: bytes, key: str) -> bytes | None:
    """The code in an entry, None unless it is whole."""
    start = len(MAGIC) + DIGEST_BYTES
    code = entry[start:]
    sound = entry.startswith(MAGIC) and entry[len(MAGIC) : start] == _digest(key, code)
    return code if sound and code else None
