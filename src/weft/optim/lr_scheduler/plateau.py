"""The schedule that looks at a metric."""

from __future__ import annotations

import math

from weft.errors import ArgumentError
from weft.optim.lr_scheduler.base import LRScheduler, check_optimizer, for_each_group, put_rate
from weft.optim.optimizer import Optimizer


class ReduceLROnPlateau(LRScheduler):
    """Multiplies the rate by `factor` when a measurement has not improved for more than `patience` epochs."""

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float | list[float] = 0,
        eps: float = 1e-8,
    ) -> None:
        if factor >= 1.0:
            raise ArgumentError(
                "Factor should be < 1.0.",
                expected="factor < 1",
                got=repr(factor),
                fix="pass the share that remains of the rate",
            )
        check_optimizer(optimizer)
        if mode not in ("min", "max"):
            raise ArgumentError(
                f"mode {mode} is unknown!",
                expected="'min' or 'max'",
                got=repr(mode),
                fix="use mode='min' for a loss",
            )
        if threshold_mode not in ("rel", "abs"):
            raise ArgumentError(
                f"threshold mode {threshold_mode} is unknown!",
                expected="'rel' or 'abs'",
                got=repr(threshold_mode),
                fix="use threshold_mode='rel'",
            )
        self.optimizer, self.mode, self.factor, self.patience = optimizer, mode, factor, patience
        self.threshold, self.threshold_mode = threshold, threshold_mode
        self.cooldown, self.eps = cooldown, eps
        self.default_min_lr = None if isinstance(min_lr, list | tuple) else min_lr
        self.min_lrs = for_each_group(optimizer, min_lr, "min_lrs")
        self.best = self.mode_worse = math.inf if mode == "min" else -math.inf
        self.cooldown_counter = self.num_bad_epochs = self.last_epoch = 0
        self._last_lr = self._rates()

    def _is_better(self, value: float) -> bool:
        change = -self.threshold if self.mode == "min" else self.threshold
        if self.threshold_mode == "abs":
            least = self.best + change
        elif math.isinf(self.best):
            least = self.best  # times zero it would be nan; any finite value beats it
        else:
            least = self.best * (1.0 + change)
        return value < least if self.mode == "min" else value > least

    def step(self, metrics: float, epoch: int | None = None) -> None:  # type: ignore[override]
        """Tell the measurement of this epoch; lower the rates where it is time to."""
        value = float(metrics)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self._is_better(value):
            self.best, self.num_bad_epochs = value, 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce()
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._last_lr = self._rates()

    def _reduce(self) -> None:
        self._match_groups()
        for group, low in zip(self.optimizer.param_groups, self.min_lrs, strict=True):
            before = float(group["lr"])
            rate = max(before * self.factor, low)
            if before - rate > self.eps:
                put_rate(group, rate)

    def _match_groups(self) -> None:
        """One lowest rate for each group, also for those that came later. Errors: RuntimeError."""
        count = len(self.optimizer.param_groups)
        if len(self.min_lrs) == count:
            return
        if self.default_min_lr is None:
            raise ArgumentError(
                f"The number of param groups in the `optimizer` ({count}) differs from when `ReduceLROnPlateau` was "
                f"initialized ({len(self.min_lrs)}), usually due to a new param group being added to the optimizer.",
                expected=f"{len(self.min_lrs)} groups, as there are min_lrs",
                got=str(count),
                fix="set min_lrs to a list with one rate for each group",
            )
        self.min_lrs = [self.default_min_lr] * count
