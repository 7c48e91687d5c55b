"""Stochastic gradient descent with momentum, after Sutskever et al. (2013) as PyTorch varies it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from weft import Tensor
from weft.errors import ArgumentError
from weft.optim.checks import check_fused, check_not_negative, check_rate, options
from weft.optim.optimizer import Group, Optimizer
from weft.optim.updating import Candidate, add_scaled_, decayed, number, once_for_all

if TYPE_CHECKING:
    from weft._typing import Parameters


class SGD(Optimizer):
    """Gradient descent: `p -= lr * g`, with momentum `p -= lr * (b = momentum * b + (1 - dampening) * g)`."""

    def __init__(
        self,
        params: Parameters,
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
        defaults = options(locals())
        check_rate(lr)
        check_not_negative(momentum_value=momentum, weight__decay_value=weight_decay)
        check_fused(fused, foreach, differentiable)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ArgumentError(
                "Nesterov momentum requires a momentum and zero dampening",
                expected="momentum > 0 and dampening = 0",
                got=f"momentum={momentum}, dampening={dampening}",
                fix="pass momentum=0.9, or leave nesterov out",
            )
        super().__init__(params, defaults)

    def _update_group(self, group: Group) -> None:
        lr, momentum = number(group, "lr"), group["momentum"]
        decay = number(group, "weight_decay")
        for parameter, gradient, _ in once_for_all(self._candidates(group)):
            gradient = decayed(-gradient if group["maximize"] else gradient, parameter, decay)
            if momentum != 0:
                gradient = self._with_momentum(group, parameter, gradient, momentum)
            add_scaled_(parameter, gradient, -lr)

    def _candidates(self, group: Group) -> Iterator[Candidate]:
        """The parameters with gradients, and their states, which are empty without momentum."""
        for parameter in group["params"]:
            if parameter.grad is not None:
                yield parameter, parameter.grad, self.state[parameter] if group["momentum"] else {}

    def _with_momentum(
        self, group: Group, parameter: Tensor, gradient: Tensor, momentum: float
    ) -> Tensor:
        """The change of the parameter: the buffer, or with Nesterov's look-ahead the gradient and the buffer."""
        state = self.state[parameter]
        buffer = state.get("momentum_buffer")
        if buffer is None:
            buffer = state["momentum_buffer"] = gradient.detach().clone()
        else:
            buffer.mul_(momentum).add_(gradient, alpha=1 - group["dampening"])
        return gradient.add(buffer, alpha=momentum) if group["nesterov"] else buffer
