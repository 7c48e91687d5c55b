"""L-BFGS (Nocedal and Wright 2006, algorithm 7.4) with fixed steps, or a line search for the strong Wolfe conditions
(their algorithms 3.5 and 3.6, with cubic interpolation and the safeguards of Schmidt's minFunc).

All parameters are one vector here. Curvature pairs and the direction stay tensors; what decides about the next
evaluation is read as numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import weft
from weft import Tensor
from weft.errors import ArgumentError
from weft.optim.checks import check_rate, options
from weft.optim.optimizer import Group, Optimizer
from weft.optim.updating import number

if TYPE_CHECKING:
    from weft._typing import Parameters


_ARMIJO, _CURVATURE = 1e-4, 0.9
_LEAST_CURVATURE = 1e-10


class LBFGS(Optimizer):
    """Newton-like steps of one group from the last `history_size` changes of parameters and gradients.

    `step` takes a closure that clears the gradients, computes the loss, calls backward and returns the loss; it is
    called up to `max_eval` times.
    """

    def __init__(
        self,
        params: Parameters,
        lr: float = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        check_rate(lr)
        if max_eval is None:
            max_eval = max_iter * 5 // 4
        super().__init__(params, options(locals()))
        if len(self.param_groups) != 1:
            raise ArgumentError(
                "LBFGS doesn't support per-parameter options (parameter groups)",
                expected="one group",
                got=f"{len(self.param_groups)} groups",
                fix="pass model.parameters()",
            )
        self._params = self.param_groups[0]["params"]

    def step(self, closure: Callable[[], Tensor | float]) -> Any:  # type: ignore[override]
        """Up to `max_iter` iterations; the loss before them. Errors: RuntimeError for an unknown line search."""
        group = self.param_groups[0]
        if group["line_search_fn"] not in (None, "strong_wolfe"):
            raise ArgumentError(
                "only 'strong_wolfe' is supported",
                expected="line_search_fn=None or 'strong_wolfe'",
                got=repr(group["line_search_fn"]),
                fix="use 'strong_wolfe'",
            )
        with weft.no_grad():
            return _Minimisation(self, weft.enable_grad()(closure), group).run()

    # -- all parameters as one vector ----------------------------------------------------------------------------

    def _gradient(self) -> Tensor:
        return weft.cat([_flat(p, p.grad) for p in self._params])

    def _move(self, size: float, direction: Tensor) -> None:
        begin = 0
        for parameter in self._params:
            real = weft.view_as_real(parameter) if parameter.is_complex() else parameter
            part = direction[begin : begin + real.numel()].view(real.shape)
            real.add_(part, alpha=size)
            begin += real.numel()


def _flat(parameter: Tensor, gradient: Tensor) -> Any:
    if gradient is None:
        gradient = weft.zeros_like(parameter.detach())
    if gradient.is_sparse:
        gradient = gradient.to_dense()
    if gradient.is_complex():
        gradient = weft.view_as_real(gradient)
    return gradient.reshape(-1)


def _number(loss: Tensor | float) -> float:
    return float(loss.detach()) if isinstance(loss, Tensor) else float(loss)


class _Minimisation:
    """One call of `step`: its state between iterations lives in the optimizer's state of the first parameter."""

    def __init__(
        self, optimizer: LBFGS, closure: Callable[[], Tensor | float], group: Group
    ) -> None:
        self.optimizer, self.closure, self.group = optimizer, closure, group
        self.state = optimizer.state[optimizer._params[0]]
        for name in ("func_evals", "n_iter"):
            self.state.setdefault(name, 0)
        self.evaluations = 0

    def run(self) -> Any:
        """Iterate until one of the conditions holds."""
        first = self.closure()
        self.loss = _number(first)
        self._count(1)
        self.gradient = self.optimizer._gradient()
        if self._is_flat():
            return first
        for iteration in range(1, self.group["max_iter"] + 1):
            self.state["n_iter"] += 1
            before = self.loss
            self._update_direction()
            self.state["prev_flat_grad"] = self.gradient
            self.state["prev_loss"] = before
            self.state["t"] = self._first_size()
            slope = float(self.gradient.dot(self.state["d"]))
            if slope > -self.group["tolerance_change"]:
                break
            self._advance(slope, iteration == self.group["max_iter"])
            if self._is_done(before):
                break
        return first

    def _count(self, evaluations: int) -> None:
        self.evaluations += evaluations
        self.state["func_evals"] += evaluations

    def _is_flat(self) -> bool:
        return float(self.gradient.abs().max()) <= self.group["tolerance_grad"]

    def _is_done(self, before: float) -> bool:
        least = self.group["tolerance_change"]
        if self.evaluations >= self.group["max_eval"] or self._is_flat():
            return True
        moved = float((self.state["d"] * self.state["t"]).abs().max())
        return moved <= least or abs(self.loss - before) < least

    def _update_direction(self) -> None:
        """Minus the approximate inverse Hessian times the gradient."""
        state = self.state
        if state["n_iter"] == 1:
            state.update(d=-self.gradient, old_dirs=[], old_stps=[], ro=[], H_diag=1)
            return
        change = self.gradient - state["prev_flat_grad"]
        moved = state["d"] * state["t"]
        curvature = change.dot(moved)
        if float(curvature) > _LEAST_CURVATURE:
            if len(state["old_dirs"]) == self.group["history_size"]:
                for name in ("old_dirs", "old_stps", "ro"):
                    state[name].pop(0)
            state["old_dirs"].append(change)
            state["old_stps"].append(moved)
            state["ro"].append(1.0 / curvature)
            state["H_diag"] = curvature / change.dot(change)
        state["d"] = self._two_loops()

    def _two_loops(self) -> Tensor:
        state, found = self.state, -self.gradient
        pairs = list(zip(state["old_dirs"], state["old_stps"], state["ro"], strict=True))
        shares = []
        for change, moved, inverse in reversed(pairs):
            share = moved.dot(found) * inverse
            shares.append(share)
            found = found - change * share
        found = found * state["H_diag"]
        for (change, moved, inverse), share in zip(pairs, reversed(shares), strict=True):
            found = found + moved * (share - change.dot(found) * inverse)
        state["al"] = [*reversed(shares), *[None] * (self.group["history_size"] - len(shares))]
        return found

    def _first_size(self) -> float:
        lr: float = number(self.group, "lr")
        if self.state["n_iter"] > 1:
            return lr
        total = float(self.gradient.abs().sum())
        return 1.0 / total * lr if total > 1.0 else lr

    def _advance(self, slope: float, last: bool) -> None:
        """Move along the direction, and evaluate there unless nobody will ask."""
        optimizer, direction = self.optimizer, self.state["d"]
        if self.group["line_search_fn"] is not None:
            begin = _Trial(0.0, self.loss, self.gradient, slope)
            allowed = self.group["max_eval"] - self.evaluations
            search = _Search(self._evaluate_at, begin, float(direction.abs().max()), allowed)
            found = search.run(self.state["t"])
            self.loss, self.gradient, self.state["t"] = found.loss, found.gradient, found.size
            self._count(search.evaluations)
            optimizer._move(found.size, direction)
            return
        optimizer._move(self.state["t"], direction)
        if not last:
            self.loss = _number(self.closure())
            self.gradient = optimizer._gradient()
            self._count(1)

    def _evaluate_at(self, size: float) -> _Trial:
        """The loss and its slope a step ahead; the parameters are as before afterwards."""
        optimizer, direction = self.optimizer, self.state["d"]
        previous = [parameter.clone() for parameter in optimizer._params]
        optimizer._move(size, direction)
        loss, gradient = _number(self.closure()), optimizer._gradient()
        for parameter, value in zip(optimizer._params, previous, strict=True):
            parameter.copy_(value)
        return _Trial(size, loss, gradient, float(gradient.dot(direction)))


