"""Adam (Kingma and Ba 2015), AMSGrad (Reddi et al. 2018), AdamW (Loshchilov and Hutter 2019)."""

from __future__ import annotations

from typing import Any

import weft
from weft.errors import ArgumentTypeError
from weft.optim.optimizer import Group, Optimizer, check_not_negative, check_number, gradients


class Adam(Optimizer):
    """Steps by the running mean of the gradient over the root of the running mean of its square."""

    def __init__(
        self,
        params: Any,
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
        check_not_negative(learning_rate=lr, epsilon_value=eps, weight__decay_value=weight_decay)
        _check_betas(betas)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
            "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(params, defaults)

    def _update_group(self, group: Group) -> None:
        lr, (beta1, beta2), eps = float(group["lr"]), group["betas"], group["eps"]
        decay, decoupled = group["weight_decay"], group["decoupled_weight_decay"]
        for parameter, gradient in gradients(group):
            state = self.state[parameter] or self._start(parameter, group["amsgrad"])
            state["step"] = step = state["step"] + 1
            mean, square = state["exp_avg"], state["exp_avg_sq"]
            if decay != 0 and decoupled:
                parameter.mul_(1 - lr * decay)
            elif decay != 0:
                gradient = gradient.add(parameter, alpha=decay)
            mean.lerp_(gradient, 1 - beta1)
            square.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
            if group["amsgrad"]:
                largest = state["max_exp_avg_sq"]
                square = largest.copy_(weft.maximum(largest, square))
            root = square.sqrt() / (1 - beta2**step) ** 0.5
            parameter.addcdiv_(mean, root.add_(eps), value=-lr / (1 - beta1**step))

    def _start(self, parameter: weft.Tensor, amsgrad: bool) -> Group:
        names = ["exp_avg", "exp_avg_sq"] + ["max_exp_avg_sq"] * amsgrad
        state: Group = self.state[parameter]
        state.update({"step": 0, **{name: weft.zeros_like(parameter) for name in names}})
        return state


class AdamW(Adam):
    """Adam whose weight decay shrinks the parameters directly."""

    def __init__(
        self,
        params: Any,
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
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )


def _check_betas(betas: Any) -> None:
    if not isinstance(betas, tuple | list) or len(betas) != 2:
        raise ArgumentTypeError(
            "betas must be two numbers",
            expected="a pair, such as (0.9, 0.999)",
            got=repr(betas),
            fix="pass betas=(beta1, beta2)",
        )
    for index, beta in enumerate(betas):
        check_number(
            f"beta parameter at index {index}", beta, "in [0, 1)", lambda b: 0.0 <= b < 1.0
        )
