"""All settings and environment variables on one page.

WEFT_EXPLAIN    comma-separated parts to print at each flush: schedule, kernels, memory
WEFT_VERIFY     1: run the verifier of every stage
WEFT_EAGER      1: run every operation at its call
WEFT_CACHE_DIR  directory of the kernel cache ("": no disk cache)
WEFT_NUM_THREADS  threads of the executor
WEFT_CHECK_BUILD  1: refuse a build that is older than its sources
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


class Config:
    """The settings in force; change attributes directly or for a block with `explaining`."""

    def __init__(self) -> None:
        self.explain = frozenset(
            part for part in os.environ.get("WEFT_EXPLAIN", "").split(",") if part
        )
        self.verify = os.environ.get("WEFT_VERIFY") == "1"
        self.batch = True
        self.cache = True


config = Config()


@contextmanager
def explaining(*parts: str) -> Iterator[None]:
    """Print what the schedule decides within a block: parts of schedule, kernels, memory (all by default)."""
    previous = config.explain
    config.explain = frozenset(parts or ("schedule", "kernels", "memory"))
    try:
        yield
    finally:
        config.explain = previous
