"""Learning rate schedules: after each epoch (or step) the optimizer's groups get new rates.

In: an optimizer and the shape of the schedule. Out: changed `lr` entries in its groups. Most
schedules are a factor of the initial rate as a function of time; it is applied as the ratio of one
time to the one before, so that schedules can be chained and a rate changed by hand stays changed.
"""

from __future__ import annotations

import math
import warnings
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from weft.errors import ArgumentError, ArgumentTypeError, MemberNameError
from weft.graph.public import publish
from weft.optim.optimizer import Optimizer


class LRScheduler:
    """Base of schedules: `step()` advances the time `last_epoch` and sets the rates that `get_lr`
    gives.
    """

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        if not isinstance(optimizer, Optimizer):
            raise ArgumentTypeError(
                f"{type(optimizer).__name__} is not an Optimizer",
                expected="an optimizer",
                got=type(optimizer).__name__,
                fix="pass the optimizer itself, not its parameters",
            )
        self.optimizer = optimizer
        for number, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", group["lr"])
            elif "initial_lr" not in group:
                raise MemberNameError(
                    f"param 'initial_lr' is not specified in param_groups[{number}] when resuming "
                    "scheduler with last_epoch >= 0.",
                    expected="initial_lr in each group, or last_epoch=-1",
                    got=f"last_epoch={last_epoch}",
                    fix="load the optimizer's state_dict first",
                )
        self.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._step_count = 0
        self.step()

    def get_lr(self) -> list[float]:
        """The rates at time `last_epoch`, one for each group."""
        raise NotImplementedError

    def get_last_lr(self) -> list[float]:
        """The rates that were set last."""
        return self._last_lr

    def step(self, epoch: int | None = None) -> None:
        """Advance the time by one, or to `epoch`, and set the rates."""
        if self._step_count == 1 and self.optimizer._steps_taken == 0:
            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`. You should call "
                "them in the opposite order: `optimizer.step()` before `lr_scheduler.step()`.",
                UserWarning,
                stacklevel=2,
            )
        self._step_count += 1
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        self._set(self.get_lr())

    def _rates(self) -> list[float]:
        return [group["lr"] for group in self.optimizer.param_groups]

    def _set(self, rates: list[float]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
        self._last_lr = self._rates()

    def _restart(self) -> None:
        """Begin at time zero from the initial rates."""
        for group, base in zip(self.optimizer.param_groups, self.base_lrs, strict=True):
            group["lr"] = base
        self.last_epoch = 0
        self._set(self.get_lr())

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer."""
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` gave."""
        self.__dict__.update(state_dict)


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
        self.lr_lambdas = _for_each_group(optimizer, lr_lambda, "lr_lambdas")
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
        self.T_0, self.T_mult, self.eta_min = T_0, T_mult, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The rates now."""
        done, length = float(self.last_epoch), self.T_0
        while done >= length:
            done, length = done - length, length * self.T_mult
        share = (1 + math.cos(math.pi * done / length)) / 2
        return [self.eta_min + (base - self.eta_min) * share for base in self.base_lrs]


