"""Schedules that are a factor as a function of time.

The factor is applied as the ratio of one time to the one before, so that schedules can be chained and a rate changed
by hand stays changed.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from weft.errors import ArgumentError
from weft.optim.lr_scheduler.base import LRScheduler, for_each_group
from weft.optim.optimizer import Optimizer


class _FactorLR(LRScheduler):
    """A schedule `low + (initial - low) * factor(time)`."""

    low = 0.0

    def factor(self, time: int) -> float:
        """The share of the initial rate at a time."""
        raise NotImplementedError

    def get_lr(self) -> list[float]:
        """The rates now, from those before."""
        time, low = self.last_epoch, self.low
        now, before = self.factor(time), 1.0 if time == 0 else self.factor(time - 1)
        if before == 0.0:
            return [low + (base - low) * now for base in self.base_lrs]
        return [low + (rate - low) * (now / before) for rate in self._rates()]


class LambdaLR(LRScheduler):
    """The initial rate times a function of the time, one function or one for each group."""

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | list[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        self.lr_lambdas = for_each_group(optimizer, lr_lambda, "lr_lambdas")
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The rates now."""
        pairs = zip(self.base_lrs, self.lr_lambdas, strict=True)
        return [base * function(self.last_epoch) for base, function in pairs]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer and the functions."""
        kept = super().state_dict()
        del kept["lr_lambdas"]
        return kept


class MultiplicativeLR(LambdaLR):
    """The rate before times a function of the time."""

    def get_lr(self) -> list[float]:
        """The rates now."""
        if self.last_epoch == 0:
            return self._rates()
        pairs = zip(self._rates(), self.lr_lambdas, strict=True)
        return [rate * function(self.last_epoch) for rate, function in pairs]


class StepLR(_FactorLR):
    """Times gamma every `step_size` epochs."""

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def factor(self, time: int) -> float:
        """The share of the initial rate at a time."""
        return self.gamma ** (time // self.step_size)


class MultiStepLR(_FactorLR):
    """Times gamma at each milestone."""

    def __init__(
        self,
        optimizer: Optimizer,
        milestones: Iterable[int],
        gamma: float = 0.1,
        last_epoch: int = -1,
    ) -> None:
        self.milestones, self.gamma = Counter(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def factor(self, time: int) -> float:
        """The share of the initial rate at a time."""
        return self.gamma ** bisect_right(sorted(self.milestones.elements()), time)


class ConstantLR(_FactorLR):
    """A fixed share of the rate until `total_iters`."""

    def __init__(
        self,
        optimizer: Optimizer,
        factor: float = 1.0 / 3,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if factor > 1.0 or factor < 0:
            raise ArgumentError(
                "Constant multiplicative factor expected to be between 0 and 1.",
                expected="0 <= factor <= 1",
                got=repr(factor),
                fix="scale the optimizer's lr instead",
            )
        self.share, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def factor(self, time: int) -> float:
        """The share of the initial rate at a time."""
        return self.share if time < self.total_iters else 1.0


class LinearLR(_FactorLR):
    """A share that moves in a straight line for `total_iters` epochs."""

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if start_factor > 1.0 or start_factor <= 0:
            raise ArgumentError(
                "Starting multiplicative factor expected to be greater than 0 and less or equal "
                "to 1.",
                expected="0 < start_factor <= 1",
                got=repr(start_factor),
                fix="scale the optimizer's lr instead",
            )
        if end_factor > 1.0 or end_factor < 0:
            raise ArgumentError(
                "Ending multiplicative factor expected to be between 0 and 1.",
                expected="0 <= end_factor <= 1",
                got=repr(end_factor),
                fix="scale the optimizer's lr instead",
            )
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def factor(self, time: int) -> float:
        """The share of the initial rate at a time."""
        done = min(time, self.total_iters) / self.total_iters
        return self.start_factor + (self.end_factor - self.start_factor) * done


class ExponentialLR(_FactorLR):
    """Times gamma every epoch."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def factor(self, time: int) -> float:
        """The share of the initial rate at a time."""
        return self.gamma**time


class PolynomialLR(_FactorLR):
    """A polynomial that reaches zero after `total_iters` epochs."""

    def __init__(
        self,
        optimizer: Optimizer,
        total_iters: int = 5,
        power: float = 1.0,
        last_epoch: int = -1,
    ) -> None:
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def factor(self, time: int) -> float:
        """The share of the initial rate at a time."""
        share: float = (1.0 - min(time, self.total_iters) / self.total_iters) ** self.power
        return share


class CosineAnnealingLR(_FactorLR):
    """Half a cosine wave from the initial rate to `eta_min` (Loshchilov and Hutter 2017)."""

    def __init__(
        self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        self.T_max, self.eta_min = T_max, eta_min
        self.low = eta_min
        super().__init__(optimizer, last_epoch)

    def factor(self, time: int) -> float:
        """The share of the way from `eta_min` to the initial rate at a time."""
        return (1 + math.cos(math.pi * time / self.T_max)) / 2
