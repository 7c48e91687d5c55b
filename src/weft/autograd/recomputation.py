"""The surroundings that a call needs when the backward pass computes it again: whole parameters of sharded modules.

Parts of the library register how to note it (`register`); activation checkpointing asks at the first call
(`surroundings`), and enters what was noted around the second (`standing`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager

# From whether derivatives follow the second call's own graph to a context for it.
Surrounding = Callable[[bool], AbstractContextManager[object]]

_notes: list[Callable[[], Sequence[Surrounding]]] = []


def register(note: Callable[[], Sequence[Surrounding]]) -> None:
    """Ask a function, from now on, for what stands around a call."""
    _notes.append(note)


def surroundings() -> list[Surrounding]:
    """The contexts that a call needs when it is computed again, the outermost first."""
    return [surrounding for note in _notes for surrounding in note()]


@contextmanager
def standing(noted: Sequence[Surrounding], followed: bool) -> Iterator[None]:
    """Have what was noted around a call; `followed`: derivatives go through the graph of this one."""
    with ExitStack() as stack:
        for surrounding in noted:
            stack.enter_context(surrounding(followed))
        yield
