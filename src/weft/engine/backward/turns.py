"""Serialization of backward: walks run one at a time in the process; a walk inside another belongs to its turn.

Walks keep their counts on the records, so two threads must not walk over one graph at the same time. A hook that waits
for a backward of another thread waits for ever.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import TypeVar

from weft.engine.ir import tape as tapes

WALKS_ON_ONE_STACK = 40
Result = TypeVar("Result")

_turn = threading.RLock()
_depth = 0  # of walks inside the one that has the turn


def _new_turn() -> None:
    """In a forked child no other thread walks."""
    global _turn, _depth
    _turn, _depth = threading.RLock(), 0


os.register_at_fork(after_in_child=_new_turn)


def in_turn(walk: Callable[..., Result], *asked: object) -> Result:
    """Call what walks, when no other thread does."""
    if tapes.tape().mode.walk <= 0:
        with _turn:
            return walk(*asked)
    return _inside(walk, *asked)


def _inside(walk: Callable[..., Result], *asked: object) -> Result:
    """A walk in a hook or a Function of another: each can have one inside, without end."""
    global _depth
    _depth += 1
    try:
        if _depth % WALKS_ON_ONE_STACK == 0:
            return tapes.on_fresh_stack(walk, *asked)
        return walk(*asked)
    finally:
        _depth -= 1
