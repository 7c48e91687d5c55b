"""Kin of Adam: RAdam (Liu et al. 2020), NAdam (Dozat 2016), SparseAdam; ASGD (Polyak and Juditsky 1992)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import weft
from weft import Tensor
from weft.errors import ArgumentError
from weft.optim.checks import (
    check_betas,
    check_not_negative,
    check_number,
    check_rate,
    options,
)
from weft.optim.counted_state import scalar_dtype
from weft.optim.optimizer import Group, Optimizer
from weft.optim.updating import (
    add_quotient_,
    add_scaled_,
    blend_,
    blend_square_,
    decayed,
    number,
    updates,
)

if TYPE_CHECKING:
    from weft._typing import Parameters


def _rounded(value: float) -> float:
    """A number as a state_dict keeps it; a tensor, through which gradients flow, as it is."""
    return value if isinstance(value, Tensor) else float(scalar_dtype().numpy.type(value))


def _start_moments(parameter: Tensor) -> Group:
    return {name: weft.zeros_like(parameter) for name in ("exp_avg", "exp_avg_sq")}


class RAdam(Optimizer):
    """Adam whose steps are scaled while the running mean of squares is still uncertain."""

    _counts = ("step",)

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        defaults = options(locals())
        check_rate(lr)
        check_not_negative(epsilon_value=eps, weight__decay_value=weight_decay)
        check_betas(betas)
        super().__init__(params, defaults)

    def _update_group(self, group: Group) -> None:
        lr, (beta1, beta2), eps = number(group, "lr"), group["betas"], group["eps"]
        decay, decoupled = number(group, "weight_decay"), group["decoupled_weight_decay"]
        for parameter, gradient, state, _ in updates(self, group, _start_moments, by_element=True):
            step = state["step"]
            if decoupled:
                parameter *= 1 - lr * decay
            else:
                gradient = decayed(gradient, parameter, decay)
            mean = blend_(state["exp_avg"], gradient, 1 - beta1)
            square = blend_square_(state["exp_avg_sq"], gradient, beta2)
            correction = 1 - beta2**step
            rate = -lr / (1 - beta1**step)
            certainty = _rectification(beta2, step, correction)
            if certainty is None:
                add_scaled_(parameter, mean, rate)
            else:
                factor = rate * certainty * correction**0.5
                add_quotient_(parameter, mean, square.sqrt() + eps, factor)


def _rectification(beta2: float, step: int, correction: float) -> float | None:
    """r_t of the paper; None while the approximated average is too short for its variance to exist."""
    most = 2 / (1 - beta2) - 1
    length = most - 2 * step * beta2**step / correction
    if length <= 5.0:
        return None
    above = (length - 4) * (length - 2) * most
    return float((above / ((most - 4) * (most - 2) * length)) ** 0.5)


class NAdam(Optimizer):
    """Adam with Nesterov's look ahead, and a momentum that grows with time."""

    _counts = ("step", "mu_product")

    def __init__(
        self,
        params: Parameters,
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        defaults = options(locals())
        check_rate(lr)
        check_not_negative(
            epsilon_value=eps,
            weight__decay_value=weight_decay,
            momentum__decay_value=momentum_decay,
        )
        check_betas(betas)
        super().__init__(params, defaults)

    def _update_group(self, group: Group) -> None:
        lr, (beta1, beta2), eps = number(group, "lr"), group["betas"], group["eps"]
        decay, decoupled = number(group, "weight_decay"), group["decoupled_weight_decay"]

        def start(parameter: Tensor) -> Group:
            return {"mu_product": 1.0, **_start_moments(parameter)}

        for parameter, gradient, tensors, state in updates(self, group, start, by_element=True):
            step = tensors["step"]
            if decoupled:
                parameter *= 1 - lr * decay
            else:
                gradient = decayed(gradient, parameter, decay)
            now, after = (
                beta1 * (1 - 0.5 * 0.96 ** (time * group["momentum_decay"]))
                for time in (step, step + 1)
            )
            product = state["mu_product"] = _rounded(tensors["mu_product"] * now)
            mean = blend_(tensors["exp_avg"], gradient, 1 - beta1)
            square = blend_square_(tensors["exp_avg_sq"], gradient, beta2)
            root = (square / (1 - beta2**step)).sqrt() + eps
            add_quotient_(parameter, gradient, root, -lr * (1 - now) / (1 - product))
            add_quotient_(parameter, mean, root, -lr * after / (1 - product * after))


class ASGD(Optimizer):
    """Gradient descent with a falling rate; `ax` in the state is the mean of the parameters since time t0."""

    _counts = ("step", "eta", "mu")

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        defaults = options(locals())
        check_rate(lr)
        check_not_negative(weight__decay_value=weight_decay)
        super().__init__(params, defaults)

    def _update_group(self, group: Group) -> None:
        lr, lambd, decay = number(group, "lr"), group["lambd"], number(group, "weight_decay")

        def start(parameter: Tensor) -> Group:
            rate = lr if isinstance(lr, Tensor) else _rounded(lr)
            return {"eta": rate, "mu": 1.0, "ax": weft.zeros_like(parameter)}

        for parameter, gradient, tensors, state in updates(self, group, start, by_element=True):
            step, rate, mean = tensors["step"], tensors["eta"], tensors["ax"]
            gradient = decayed(gradient, parameter, decay)
            parameter.mul_(1 - lambd * rate)
            add_scaled_(parameter, gradient, -rate)
            if tensors["mu"] == 1:
                mean.copy_(parameter)
            else:
                mean.add_(parameter - mean, alpha=tensors["mu"])
            later = lr / (1 + lambd * lr * step) ** group["alpha"]
            state["eta"] = later if isinstance(later, Tensor) else _rounded(later)
            state["mu"] = _rounded(1 / max(1, step - group["t0"]))


class SparseAdam(Optimizer):
    """Adam for sparse gradients: what a gradient does not have keeps its value and its moments."""

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        defaults = options(locals())
        check_rate(lr)
        check_number("learning rate", lr, "> 0", lambda rate: rate > 0.0)
        check_number("epsilon value", eps, "> 0", lambda number: number > 0.0)
        check_betas(betas)
        super().__init__(params, defaults)
        parameters = [
            (f"[{number}, {place}]", parameter)
            for number, group in enumerate(self.param_groups)
            for place, parameter in enumerate(group["params"])
        ]
        _refuse("Sparse", "requires dense parameter tensors", parameters, lambda p: p.is_sparse)
        _refuse("Complex", "does not support complex parameters", parameters, Tensor.is_complex)

    def _update_group(self, group: Group) -> None:
        for parameter, gradient, state, _ in updates(self, group, _start_moments, sparse=True):
            if not gradient.is_sparse:
                raise ArgumentError(
                    "SparseAdam does not support dense gradients, please consider Adam instead",
                    expected="a sparse gradient, as Embedding with sparse=True gives it",
                    got="a dense one",
                    fix="use Adam",
                )
            gradient = gradient.coalesce()  # the update is not linear
            places, values = tuple(gradient._indices()), gradient._values()
            if values.numel():
                parameter.index_put_(places, _change(group, state, places, values), accumulate=True)


def _change(group: Group, state: Group, places: tuple[Tensor, ...], values: Tensor) -> Tensor:
    """The change of the entries at some positions; their moments take in the gradient's values."""
    (beta1, beta2), step = group["betas"], state["step"]
    mean = state["exp_avg"][places].lerp(values, 1 - beta1)
    square = state["exp_avg_sq"][places].lerp(values.square(), 1 - beta2)
    state["exp_avg"].index_put_(places, mean)
    state["exp_avg_sq"].index_put_(places, square)
    size = number(group, "lr") * math.sqrt(1 - beta2**step) / (1 - beta1**step)
    return mean / (square.sqrt() + group["eps"]) * -size


def _refuse(
    kind: str, why: str, parameters: list[tuple[str, Tensor]], matches: Callable[..., object]
) -> None:
    """Errors: ValueError that names the parameters of a kind that the algorithm cannot have."""
    places = ", ".join(place for place, parameter in parameters if matches(parameter))
    if places:
        raise ArgumentError(
            f"{kind} params at indices [{places}]: SparseAdam {why}",
            expected="dense real parameters",
            got=f"others at [{places}]",
            fix="use Adam for them",
        )
