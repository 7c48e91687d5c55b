# cython: language_level=3
"""The wrapper of an optimizer's step: hooks before and after it, and the rollback if a gradient could not be computed
or memory did not suffice.

It wraps the method `step` of a class; when the wrapper returns, everything that the step recorded has run.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import cython
from cython.cimports.libc.stdint import int64_t
from cython.cimports.weft.engine.capi.clock import now
from cython.cimports.weft.engine.devices.trace import RANGE, put_payload, tracing
from cython.cimports.weft.engine.frontend.inplace import WriteSnapshot
from cython.cimports.weft.engine.frontend.meta import is_meta
from cython.cimports.weft.engine.frontend.resolve import value
from cython.cimports.weft.engine.frontend.tensor import Tensor
from cython.cimports.weft.engine.ir.node import FAILED, Node
from cython.cimports.weft.optim.stepping import gradient_of

import weft
from weft._build.compiled import require
from weft.engine.ir.view_transform import SPARSE
from weft.errors import ArgumentError, GradientError, OutOfMemoryError
from weft.nn.module.hooks import RemovableHandle, add_hook
from weft.optim.counted_state import CountedState

require(__name__, cython.compiled)

_sparse = cython.declare(cython.int, SPARSE)

_before_every_step: dict[int, Any] = {}
_after_every_step: dict[int, Any] = {}


def register_optimizer_step_pre_hook(hook: Callable[..., object]) -> RemovableHandle:
    """`hook(optimizer, args, kwargs)` before each step of every optimizer."""
    return add_hook(_before_every_step, hook)


def register_optimizer_step_post_hook(hook: Callable[..., object]) -> RemovableHandle:
    """`hook(optimizer, args, kwargs)` after each step of every optimizer."""
    return add_hook(_after_every_step, hook)


after_step: list[Callable[[], None]] = []  # called when a step is over and has run


def with_hooks(step):
    """A class's `step` with the hooks around it; afterwards everything recorded is run. One that is called by that of a
    subclass is a part of that; a wrapper that was never initialised leaves them to the one it holds."""

    @functools.wraps(step)
    def hooked(self, *args, **kwargs):
        if self._before is not None or "_step_pre_hooks" not in self.__dict__:
            return step(self, *args, **kwargs)
        args = (self, *args)  # as hooks see and change them
        for hook in (*_before_every_step.values(), *self._step_pre_hooks.values()):
            changed = hook(self, args, kwargs)
            if changed is not None:
                args, kwargs = _checked_arguments(changed)
        began: int64_t = now() if tracing else 0
        self._before = Before(self)
        try:
            result = step(*args, **kwargs)
            for hook in (*self._step_post_hooks.values(), *_after_every_step.values()):
                hook(self, args, kwargs)
            self._steps_taken += 1
            self._before.let_go()
            self._before.run()
            self._before.check()
        finally:
            self._before = None
            if tracing and began != 0:
                name: str = type(self).__name__
                put_payload(RANGE, began, now(), (f"Optimizer.step#{name}.step", None), 0)
        for hear in list(after_step):
            hear()
        return result

    return hooked


@cython.cfunc
def _counted(state) -> dict:
    """The entries as `CountedState.plain` gives them, compiled: a tenth of the time of a step over small parameters."""
    if state.shown:
        state.settle()
    return {name: entry for name, entry in cython.cast(dict, state).items()}  # noqa: C416 - dict() would ask for tensors


@cython.final
@cython.cclass
class Before:
    """Parameters and state as a step found them. A gradient may fail when it is computed (an index out of range), or
    the step may not fit into memory: then they are put back, and the error is raised."""

    optimizer: object
    parameters: list
    state: dict
    values: WriteSnapshot

    def __init__(self, optimizer):
        self.optimizer = optimizer
        self.parameters = []
        self.state = {}
        self.values = WriteSnapshot()
        for group in optimizer.param_groups:
            self.parameters += group["params"]
        self.values.add(self.parameters)
        for parameter, state in optimizer.state.items():
            if isinstance(state, dict):
                entries = _counted(state) if type(state) is CountedState else state.copy()
                self.state[parameter] = state, entries
                self.values.add([entry for entry in entries.values() if _is_dense(entry)])

    def __reduce__(self):
        """A copy of an optimizer, made by a hook, is not in the middle of a step."""
        return type(None), ()

    def settle(self):
        """Compute all gradients now, where one is sparse: what fails does so before anything is changed, nothing has
        to be put back, and tables are written to in place. Errors: that of a gradient."""
        weft.realize(*[p.grad for p in self.parameters if p.grad is not None])
        self.values.let_go()

    def let_go(self):
        """Forget the values that are certain to be replaced: values that nothing else references are updated in
        place."""
        self.values.forget_where_sure()

    def run(self):
        """Run everything that is recorded. Errors: OutOfMemoryError where it does not fit: what this step has
        recorded is taken back then, so that it may be taken again, or another one with less."""
        try:
            weft.realize()
        except OutOfMemoryError:
            if self.values.is_untouched():
                self.restore()
            raise

    def check(self):
        """Errors: that of the first parameter whose new value could not be computed; all are as before then."""
        parameter: Tensor
        for parameter in self.parameters:
            failed: Node = value(parameter)
            if failed.state == FAILED and not is_meta(failed):
                self.restore()
                raise failed.error.again()

    def restore(self):
        """Values, state and counts of before."""
        self.values.restore()
        for parameter in list(self.optimizer.state):
            if parameter in self.state:
                state, entries = self.state[parameter]
                counted: cython.bint = type(state) is CountedState
                if counted:
                    state.restore(entries)
                self.optimizer.state[parameter] = state if counted else entries
            else:
                del self.optimizer.state[parameter]
        self.optimizer._steps_taken -= 1


@cython.cfunc
@cython.inline
def _is_dense(entry) -> cython.bint:
    """True if an entry of a state is a tensor that has a value."""
    return isinstance(entry, Tensor) and not cython.cast(Tensor, entry).view_transform & _sparse


def forget_gradients(parameters):
    """Let go of the gradients of tensors; a class of the user's own may keep them elsewhere, and is told."""
    plain: tuple = (weft.Tensor, weft.nn.Parameter)
    parameter: Tensor
    for parameter in parameters:
        if type(parameter) in plain:
            parameter._grad = None
        else:
            parameter.grad = None


def check_gradients(parameters):
    """True if one of the gradients is sparse. Errors: RuntimeError for one that does not fit its parameter."""
    found: cython.bint = False
    parameter: Tensor
    for number, parameter in enumerate(parameters):
        gradient: Tensor = gradient_of(parameter)
        if gradient is None:
            continue
        found |= gradient.view_transform & _sparse != 0
        if gradient._shape != parameter._shape:
            raise GradientError(
                "step: a gradient does not fit its parameter, nothing was updated",
                expected=f"a gradient of shape {list(parameter._shape)} for parameter {number}",
                got=str(list(gradient._shape)),
                fix="call zero_grad() after giving a parameter other data",
            )
    return found


def _checked_arguments(changed):
    if isinstance(changed, tuple) and len(changed) == 2:
        return changed
    raise ArgumentError(
        f"step pre-hook must return None or a tuple of (new_args, new_kwargs), but got {changed}.",
        expected="None, or a tuple of two: positional and keyword arguments",
        got=repr(changed),
        fix="return None to leave the arguments as they are",
    )
