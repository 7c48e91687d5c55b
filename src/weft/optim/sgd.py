"""Stochastic gradient descent with momentum, after Sutskever et al. (2013) as PyTorch varies it."""

from __future__ import annotations

from typing import Any

from weft.errors import ArgumentError
from weft.optim.optimizer import Group, Optimizer, check_not_negative, gradients


class SGD(Optimizer):
    """`p -= lr * g`, with momentum `p -= lr * (b = momentum * b + (1 - dampening) * g)`."""

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_not_negative(
            learning_rate=lr, momentum_value=momentum, weight__decay_value=weight_decay
        )
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ArgumentError(
                "Nesterov momentum requires a momentum and zero dampening",
                expected="momentum > 0 and dampening = 0",
                got=f"momentum={momentum}, dampening={dampening}",
                fix="pass momentum=0.9, or leave nesterov out",
            )
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
            "foreach": foreach,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)

    def _update_group(self, group: Group) -> None:
        lr, momentum, decay = float(group["lr"]), group["momentum"], group["weight_decay"]
        for parameter, gradient in gradients(group):
            if decay != 0:
                gradient = gradient.add(parameter, alpha=decay)
            if momentum != 0:
                state = self.state[parameter]
                buffer = state.get("momentum_buffer")
                if buffer is None:
                    buffer = state["momentum_buffer"] = gradient.detach().clone()
                else:
                    buffer.mul_(momentum).add_(gradient, alpha=1 - group["dampening"])
                gradient = gradient.add(buffer, alpha=momentum) if group["nesterov"] else buffer
            parameter.add_(gradient, alpha=-lr)
