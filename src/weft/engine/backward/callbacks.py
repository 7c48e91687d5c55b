"""Final callbacks: functions that users queue to be called at the end of a backward
(`Variable._execution_engine.queue_callback`).

Hooks of a running backward queue them; they are called in order when it has ended, and dropped if it fails.
"""

from __future__ import annotations

from collections.abc import Callable

from weft.engine.ir import tape as tapes
from weft.errors import GradientError

# By tape, of which each line of execution has one: (number of the walk, what to call). Walks inside another have larger
# numbers.
_waiting: dict[int, list[tuple[int, Callable[[], object]]]] = {}
# By tape, while callbacks are called: the number of the walk that they belong to.
_calling: dict[int, int] = {}


class ExecutionEngine:
    """The object that `Variable._execution_engine` returns."""

    @staticmethod
    def queue_callback(callback: Callable[[], object]) -> None:
        """Call a function at the end of the backward that is running. Errors: RuntimeError where none is."""
        number = max(int(tapes.tape().mode.walk), _calling.get(id(tapes.tape()), 0))
        if number <= 0:
            raise GradientError(
                "Final callbacks can only be installed during backward pass.",
                expected="a call from a hook, or from the backward of a Function",
                got="no backward is running",
                fix="register a hook that queues it",
            )
        _waiting.setdefault(id(tapes.tape()), []).append((number, callback))

    @staticmethod
    def is_checkpoint_valid() -> bool:
        """True if the running backward is one of all leaves, as reentrant checkpoints need it."""
        return not tapes.tape().mode.chosen


def are_queued() -> bool:
    """True if callbacks are queued on any thread."""
    return bool(_waiting)


def _next(outer: int) -> Callable[[], object] | None:
    """The first callback queued by a backward inside the one of number `outer`, removed from the queue; None if there
    is none."""
    queue = _waiting.get(id(tapes.tape()), [])
    for place, (number, callback) in enumerate(queue):
        if number > outer:
            del queue[place]
            if not queue:
                del _waiting[id(tapes.tape())]
            return callback
    return None


def call_queued() -> None:
    """Call the callbacks of the backward that has just ended, and those that these callbacks queue."""
    outer = max(int(tapes.tape().mode.walk), 0)
    before = _calling.get(id(tapes.tape()), 0)
    _calling[id(tapes.tape())] = outer + 1
    try:
        while (callback := _next(outer)) is not None:
            callback()
    finally:
        _calling[id(tapes.tape())] = before


def forget_queued() -> None:
    """Forget what waits for the walk that has just failed."""
    outer = max(int(tapes.tape().mode.walk), 0)
    while _next(outer) is not None:
        pass