# -- the line search ---------------------------------------------------------------------------------------------


@dataclass
class _Trial:
    """A step size with the loss, the gradient and the slope along the direction there."""

    size: float
    loss: float
    gradient: Tensor
    slope: float


class _Search:
    """A size at which the loss has fallen enough (Armijo) and its slope is small (curvature)."""

    def __init__(
        self, evaluate: Callable[[float], _Trial], begin: _Trial, longest: float, allowed: int
    ) -> None:
        self.evaluate, self.begin, self.longest, self.allowed = evaluate, begin, longest, allowed
        self.evaluations = 0

    def run(self, size: float) -> _Trial:
        """The best of the trials."""
        bracket = self._bracket(size)
        return bracket[0] if len(bracket) == 1 else self._zoom(*bracket)

    def _at(self, size: float) -> _Trial:
        self.evaluations += 1
        return self.evaluate(size)

    def _falls(self, trial: _Trial) -> bool:
        return trial.loss <= self.begin.loss + _ARMIJO * trial.size * self.begin.slope

    def _is_level(self, trial: _Trial) -> bool:
        return abs(trial.slope) <= -_CURVATURE * self.begin.slope

    def _bracket(self, size: float) -> tuple[_Trial, ...]:
        """One trial that meets both conditions, or two with such a size between them."""
        previous, trial = self.begin, self._at(size)
        for round_ in range(self.allowed):
            if not self._falls(trial) or (round_ > 1 and trial.loss >= previous.loss):
                return previous, trial
            if self._is_level(trial):
                return (trial,)
            if trial.slope >= 0:
                return previous, trial
            least = trial.size + 0.01 * (trial.size - previous.size)
            further = _between(previous, trial, least, trial.size * 10)
            previous, trial = trial, self._at(further)
        return self.begin, trial

    def _zoom(self, first: _Trial, second: _Trial) -> _Trial:
        """Narrow the bracket; the trial with the lower loss in the end."""
        low, high = (first, second) if first.loss <= second.loss else (second, first)
        stalled = False
        while self.evaluations <= self.allowed:
            if abs(high.size - low.size) * self.longest < 1e-9:
                break
            size, stalled = self._inside(low, high, stalled)
            trial = self._at(size)
            if not self._falls(trial) or trial.loss >= low.loss:
                high = trial
                if high.loss < low.loss:
                    low, high = high, low
                continue
            if self._is_level(trial):
                return trial
            if trial.slope * (high.size - low.size) >= 0:
                high = low
            low = trial
        return low

    def _inside(self, low: _Trial, high: _Trial, stalled: bool) -> tuple[float, bool]:
        """The next step size, and True if it is close to an end; the second time in a row it is moved away from
        there."""
        left, right = sorted((low.size, high.size))
        size = _between(low, high, left, right)
        margin = 0.1 * (right - left)
        if min(right - size, size - left) >= margin:
            return size, False
        if stalled or size >= right or size <= left:
            return (right - margin if right - size < size - left else left + margin), False
        return size, True


def _between(one: _Trial, other: _Trial, least: float, most: float) -> float:
    """The minimum of the cubic through two values and slopes, within bounds; their middle if it has no minimum."""
    if one.size > other.size:
        one, other = other, one
    chord = 3 * (one.loss - other.loss) / (one.size - other.size)
    mean = one.slope + other.slope - chord
    square = mean**2 - one.slope * other.slope
    if square < 0:
        return (least + most) / 2.0
    root = square**0.5
    curvature = other.slope - one.slope + 2 * root
    if curvature == 0:
        return (least + most) / 2.0
    share = (other.slope + root - mean) / curvature
    return min(max(other.size - (other.size - one.size) * share, least), most)
