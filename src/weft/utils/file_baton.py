"""A file that one process holds while others wait: `FileBaton`."""

from __future__ import annotations

import os
import time
import warnings

__all__ = ["FileBaton"]


class FileBaton:
    """A lock by a file: the process that makes it first has the baton; the others wait until the file is gone."""

    def __init__(
        self,
        lock_file_path: str,
        wait_seconds: float = 0.1,
        warn_after_seconds: float | None = None,
    ) -> None:
        self.lock_file_path = lock_file_path
        self.wait_seconds, self.warn_after_seconds = wait_seconds, warn_after_seconds
        self.fd: int | None = None

    def try_acquire(self) -> bool:
        """True if this process has the baton now."""
        try:
            self.fd = os.open(self.lock_file_path, os.O_CREAT | os.O_EXCL)
        except FileExistsError:
            return False
        return True

    def wait(self) -> None:
        """Wait until the baton is free."""
        start, warned = time.monotonic(), self.warn_after_seconds is None
        while os.path.exists(self.lock_file_path):
            time.sleep(self.wait_seconds)
            if not warned and time.monotonic() - start > float(self.warn_after_seconds or 0):
                warned = True
                warnings.warn(
                    f"waited for {self.lock_file_path} for more than {self.warn_after_seconds} seconds; where no "
                    "process holds it, delete the file",
                    UserWarning,
                    stacklevel=2,
                )

    def release(self) -> None:
        """Give the baton back."""
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None
        os.remove(self.lock_file_path)
