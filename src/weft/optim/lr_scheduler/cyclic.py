"""CyclicLR: rates that go up and down between two bounds (Smith 2017)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from weft.errors import ArgumentError
from weft.optim.lr_scheduler.base import LRScheduler, check_optimizer, for_each_group, put_rate
from weft.optim.lr_scheduler.cycles import begin_momenta, check_momentum, set_momentum
from weft.optim.optimizer import Optimizer

_MODES = ("triangular", "triangular2", "exp_range")


class CyclicLR(LRScheduler):
    """The rate goes from `base_lr` up to `max_lr` in `step_size_up` steps, down again in `step_size_down`.

    Momentum goes the other way.

    The height of a cycle stays (`triangular`), halves with each (`triangular2`), shrinks by `gamma` with each step
    (`exp_range`), or is what `scale_fn` says of the cycle's or the step's number (`scale_mode`).
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float = 0.8,
        max_momentum: float = 0.9,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        if mode not in _MODES and scale_fn is None:
            raise ArgumentError(
                "mode is invalid and scale_fn is None",
                expected=f"one of {', '.join(_MODES)}, or a scale_fn",
                got=repr(mode),
                fix="use mode='triangular'",
            )
        bases = for_each_group(optimizer, base_lr, "base_lr")
        self.max_lrs = for_each_group(optimizer, max_lr, "max_lr")
        if last_epoch == -1:
            for group, rate in zip(optimizer.param_groups, bases, strict=True):
                put_rate(group, rate)
        down = step_size_up if step_size_down is None else step_size_down
        self.total_size = float(step_size_up + down)
        self.step_ratio = step_size_up / self.total_size
        self.mode, self.gamma, self._scale_fn_custom = mode, gamma, scale_fn
        self.scale_mode = scale_mode
        if scale_fn is None:
            self.scale_mode = "iterations" if mode == "exp_range" else "cycle"
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._begin_momenta(optimizer, base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = bases

    def _begin_momenta(
        self, optimizer: Optimizer, base: float, peak: float, last_epoch: int
    ) -> None:
        check_momentum(optimizer)
        self.use_beta1 = "betas" in optimizer.defaults
        self.base_momentums = for_each_group(optimizer, base, "base_momentum")
        self.max_momentums = for_each_group(optimizer, peak, "max_momentum")
        if last_epoch == -1:
            begin_momenta(optimizer, self.base_momentums, self.max_momentums)

    def scale_fn(self, x: float) -> float:
        """The height of a cycle, by its number or by the step's."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "triangular2":
            return float(1 / 2.0 ** (x - 1))
        return float(self.gamma**x) if self.mode == "exp_range" else 1.0

    def get_lr(self) -> list[float]:
        """The rates now; sets the momenta too."""
        self._warn_outside_step()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        place = 1.0 + self.last_epoch / self.total_size - cycle
        rising = place <= self.step_ratio
        share = place / self.step_ratio if rising else (place - 1) / (self.step_ratio - 1)
        height = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            ends = zip(self.base_momentums, self.max_momentums, strict=True)
            for number, (low, high) in enumerate(ends):
                set_momentum(self.optimizer, number, high - (high - low) * share * height)
        ends = zip(self.base_lrs, self.max_lrs, strict=True)
        return [low + (high - low) * share * height for low, high in ends]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer and a function of the caller's; of a callable object what it holds."""
        kept = super().state_dict()
        kept["_scale_fn_custom"] = getattr(self._scale_fn_custom, "__dict__", None) or None
        return kept

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` gave."""
        scale, held = self._scale_fn_custom, state_dict.get("_scale_fn_custom")
        super().load_state_dict(state_dict)
        self._scale_fn_custom = scale
        if held and scale is not None:
            scale.__dict__.update(held)
