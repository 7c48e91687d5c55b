"""A hash of the sources that write kernels, which is part of the key of each kernel on disk.

Apart from `kernel_decoder`, so that a process whose kernels are all on disk imports nothing that writes them.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from functools import cache

OTHERS = ("kernel_files", "lowering")  # rooms of what writes no kernels


@cache
def revision() -> str:
    """A hash of the sources that write kernels: with the key and the target, it determines a kernel's text."""
    read = hashlib.sha256()
    for path in sorted(_sources()):
        with open(path, "rb") as file:
            read.update(file.read())
    return read.hexdigest()


def _sources() -> Iterator[str]:
    """The paths of the sources that write kernels."""
    cpu = os.path.dirname(os.path.abspath(__file__))
    package = os.path.dirname(os.path.dirname(os.path.dirname(cpu)))
    pipeline = os.path.join(package, "engine", "pipeline")
    yield os.path.join(cpu, "limits.py")
    yield os.path.join(cpu, "lowering", "emit.py")
    yield os.path.join(pipeline, "lowering", "kernel_decoder.py")
    for folder in (cpu, os.path.join(package, "ops"), os.path.join(package, "engine", "kernels")):
        for parent, _, names in os.walk(folder):
            if parent != cpu and os.path.basename(parent) not in OTHERS:
                yield from (os.path.join(parent, name) for name in names if name.endswith(".py"))
