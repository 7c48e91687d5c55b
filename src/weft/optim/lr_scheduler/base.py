"""The base of all schedules: the time, the rates of the optimizer's groups, their state."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import weft
from weft import Tensor
from weft._typing import TensorLike
from weft.engine.api.deprecation import user_level
from weft.errors import ArgumentError, ArgumentTypeError, MemberNameError
from weft.optim.optimizer import Optimizer

EPOCH_DEPRECATION_WARNING = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where possible. Please use "
    "`scheduler.step()` to step the scheduler."
)


def copied(value: object) -> Any:
    """A rate as it is now: a tensor of its own where the group has a tensor."""
    return value.detach().clone() if isinstance(value, Tensor) else value


def put_rate(group: dict[str, object], rate: TensorLike) -> None:
    """Set the rate of a group; a tensor stays the same and gets the value."""
    held = group["lr"]
    if not isinstance(held, Tensor):
        group["lr"] = rate
        return
    with weft.no_grad():
        held.copy_(rate) if isinstance(rate, Tensor) else held.fill_(rate)


class LRScheduler:
    """Base of schedules: `step()` advances the time `last_epoch` and sets the rates that `get_lr`
    gives.
    """

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        for number, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", copied(group["lr"]))
            elif "initial_lr" not in group:
                raise MemberNameError(
                    f"param 'initial_lr' is not specified in param_groups[{number}] when resuming "
                    "scheduler with last_epoch >= 0.",
                    expected="initial_lr in each group, or last_epoch=-1",
                    got=f"last_epoch={last_epoch}",
                    fix="load the optimizer's state_dict first",
                )
        self.base_lrs = [copied(group["initial_lr"]) for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._begin()

    def _begin(self) -> None:
        """Count no step yet, and set the rates of the first time."""
        self._step_count, self._is_initial = 0, True
        self._get_lr_called_within_step = False  # as PyTorch's states have it between two steps
        self.step()
        self._is_initial = False

    def get_lr(self) -> list[float]:
        """The rates at time `last_epoch`, one for each group."""
        raise NotImplementedError

    def _warn_outside_step(self) -> None:
        """Warn where a program asks `get_lr` for the rates, which advances some schedules."""
        if not self._get_lr_called_within_step:
            warnings.warn(
                "To get the last learning rate computed by the scheduler, please use `get_last_lr()`.",
                UserWarning,
                stacklevel=user_level(),
            )

    def get_last_lr(self) -> list[float]:
        """The rates that were set last."""
        return self._last_lr

    def step(self, epoch: int | None = None) -> None:
        """Advance the time by one, or to `epoch`, and set the rates."""
        if self._step_count == 1 and getattr(self.optimizer, "_steps_taken", 1) == 0:
            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`. In PyTorch 1.1.0 and later, you "
                "should call them in the opposite order: `optimizer.step()` before `lr_scheduler.step()`.  Failure to "
                "do this will result in PyTorch skipping the first value of the learning rate schedule. See more "
                "details at https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate",
                UserWarning,
                stacklevel=2,
            )
        if epoch is not None:
            warnings.warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=2)
        self._advance(epoch)

    def _undo(self) -> None:
        """Let the time be what it was before the first step, which `__init__` has taken."""
        self.last_epoch -= 1

    def _restart(self) -> None:
        """Set the rates of time zero, in the middle of training."""
        self._advance(0)

    def _advance(self, epoch: int | None = None) -> None:
        self._step_count += 1
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        closed = None if epoch is None else getattr(self, "_get_closed_form_lr", None)
        self._set_rates_now(closed)

    def _set_rates_now(self, rates: Callable[[], list[float]] | None = None) -> None:
        """Set what `rates`, or `get_lr`, says."""
        self._get_lr_called_within_step = True  # `get_lr` warns where it is not
        try:
            self._set(self.get_lr() if rates is None else rates())
        finally:
            self._get_lr_called_within_step = False

    def _rates(self) -> list[float]:
        return [copied(group["lr"]) for group in self.optimizer.param_groups]

    def _set(self, rates: list[float]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            put_rate(group, rate)
        self._last_lr = self._rates()

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer."""
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, object]) -> None:
        """Take over what `state_dict` gave."""
        self.__dict__.update(state_dict)


def check_optimizer(optimizer: Optimizer) -> None:
    """Errors: TypeError for anything but an optimizer."""
    if not isinstance(optimizer, Optimizer):
        raise ArgumentTypeError(
            f"{type(optimizer).__name__} is not an Optimizer",
            expected="an optimizer",
            got=type(optimizer).__name__,
            fix="pass the optimizer itself, not its parameters",
        )


def for_each_group(optimizer: Optimizer, value: object, name: str) -> list[Any]:
    """One value for every group, or the values given; tensors as they are now."""
    count = len(optimizer.param_groups)
    if not isinstance(value, list | tuple):
        return [copied(value) for _ in range(count)]
    if len(value) != count:
        text = (
            f"{name} must have the same length as optimizer.param_groups. {name} has {len(value)} values, param_groups "
            f"has {count}."
        )
        if name == "lr_lambdas":
            text = f"Expected {count} lr_lambdas, but got {len(value)}"
        raise ArgumentError(
            text,
            expected=f"{count} values, one per group",
            got=str(len(value)),
            fix="pass one number for all groups, or one for each",
        )
    return [copied(one) for one in value]
