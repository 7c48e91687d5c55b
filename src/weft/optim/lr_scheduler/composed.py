"""Schedules made of schedules: one after another, or all at once."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import Any

from weft.errors import ArgumentError
from weft.optim.lr_scheduler.base import LRScheduler, put_rate
from weft.optim.lr_scheduler.plateau import ReduceLROnPlateau
from weft.optim.optimizer import Optimizer


class SequentialLR(LRScheduler):
    """One schedule after the other, switching at milestones."""

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: list[LRScheduler],
        milestones: list[int],
        last_epoch: int = -1,
    ) -> None:
        if not schedulers:
            raise ArgumentError(
                "SequentialLR expects at least one scheduler, but got no scheduler.",
                expected="at least one schedule",
                got="none",
                fix="pass a list of schedules",
            )
        if len(milestones) != len(schedulers) - 1:
            raise ArgumentError(
                "Sequential Schedulers expects number of schedulers provided to be one more than "
                f"the number of milestone points, but got number of schedulers {len(schedulers)} "
                f"and the number of milestones to be equal to {len(milestones)}",
                expected=f"{len(schedulers) - 1} milestones",
                got=str(len(milestones)),
                fix="pass the step at which each schedule but the first begins",
            )
        _check_same_optimizer(optimizer, schedulers)
        self.optimizer, self._schedulers, self._milestones = optimizer, schedulers, milestones
        self.last_epoch = last_epoch + 1
        for group in optimizer.param_groups:  # as before any of them was made
            put_rate(group, group["initial_lr"])
        for scheduler in schedulers:
            scheduler._undo()
        schedulers[0]._begin()
        self._last_lr = self._rates()

    def step(self) -> None:  # type: ignore[override]
        """Advance the schedule whose turn it is; one whose turn begins starts at time zero."""
        self.last_epoch += 1
        index = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[index]
        begins = index > 0 and self._milestones[index - 1] == self.last_epoch
        if begins:
            scheduler._restart()
        else:
            scheduler.step()
        self._last_lr = self._rates()

    def _undo(self) -> None:
        for scheduler in self._schedulers:
            scheduler._undo()

    def state_dict(self) -> dict[str, Any]:
        """The state of all schedules."""
        kept = super().state_dict()
        kept["_schedulers"] = [scheduler.state_dict() for scheduler in self._schedulers]
        return kept

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` gave."""
        own = {key: value for key, value in state_dict.items() if key != "_schedulers"}
        self.__dict__.update(own)
        for scheduler, state in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            scheduler.load_state_dict(state)


class ChainedScheduler(SequentialLR):
    """All schedules at once, each on the rates that the one before left."""

    def __init__(
        self, schedulers: Iterable[LRScheduler], optimizer: Optimizer | None = None
    ) -> None:
        self._schedulers = list(schedulers)
        if not self._schedulers:
            raise ArgumentError(
                "ChainedScheduler expects at least one scheduler, but got no scheduler.",
                expected="at least one schedule",
                got="none",
                fix="pass a list of schedules",
            )
        self.optimizer = self._schedulers[0].optimizer if optimizer is None else optimizer
        _check_same_optimizer(self.optimizer, self._schedulers)
        self._last_lr = self._rates()

    def step(self) -> None:  # type: ignore[override]
        """Advance all of them."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = self._rates()


def _check_same_optimizer(optimizer: Optimizer, schedulers: list[LRScheduler]) -> None:
    for index, scheduler in enumerate(schedulers):
        if isinstance(scheduler, ReduceLROnPlateau):
            raise ArgumentError(
                "`ReduceLROnPlateau` requires an argument of `step` and cannot be combined, but "
                f"there is one at index {index} in the given schedulers sequence.",
                expected="schedules that depend on the step alone",
                got=type(scheduler).__name__,
                fix="step ReduceLROnPlateau by itself",
            )
        if scheduler.optimizer is not optimizer:
            raise ArgumentError(
                "all schedulers are expected to belong to the same optimizer, but the one at index "
                f"{index} belongs to another",
                expected="schedules of one optimizer",
                got=f"another optimizer at index {index}",
                fix="build the schedules on one optimizer",
            )
