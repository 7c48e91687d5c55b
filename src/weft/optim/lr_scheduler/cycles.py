"""Schedules that rise and fall: warm restarts, one cycle of rate and momentum."""

from __future__ import annotations

import math
from typing import Any

from weft.errors import ArgumentError
from weft.optim.lr_scheduler.base import LRScheduler, copied, for_each_group
from weft.optim.optimizer import Optimizer


class CosineAnnealingWarmRestarts(LRScheduler):
    """Cosine annealing that starts again after T_0 epochs, then T_0 * T_mult, and so on."""

    def __init__(
        self,
        optimizer: Optimizer,
        T_0: int,
        T_mult: int = 1,
        eta_min: float = 0.0,
        last_epoch: int = -1,
    ) -> None:
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ArgumentError(
                f"Expected positive integer T_0, but got {T_0}",
                expected="an integer > 0",
                got=repr(T_0),
                fix="pass the length of the first cycle in steps",
            )
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ArgumentError(
                f"Expected integer T_mult >= 1, but got {T_mult}",
                expected="an integer >= 1",
                got=repr(T_mult),
                fix="use T_mult=1 for cycles of one length",
            )
        self.T_0, self.T_i, self.T_mult, self.eta_min = T_0, T_0, T_mult, eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The rates now."""
        self._warn_outside_step()
        low, wave = self.eta_min, 1 + math.cos(math.pi * self.T_cur / self.T_i)
        return [low + (base - low) * wave / 2 for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:  # type: ignore[override]
        """Advance the time by one, or to `epoch`, which may be between two epochs. Errors: ValueError before 0."""
        if epoch is not None and epoch < 0:
            raise ArgumentError(
                f"Expected non-negative epoch, but got {epoch}",
                expected="epoch >= 0",
                got=repr(epoch),
                fix="count from 0",
            )
        if epoch is None:
            epoch = 0 if self.last_epoch < 0 else self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur, self.T_i = self.T_cur % self.T_i, self.T_i * self.T_mult
        else:
            self.T_cur, self.T_i = epoch, self.T_0
            while self.T_cur >= self.T_i:
                self.T_cur, self.T_i = self.T_cur - self.T_i, self.T_i * self.T_mult
        self.last_epoch = math.floor(epoch)
        self._set_rates_now()

    def _restart(self) -> None:
        self.step(0)


class OneCycleLR(LRScheduler):
    """The rate goes up to `max_lr`, then down far below the start; momentum goes the other way (Smith 2017)."""

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        self.total_steps = _total_steps(total_steps, epochs, steps_per_epoch)
        if not (isinstance(pct_start, float) and 0 <= pct_start <= 1):
            raise ArgumentError(
                f"Expected float between 0 and 1 pct_start, but got {pct_start}",
                expected="a float between 0 and 1",
                got=repr(pct_start),
                fix="pass the share of steps in which the rate grows",
            )
        if anneal_strategy not in ("cos", "linear"):
            raise ArgumentError(
                "anneal_strategy must be one of 'cos' or 'linear', instead got " + anneal_strategy,
                expected="'cos' or 'linear'",
                got=repr(anneal_strategy),
                fix="use anneal_strategy='cos'",
            )
        self._anneal_func_type, self.cycle_momentum = anneal_strategy, cycle_momentum
        self._schedule_phases = _phases(self.total_steps, pct_start, three_phase)
        peaks = for_each_group(optimizer, max_lr, "max_lr")
        if last_epoch == -1:
            for group, peak in zip(optimizer.param_groups, peaks, strict=True):
                first = peak / div_factor
                group.update(initial_lr=first, max_lr=peak, min_lr=first / final_div_factor)
        if cycle_momentum:
            self._begin_momenta(optimizer, base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)

    def _begin_momenta(
        self,
        optimizer: Optimizer,
        base: float | list[float],
        peak: float | list[float],
        last_epoch: int,
    ) -> None:
        check_momentum(optimizer)
        self.use_beta1 = "betas" in optimizer.defaults
        low = for_each_group(optimizer, base, "base_momentum")
        high = for_each_group(optimizer, peak, "max_momentum")
        if last_epoch == -1:
            begin_momenta(optimizer, low, high)

    def _blend(self, start: float, end: float, done: float) -> float:
        if self._anneal_func_type == "linear":
            return start + (end - start) * done
        return end + (start - end) / 2.0 * (math.cos(math.pi * done) + 1)

    def _phase(self) -> tuple[dict[str, Any], float]:
        """The phase of this time, and which share of it is over."""
        phase, *later = self._schedule_phases
        begin = 0.0
        for following in later:
            if self.last_epoch <= phase["end_step"]:
                break
            begin, phase = phase["end_step"], following
        return phase, (self.last_epoch - begin) / (phase["end_step"] - begin)

    def get_lr(self) -> list[float]:
        """The rates now; sets the momenta too."""
        self._warn_outside_step()
        time = self.last_epoch
        if time > self.total_steps:
            raise ArgumentError(
                f"Tried to step {time} times. The specified number of total steps is "
                f"{self.total_steps}",
                expected=f"at most {self.total_steps} steps",
                got=str(time),
                fix="build the schedule with more total_steps",
            )
        phase, done = self._phase()
        rates = []
        for number, group in enumerate(self.optimizer.param_groups):
            rates.append(self._blend(group[phase["start_lr"]], group[phase["end_lr"]], done))
            if self.cycle_momentum:
                ends = group[phase["start_momentum"]], group[phase["end_momentum"]]
                set_momentum(self.optimizer, number, self._blend(*ends, done))
        return rates


def _phases(total: int, share: float, three: bool) -> list[dict[str, Any]]:
    """Each phase: its last step, and what of a group the rate and the momentum go from and to."""
    rise, down = share * total, ("initial_lr" if three else "min_lr")
    ends = [(float(rise) - 1, "initial_lr", "max_lr", "max_momentum", "base_momentum")]
    middle = float(2 * share * total) - 2 if three else total - 1
    ends.append((middle, "max_lr", down, "base_momentum", "max_momentum"))
    if three:
        ends.append((total - 1, "initial_lr", "min_lr", "max_momentum", "max_momentum"))
    names = ("end_step", "start_lr", "end_lr", "start_momentum", "end_momentum")
    return [dict(zip(names, end, strict=True)) for end in ends]


def check_momentum(optimizer: Optimizer) -> None:
    """Errors: ValueError for an optimizer without momentum."""
    if not {"momentum", "betas"}.intersection(optimizer.defaults):
        raise ArgumentError(
            "optimizer must support momentum or beta1 with `cycle_momentum` option enabled",
            expected="an optimizer with momentum or betas",
            got=type(optimizer).__name__,
            fix="pass cycle_momentum=False",
        )


def begin_momenta(optimizer: Optimizer, low: list[float], high: list[float]) -> None:
    """Start at the highest momentum, and note both ends in each group."""
    for number, group in enumerate(optimizer.param_groups):
        set_momentum(optimizer, number, copied(high[number]))
        group.update(max_momentum=high[number], base_momentum=low[number])


def set_momentum(optimizer: Optimizer, number: int, momentum: float) -> None:
    """Give a group a momentum, under the name that its algorithm has for it."""
    group = optimizer.param_groups[number]
    if "betas" in optimizer.defaults:
        group["betas"] = (momentum, *group["betas"][1:])
    else:
        group["momentum"] = momentum


def _total_steps(total: int | None, epochs: int | None, steps_per_epoch: int | None) -> int:
    if total is None and (epochs is None or steps_per_epoch is None):
        raise ArgumentError(
            "You must define either total_steps OR (epochs AND steps_per_epoch)",
            expected="total_steps, or epochs and steps_per_epoch",
            got=f"total_steps={total}, epochs={epochs}, steps_per_epoch={steps_per_epoch}",
            fix="pass total_steps",
        )
    given = {"total_steps": total, "epochs": epochs, "steps_per_epoch": steps_per_epoch}
    for name, count in given.items():
        if count is not None and (not isinstance(count, int) or count <= 0):
            raise ArgumentError(
                f"Expected positive integer {name}, but got {count}",
                expected="an integer > 0",
                got=repr(count),
                fix="count the steps of the training loop",
            )
    if total is not None:
        return total
    assert epochs is not None and steps_per_epoch is not None
    return epochs * steps_per_epoch
