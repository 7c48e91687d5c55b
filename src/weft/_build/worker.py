"""The function that a greenlet of `weft.map` runs. Interpreted: greenlet takes one that has no Python frame for a
running one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def serve(work: Callable[[list[object]], bool], box: list[object]) -> None:
    """Do the work in the box, again and again; the work waits for the next by itself."""
    while work(box):
        pass
