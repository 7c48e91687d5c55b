"""A step of an optimizer from outside: hooks before and after it, and the way back where a gradient could not be
computed.

In: the method `step` of a class. Out: the same with the hooks around it, after which everything that it recorded has
run.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import weft
from weft.errors import ArgumentError
from weft.graph.edges import value_of
from weft.graph.lens import SPARSE
from weft.graph.mutation import Snapshot
from weft.graph.node import FAILED_STATE
from weft.nn.hooks import RemovableHandle, add_hook

if TYPE_CHECKING:
    from weft.optim.optimizer import Optimizer

_before_every_step: dict[int, Any] = {}
_after_every_step: dict[int, Any] = {}


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """`hook(optimizer, args, kwargs)` before each step of every optimizer."""
    return add_hook(_before_every_step, hook)


def register_optimizer_step_post_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """`hook(optimizer, args, kwargs)` after each step of every optimizer."""
    return add_hook(_after_every_step, hook)


after_step: list[Callable[[], None]] = []  # called when a step is over and has run


def with_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    """A class's `step` with the hooks around it; afterwards everything recorded is run."""

    @functools.wraps(step)
    def hooked(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        for hook in (*_before_every_step.values(), *self._step_pre_hooks.values()):
            changed = hook(self, args, kwargs)
            if changed is not None:
                args, kwargs = _checked_arguments(changed)
        before = self._before = Before(self)
        result = step(self, *args, **kwargs)
        for hook in (*self._step_post_hooks.values(), *_after_every_step.values()):
            hook(self, args, kwargs)
        self._steps_taken += 1
        before.values.forget_where_sure()  # then what nobody else holds is updated where it lies
        weft.realize()
        before.check()
        del self._before
        for hear in list(after_step):
            hear()
        return result

    return hooked


class Before:
    """Parameters and state as a step found them. A gradient may fail when it is computed (an index out of range): then
    they are put back, and the error is raised."""

    def __init__(self, optimizer: Optimizer) -> None:
        self.optimizer = optimizer
        self.parameters = [p for group in optimizer.param_groups for p in group["params"]]
        self.state = {p: dict(s) for p, s in optimizer.state.items() if isinstance(s, dict)}
        self.values = Snapshot()
        self.values.add(self.parameters)
        for found in self.state.values():
            self.values.add([e for e in found.values() if not getattr(e, "lens", 0) & SPARSE])

    def settle(self) -> None:
        """Compute all gradients now, where one is sparse: what fails does so before anything is changed, nothing has
        to be put back, and tables are written to in place. Errors: that of a gradient."""
        weft.realize(*[p.grad for p in self.parameters if p.grad is not None])
        self.values = Snapshot()

    def check(self) -> None:
        """Errors: that of the first parameter whose new value could not be computed; all are as before then."""
        for parameter in self.parameters:
            failed = value_of(parameter)
            if failed.state == FAILED_STATE and not parameter.is_meta:
                self.restore()
                raise failed.error.again()

    def restore(self) -> None:
        """Values, state and counts of before."""
        self.values.restore()
        for parameter in list(self.optimizer.state):
            if parameter in self.state:
                self.optimizer.state[parameter] = self.state[parameter]
            else:
                del self.optimizer.state[parameter]
        self.optimizer._steps_taken -= 1


def _checked_arguments(changed: Any) -> Any:
    if isinstance(changed, tuple) and len(changed) == 2:
        return changed
    raise ArgumentError(
        f"step pre-hook must return None or a tuple of (new_args, new_kwargs), but got {changed}.",
        expected="None, or a tuple of two: positional and keyword arguments",
        got=repr(changed),
        fix="return None to leave the arguments as they are",
    )
