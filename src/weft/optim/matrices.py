"""Steps that look at matrices as such: Adafactor (Shazeer and Stern 2018), Muon (Jordan et al. 2024)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import weft
from weft import Tensor
from weft.errors import ArgumentError
from weft.optim.checks import check_number, check_rate, check_real, need_pair, options
from weft.optim.optimizer import Group, Optimizer
from weft.optim.updating import number, updates

if TYPE_CHECKING:
    from weft._typing import Parameters


_AT_LEAST = "{} should be >= {} but is: {}"


def _check_least(label: str, value: float, least: float = 0.0) -> None:
    message = _AT_LEAST.format(label, int(least), value)
    check_number(label, value, f">= {least}", lambda found: found >= least, message)


class Adafactor(Optimizer):
    """Adam that keeps of a matrix's mean squares the means of rows and columns only."""

    _counts = ("step",)

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        defaults = options(locals())
        check_rate(lr, "Learning rate should be >= 0 but is: ")
        message = f"beta2_decay should be <= 0 but is: {beta2_decay}"
        check_number("beta2_decay", beta2_decay, "<= 0", lambda found: found <= 0.0, message)
        need_pair("eps", eps)
        if eps[0] is not None:
            _check_least("epsilon1", eps[0])
        _check_least("epsilon2", eps[1])
        _check_least("Clipping threshold d", d, 1.0)
        _check_least("weight_decay", weight_decay)
        super().__init__(params, defaults)

    def _update_group(self, group: Group) -> None:
        lr, decay, (least, least_scale) = number(group, "lr"), group["weight_decay"], group["eps"]
        for parameter in group["params"]:
            check_real("Adafactor", parameter)
        for parameter, gradient, state, _ in updates(self, group, _start_adafactor):
            step: int = state["step"]
            eps = weft.finfo(parameter.dtype).eps if least is None else least
            scale = _root_mean_square(parameter).clamp(min=least_scale)
            rate = scale * min(lr, 1 / step**0.5)
            if decay != 0:
                parameter.mul_(1 - lr * decay)
            variance = _blended_variance(state, gradient, step ** group["beta2_decay"], eps)
            update = variance.clamp(min=eps * eps).rsqrt() * gradient
            excess = (_root_mean_square(update) / group["d"]).clamp(min=1.0)
            parameter.sub_(update * (rate / excess))


def _start_adafactor(parameter: Tensor) -> Group:
    found = parameter.detach()
    if found.dim() < 2:
        return {"variance": weft.zeros_like(found)}
    return {
        "row_var": found.new_zeros((*found.shape[:-1], 1)),
        "col_var": found.new_zeros((*found.shape[:-2], 1, found.shape[-1])),
    }


def _root_mean_square(value: Tensor) -> Tensor:
    return value.norm(2) / value.numel() ** 0.5


def _blended_variance(state: Group, gradient: Tensor, share: float, eps: float) -> Tensor:
    """The running mean of the squared gradient; of a matrix the outer product of the means of its rows and columns."""
    square = gradient.square()
    if gradient.dim() < 2:
        return state["variance"].lerp_(square, share)
    rows = state["row_var"].lerp_(square.mean(dim=-1, keepdim=True), share)
    columns = state["col_var"].lerp_(square.mean(dim=-2, keepdim=True), share)
    return rows * columns / rows.mean(dim=-2, keepdim=True).clamp(min=eps)


class Muon(Optimizer):
    """Momentum whose matrices are made nearly orthogonal; for the weights of hidden layers."""

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        defaults = options(locals())
        check_rate(lr, "Learning rate should be >= 0 but is: ")
        _check_least("momentum", momentum)
        _check_least("weight decay", weight_decay)
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ArgumentError(
                f"Adjust learning rate function {adjust_lr_fn} is not supported",
                expected="'original', 'match_rms_adamw' or None",
                got=repr(adjust_lr_fn),
                fix="use one of these",
            )
        _check_iteration(ns_coefficients, ns_steps)
        super().__init__(params, defaults)
        for group in self.param_groups:
            for parameter in group["params"]:
                _check_matrix(parameter)

    def _update_group(self, group: Group) -> None:
        lr, momentum = number(group, "lr"), group["momentum"]
        for parameter in group["params"]:
            check_real("Muon", parameter)
        for parameter, gradient, state, _ in updates(self, group, _start_muon, counted=False):
            buffer = state["momentum_buffer"].lerp_(gradient, 1 - momentum)
            update = gradient.lerp(buffer, momentum) if group["nesterov"] else buffer
            update = _orthogonal(update, group["ns_coefficients"], group["ns_steps"], group["eps"])
            parameter.mul_(1 - lr * group["weight_decay"])
            rate = _adjusted(lr, group["adjust_lr_fn"], *parameter.shape)
            parameter.sub_(update.to(parameter.dtype) * rate)


def _start_muon(parameter: Tensor) -> Group:
    return {"momentum_buffer": weft.zeros_like(parameter.detach())}


def _check_iteration(coefficients: tuple[float, ...], steps: int) -> None:
    if steps >= 100:
        raise ArgumentError(
            "Number of steps must be less than 100 for computational efficiency",
            expected="ns_steps < 100",
            got=str(steps),
            fix="5 steps are usual",
        )
    if len(coefficients) != 3:
        raise ArgumentError(
            "Coefficients must be a tuple of exactly 3 values",
            expected="three numbers",
            got=repr(coefficients),
            fix="leave ns_coefficients out",
        )


def _check_matrix(parameter: Tensor) -> None:
    if parameter.ndim != 2:
        raise ArgumentError(
            "Muon only supports 2D parameters whereas we found a parameter with size: "
            f"{parameter.size()}",
            expected="matrices",
            got=f"a parameter of shape {list(parameter.shape)}",
            fix="give biases and embeddings to AdamW",
        )


def _orthogonal(matrix: Tensor, coefficients: tuple[float, ...], steps: int, eps: float) -> Tensor:
    """A matrix with the same singular vectors and singular values near 1, by a Newton-Schulz iteration of degree 5.

    Values are bfloat16; each product is summed in float32 and rounded once.
    """
    a, b, c = coefficients
    tall = matrix.shape[0] > matrix.shape[1]
    found = matrix.bfloat16()
    found = (found.T if tall else found) / found.norm().clamp(min=eps)
    for _ in range(steps):
        wide = found.float()
        gram = (wide @ wide.T).bfloat16().float()
        update = (gram * b + (gram @ gram) * c).bfloat16().float()
        found = (wide * a + update @ wide).bfloat16()
    return found.T if tall else found


def _adjusted(lr: float, rule: str | None, rows: int, columns: int) -> Any:
    """The rate for a matrix of this shape."""
    if rule == "match_rms_adamw":
        return lr * 0.2 * math.sqrt(max(rows, columns))
    return lr * math.sqrt(max(1, rows / columns))