class OneCycleLR(LRScheduler):
    """Up to `max_lr`, then down far below the start, momentum the other way (Smith 2017)."""

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
        self.anneal_strategy, self.three_phase = anneal_strategy, three_phase
        self.pct_start, self.final_div_factor = pct_start, final_div_factor
        self.max_lrs = _for_each_group(optimizer, max_lr, "max_lr")
        if last_epoch == -1:
            for group, peak in zip(optimizer.param_groups, self.max_lrs, strict=True):
                group["initial_lr"] = peak / div_factor
        self.momenta = None
        if cycle_momentum:
            if not {"momentum", "betas"}.intersection(optimizer.defaults):
                raise ArgumentError(
                    "optimizer must support momentum or beta1 with `cycle_momentum` option enabled",
                    expected="an optimizer with momentum or betas",
                    got=type(optimizer).__name__,
                    fix="pass cycle_momentum=False",
                )
            low = _for_each_group(optimizer, base_momentum, "base_momentum")
            high = _for_each_group(optimizer, max_momentum, "max_momentum")
            self.momenta = list(zip(high, low, strict=True))
        super().__init__(optimizer, last_epoch)

    def _phases(self) -> list[tuple[float, int, int]]:
        """The last step of each phase and its end points: 0 initial rate, 1 peak, 2 final rate."""
        rise, last = self.pct_start * self.total_steps, self.total_steps - 1
        if self.three_phase:
            return [(rise - 1, 0, 1), (2 * rise - 2, 1, 0), (last, 0, 2)]
        return [(rise - 1, 0, 1), (last, 1, 2)]

    def _blend(self, start: float, end: float, done: float) -> float:
        if self.anneal_strategy == "linear":
            return start + (end - start) * done
        return end + (start - end) / 2.0 * (math.cos(math.pi * done) + 1)

    def get_lr(self) -> list[float]:
        """The rates now; sets the momenta too."""
        time = self.last_epoch
        if time > self.total_steps:
            raise ArgumentError(
                f"Tried to step {time} times. The specified number of total steps is "
                f"{self.total_steps}",
                expected=f"at most {self.total_steps} steps",
                got=str(time),
                fix="build the schedule with more total_steps",
            )
        *earlier, (end, first, second) = self._phases()
        begin = 0.0
        for phase in earlier:
            if time <= phase[0]:
                end, first, second = phase
                break
            begin = phase[0]
        done = (time - begin) / (end - begin)
        rates = []
        for number, (base, peak) in enumerate(zip(self.base_lrs, self.max_lrs, strict=True)):
            points = (base, peak, base / self.final_div_factor)
            rates.append(self._blend(points[first], points[second], done))
            if self.momenta is not None:
                high, low = self.momenta[number]
                ends = (high, low, high)
                self._set_momentum(number, self._blend(ends[first], ends[second], done))
        return rates

    def _set_momentum(self, number: int, momentum: float) -> None:
        group = self.optimizer.param_groups[number]
        if "betas" in self.optimizer.defaults:
            group["betas"] = (momentum, *group["betas"][1:])
        else:
            group["momentum"] = momentum


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
        schedulers[bisect_right(milestones, 0)]._restart()
        self._last_lr = self._rates()

    def step(self, epoch: int | None = None) -> None:
        """Advance the schedule whose turn it is."""
        self.last_epoch += 1
        index = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[index]
        if index > 0 and self._milestones[index - 1] == self.last_epoch:
            scheduler._restart()
        else:
            scheduler.step()
        self._last_lr = self._rates()

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

    def step(self, epoch: int | None = None) -> None:
        """Advance all of them."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = self._rates()


class ReduceLROnPlateau(LRScheduler):
    """Times `factor` when a measurement has not improved for more than `patience` epochs."""

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
        if not isinstance(optimizer, Optimizer):
            raise ArgumentTypeError(
                f"{type(optimizer).__name__} is not an Optimizer",
                expected="an optimizer",
                got=type(optimizer).__name__,
                fix="pass the optimizer itself, not its parameters",
            )
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
        self.min_lrs = _for_each_group(optimizer, min_lr, "min_lrs")
        self.best = math.inf if mode == "min" else -math.inf
        self.cooldown_counter = self.num_bad_epochs = self.last_epoch = 0
        self._last_lr = self._rates()

    def _is_better(self, value: float) -> bool:
        sign = 1.0 if self.mode == "min" else -1.0
        margin = self.threshold
        if self.threshold_mode == "rel":
            # An infinite best times zero threshold would be nan; any finite value beats it.
            margin = 0.0 if math.isinf(self.best) else sign * self.best * self.threshold
        return sign * value < sign * self.best - margin

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]
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
        for group, low in zip(self.optimizer.param_groups, self.min_lrs, strict=True):
            rate = max(group["lr"] * self.factor, low)
            if group["lr"] - rate > self.eps:
                group["lr"] = rate


def _for_each_group(optimizer: Optimizer, value: Any, name: str) -> list[Any]:
    """One value for every group, or the values given."""
    count = len(optimizer.param_groups)
    if not isinstance(value, list | tuple):
        return [value] * count
    if len(value) != count:
        raise ArgumentError(
            f"Expected {count} {name}, but got {len(value)}",
            expected=f"{count} values, one per group",
            got=str(len(value)),
            fix="pass one number for all groups, or one for each",
        )
    return list(value)


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


publish(globals())
del publish
