"""Schedules of a profile: the action of each step; and the activities that may be watched."""

from __future__ import annotations

import enum
import warnings
from collections.abc import Callable

from weft.errors import AssertedError


class ProfilerActivity(enum.Enum):
    """The activities that PyTorch's profiler watches; here it is always the CPU, whatever is asked for."""

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3
    HPU = 4
    PrivateUse1 = 5


class ProfilerAction(enum.Enum):
    """The action of a step: nothing; recording, and forgetting it; recording; recording as the last step of a cycle."""

    NONE, WARMUP, RECORD, RECORD_AND_SAVE = 0, 1, 2, 3


class DeviceType(enum.Enum):
    """Devices that PyTorch's profiler tells apart; here it is always the CPU."""

    CPU, CUDA = 0, 1


def supported_activities() -> set[ProfilerActivity]:
    """The activities that are watched: the CPU."""
    return {ProfilerActivity.CPU}


def kineto_available() -> bool:
    """True if PyTorch's tracer is there: no, the engine records its own events."""
    return False


def schedule(
    *,
    wait: int,
    warmup: int,
    active: int,
    repeat: int = 0,
    skip_first: int = 0,
    skip_first_wait: int = 0,
) -> Callable[[int], ProfilerAction]:
    """The actions of a profile, as a function of the number of a step.

    Args:
        wait: steps of a cycle in which nothing is recorded.
        warmup: steps after these whose record is forgotten: what comes new is scheduled and compiled in them.
        active: steps after these that are recorded; behind the last one `on_trace_ready` is called.
        repeat: how many cycles there are; 0: as many as come.
        skip_first: steps before the first cycle.
        skip_first_wait: 1 leaves out `wait` in the first cycle.

    Errors: AssertedError where a count is negative, or nothing is active.

    Example:
        >>> import weft
        >>> plan = weft.profiler.schedule(wait=1, warmup=1, active=2)
        >>> [plan(step).name for step in range(5)]
        ['NONE', 'WARMUP', 'RECORD', 'RECORD_AND_SAVE', 'NONE']
    """
    if min(wait, warmup, repeat, skip_first) < 0 or active <= 0:
        raise AssertedError(
            "profiler.schedule",
            expected="wait, warmup, repeat, skip_first >= 0 and active >= 1",
            got=f"wait={wait}, warmup={warmup}, active={active}, repeat={repeat}, skip_first={skip_first}",
        )
    if warmup == 0:
        warnings.warn(
            "Profiler won't be using warmup, this can skew profiler results: what comes new is scheduled and compiled "
            "in the steps that are recorded.",
            stacklevel=2,
        )
    cycle = wait + warmup + active

    def action_of(step: int) -> ProfilerAction:
        if step < 0:
            raise AssertedError("a profiler's schedule", expected="step >= 0", got=f"{step}")
        if step < skip_first:
            return ProfilerAction.NONE
        step -= skip_first
        if skip_first_wait:
            step += wait
        if repeat > 0 and step // cycle >= repeat:
            return ProfilerAction.NONE
        step %= cycle
        if step < wait:
            return ProfilerAction.NONE
        if step < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if step < cycle - 1 else ProfilerAction.RECORD_AND_SAVE

    return action_of
