"""A hash of the sources that write kernels, which is part of the key of each kernel on disk.

Apart from `kernel_decoder`, so that a process whose kernels are all on disk imports nothing that writes them.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path


@cache
def revision() -> str:
    """A hash of the sources that write kernels: with the key and the target, it determines a kernel's text."""
    cpu = Path(__file__).parent
    package = cpu.parents[2]
    others = ("kernel_files", "lowering")
    written = [path for path in cpu.glob("*/**/*.py") if path.parent.name not in others]
    sources = sorted(
        [
            *written,
            cpu / "limits.py",
            cpu / "lowering" / "emit.py",
            *(package / "ops").rglob("*.py"),
        ]
    )
    read = hashlib.sha256()
    for path in [
        *sources,
        *(package / "engine" / "kernels").glob("*.py"),
        package / "engine" / "pipeline" / "lowering" / "kernel_decoder.py",
    ]:
        read.update(path.read_bytes())
    return read.hexdigest()
