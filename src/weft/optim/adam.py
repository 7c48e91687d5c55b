"""Adam (Kingma and Ba 2015), AMSGrad (Reddi et al. 2018), AdamW (Loshchilov and Hutter 2019)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import weft
from weft import Tensor
from weft.errors import ArgumentError
from weft.optim.checks import (
    check_betas,
    check_fused,
    check_not_negative,
    check_rate,
    options,
)
from weft.optim.optimizer import Group, Optimizer
from weft.optim.updating import add_quotient_, blend_, blend_square_, decayed, number, updates

if TYPE_CHECKING:
    from weft._typing import Parameters


class Adam(Optimizer):
    """Steps by the running mean of the gradient over the root of the running mean of its square."""

    _counts = ("step",)

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        defaults = options(locals())
        _check_tensors(lr, betas, foreach and not capturable)
        check_rate(lr)
        check_not_negative(epsilon_value=eps, weight__decay_value=weight_decay)
        check_fused(fused, foreach, differentiable)
        check_betas(betas)
        defaults["betas"] = tuple(
            beta.item() if isinstance(beta, Tensor) and not differentiable else beta
            for beta in betas
        )
        super().__init__(params, defaults)

    def _update_group(self, group: Group) -> None:
        lr, (beta1, beta2), eps = number(group, "lr"), group["betas"], group["eps"]
        decay, decoupled = number(group, "weight_decay"), group["decoupled_weight_decay"]

        def start(parameter: Tensor) -> Group:
            names = ["exp_avg", "exp_avg_sq"] + ["max_exp_avg_sq"] * group["amsgrad"]
            return {name: weft.zeros_like(parameter) for name in names}

        for parameter, gradient, state, _ in updates(self, group, start, by_element=True):
            step, mean, square = state["step"], state["exp_avg"], state["exp_avg_sq"]
            if decoupled:
                parameter *= 1 - lr * decay
            else:
                gradient = decayed(gradient, parameter, decay)
            blend_(mean, gradient, 1 - beta1)
            blend_square_(square, gradient, beta2)
            if group["amsgrad"]:
                largest = state["max_exp_avg_sq"]
                square = largest.copy_(weft.maximum(largest, square))
            # mean / bias1 / (sqrt(square / bias2) + eps), with one division for each element
            root, correction = square.sqrt(), (1 - beta2**step) ** 0.5
            if parameter.dtype is weft.float16:  # where a correction of eps may leave nothing of it
                root, correction = root / correction, 1.0
            rate = -lr * correction / (1 - beta1**step)
            add_quotient_(parameter, mean, root + eps * correction, rate)


class AdamW(Adam):
    """Adam whose weight decay shrinks the parameters directly."""

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(params, **options(locals()), decoupled_weight_decay=True)


def _check_tensors(
    lr: Tensor | float, betas: tuple[Tensor | float, ...], separately: bool | None
) -> None:
    """Errors: ValueError for tensors among the options where PyTorch has no way for them."""
    tensors = [isinstance(beta, Tensor) for beta in betas] if isinstance(betas, tuple) else []
    if any(tensors) and not all(tensors):
        raise ArgumentError(
            "betas must be either both floats or both Tensors",
            expected="two numbers or two tensors",
            got=repr(betas),
            fix="pass betas=(beta1, beta2) as numbers",
        )
    if separately and (isinstance(lr, Tensor) or any(tensors)):
        name = "lr" if isinstance(lr, Tensor) else "betas[0]"
        raise ArgumentError(
            f"{name} as a Tensor is not supported for capturable=False and foreach=True",
            expected="a number, or foreach left out",
            got="a tensor",
            fix="leave foreach out: every step is fused",
        )
