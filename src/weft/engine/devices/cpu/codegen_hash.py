"""What writes kernels, as a number: a kernel on disk is one of these sources.

Apart from `kernel_decoder`, so that a process whose kernels are all on disk imports nothing that writes them.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path


@cache
def revision() -> str:
    """What the text of a kernel depends on beside its key and the target: a hash of the sources that write it."""
    cpu = Path(__file__).parent
    package = cpu.parents[2]
    written = [path for path in cpu.glob("*/**/*.py") if path.parent.name != "lowering"]
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
