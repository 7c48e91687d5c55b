"""Counting collectives: those who ask are told of each one, under the name of PyTorch's operator.

What a program calls is told of by the group, what is recorded by the engine. Several that are recorded for one purpose
(`as_one`: all parameters of a module) count as one, under a name of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from weft.engine.frontend.collective import listen

Listener = Callable[[str], None]
# By the names of calls, and of what is recorded.
_CALLED = {
    "all_gather": "c10d.allgather_",
    "all_gather_coalesced": "c10d.allgather_coalesced_",
    "all_gather_into_tensor": "c10d._allgather_base_",
    "all_reduce": "c10d.allreduce_",
    "all_reduce_coalesced": "c10d.allreduce_coalesced_",
    "all_to_all": "c10d.alltoall_",
    "all_to_all_single": "c10d.alltoall_base_",
    "broadcast": "c10d.broadcast_",
    "gather": "c10d.gather_",
    "reduce": "c10d.reduce_",
    "reduce_scatter": "c10d.reduce_scatter_",
    "reduce_scatter_tensor": "c10d._reduce_scatter_base_",
    "scatter": "c10d.scatter_",
}
_RECORDED = {
    "all_gather": "c10d_functional.all_gather_into_tensor",
    "all_reduce": "c10d_functional.all_reduce",
    "all_to_all": "c10d_functional.all_to_all_single",
    "broadcast": "c10d.broadcast_",
    "gather": "c10d.gather_",
    "reduce": "c10d.reduce_",
    "reduce_scatter": "c10d_functional.reduce_scatter_tensor",
    "scatter": "c10d.scatter_",
    "sum_at_root": "c10d.reduce_",
}
NAMES = sorted({*_CALLED.values(), *_RECORDED.values()})
_listeners: list[Listener] = []
_lots: list[str] = []  # the names under which what is recorded now counts already


def _tell(name: str) -> None:
    for listener in list(_listeners):
        listener(name)


def called(name: str) -> None:
    """A collective has been called."""
    if _listeners and name in _CALLED:
        _tell(_CALLED[name])


def _recorded(name: str) -> None:
    if not _lots:
        _tell(_RECORDED[name])


@contextmanager
def as_one(name: str) -> Iterator[None]:
    """A context in which what is recorded counts as one collective that has been called by this name."""
    if not _listeners:
        yield
        return
    _tell(_CALLED[name])
    _lots.append(name)
    try:
        yield
    finally:
        _lots.pop()


@contextmanager
def counting(listener: Listener) -> Iterator[None]:
    """A context in which a function is called with the operator's name for each collective."""
    if not _listeners:
        listen(_recorded, 1)
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)
        if not _listeners:
            listen(_recorded, -1)
