"""Schedules that are a factor as a function of time.

`get_lr` makes the rates now of those before, so that schedules can be chained and a rate changed by hand stays changed;
`_get_closed_form_lr` makes them of the initial ones, for a step to a time that is named. Both in PyTorch's order of
operations: rates agree to the last digit.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any

from weft.errors import ArgumentError
from weft.optim.lr_scheduler.base import LRScheduler, for_each_group
from weft.optim.optimizer import Optimizer


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
        self._warn_outside_step()
        pairs = zip(self.base_lrs, self.lr_lambdas, strict=True)
        return [base * function(self.last_epoch) for base, function in pairs]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer; of the functions only what callable objects hold."""
        kept = super().state_dict()
        held = [
            vars(f).copy() if not isinstance(f, FunctionType) else None for f in self.lr_lambdas
        ]
        kept["lr_lambdas"] = held
        return kept

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` gave; the functions are those that are here."""
        functions = self.lr_lambdas
        super().load_state_dict(state_dict)
        self.lr_lambdas = functions
        for function, held in zip(functions, state_dict.get("lr_lambdas", ()), strict=False):
            if held is not None:
                vars(function).update(held)


class MultiplicativeLR(LambdaLR):
    """The rate before times a function of the time."""

    def get_lr(self) -> list[float]:
        """The rates now."""
        self._warn_outside_step()
        if self._is_initial:
            return self._rates()
        pairs = zip(self._rates(), self.lr_lambdas, strict=True)
        return [rate * function(self.last_epoch) for rate, function in pairs]


class StepLR(LRScheduler):
    """Multiplies the rate by gamma every `step_size` epochs."""

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The rates now."""
        self._warn_outside_step()
        if self.last_epoch == 0 or self.last_epoch % self.step_size:
            return self._rates()
        return [rate * self.gamma for rate in self._rates()]

    def _get_closed_form_lr(self) -> list[float]:
        steps = self.last_epoch // self.step_size
        return [base * self.gamma**steps for base in self.base_lrs]


class MultiStepLR(LRScheduler):
    """Multiplies the rate by gamma at each milestone."""

    def __init__(
        self,
        optimizer: Optimizer,
        milestones: Iterable[int],
        gamma: float = 0.1,
        last_epoch: int = -1,
    ) -> None:
        self.milestones, self.gamma = Counter(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The rates now."""
        self._warn_outside_step()
        if self.last_epoch not in self.milestones:
            return self._rates()
        return [rate * self.gamma ** self.milestones[self.last_epoch] for rate in self._rates()]

    def _get_closed_form_lr(self) -> list[float]:
        steps = bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return [base * self.gamma**steps for base in self.base_lrs]


class ConstantLR(LRScheduler):
    """A fixed share of the initial rate until `total_iters`."""

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
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The rates now."""
        self._warn_outside_step()
        if self.last_epoch == 0:
            return [rate * self.factor for rate in self._rates()]
        if self.last_epoch != self.total_iters:
            return self._rates()
        return [rate * (1.0 / self.factor) for rate in self._rates()]

    def _get_closed_form_lr(self) -> list[float]:
        share = self.factor + (self.last_epoch >= self.total_iters) * (1 - self.factor)
        return [base * share for base in self.base_lrs]


class LinearLR(LRScheduler):
    """The rate times a share that moves in a straight line for `total_iters` epochs."""

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

    def get_lr(self) -> list[float]:
        """The rates now."""
        self._warn_outside_step()
        time, total = self.last_epoch, self.total_iters
        if time == 0:
            return [rate * self.start_factor for rate in self._rates()]
        if self._is_initial or time > total:
            return self._rates()
        slope = self.end_factor - self.start_factor
        growth = 1.0 + slope / (total * self.start_factor + (time - 1) * slope)
        return [rate * growth for rate in self._rates()]

    def _get_closed_form_lr(self) -> list[float]:
        slope, time = self.end_factor - self.start_factor, min(self.total_iters, self.last_epoch)
        share = self.start_factor + slope * time / self.total_iters
        return [base * share for base in self.base_lrs]


class ExponentialLR(LRScheduler):
    """Multiplies the rate by gamma every epoch."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The rates now."""
        self._warn_outside_step()
        if self._is_initial:
            return self._rates()
        return [rate * self.gamma for rate in self._rates()]

    def _get_closed_form_lr(self) -> list[float]:
        return [base * self.gamma**self.last_epoch for base in self.base_lrs]


class PolynomialLR(LRScheduler):
    """The rate follows a polynomial that reaches zero after `total_iters` epochs."""

    def __init__(
        self,
        optimizer: Optimizer,
        total_iters: int = 5,
        power: float = 1.0,
        last_epoch: int = -1,
    ) -> None:
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The rates now."""
        self._warn_outside_step()
        time, total = self.last_epoch, self.total_iters
        if self._is_initial or time > total:
            return self._rates()
        share = ((1.0 - time / total) / (1.0 - (time - 1) / total)) ** self.power
        return [rate * share for rate in self._rates()]

    def _get_closed_form_lr(self) -> list[float]:
        share = (1.0 - min(self.total_iters, self.last_epoch) / self.total_iters) ** self.power
        return [base * share for base in self.base_lrs]


class CosineAnnealingLR(LRScheduler):
    """The rate follows half a cosine wave from the initial rate to `eta_min` (Loshchilov and Hutter 2017)."""

    def __init__(
        self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The rates now."""
        self._warn_outside_step()
        time, low = self.last_epoch, self.eta_min
        if self._is_initial or time == 0:
            return self._rates()
        if (time - 1 - self.T_max) % (2 * self.T_max) == 0:  # up again from the lowest rate
            rise = (1 - math.cos(math.pi / self.T_max)) / 2
            pairs = zip(self.base_lrs, self._rates(), strict=True)
            return [rate + (base - low) * rise for base, rate in pairs]
        now, before = (1 + math.cos(math.pi * t / self.T_max) for t in (time, time - 1))
        return [now / before * (rate - low) + low for rate in self._rates()]

    def _get_closed_form_lr(self) -> list[float]:
        low, wave = self.eta_min, 1 + math.cos(math.pi * self.last_epoch / self.T_max)
        return [low + (base - low) * wave / 2 for base in self.base_lrs]
