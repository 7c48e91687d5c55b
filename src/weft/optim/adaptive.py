"""Steps scaled by each parameter's own past: Adagrad (Duchi et al. 2011), Adadelta (Zeiler 2012), RMSprop (Hinton's
lectures; centred after Graves 2013), Adamax (Kingma and Ba 2015), Rprop (Riedmiller and Braun 1993)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import weft
from weft import Tensor
from weft.nn.parameter import need_shape
from weft.optim.checks import (
    check_betas,
    check_fused,
    check_not_negative,
    check_number,
    check_rate,
    need_pair,
    options,
)
from weft.optim.counted_state import CountedState
from weft.optim.optimizer import Group, Optimizer
from weft.optim.updating import (
    add_quotient_,
    add_scaled_,
    blend_,
    blend_square_,
    decayed,
    number,
    refuse_sparse,
    updates,
)

if TYPE_CHECKING:
    from weft._typing import Parameters
    from weft.sparse.tensor import SparseTensor


class Adagrad(Optimizer):
    """Steps by the gradient over the root of the sum of all its squares."""

    _counts = ("step",)

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        defaults = options(locals())
        check_rate(lr)
        check_not_negative(
            lr__decay_value=lr_decay,
            weight__decay_value=weight_decay,
            initial__accumulator__value_value=initial_accumulator_value,
            epsilon_value=eps,
        )
        check_fused(fused, foreach, differentiable)
        super().__init__(params, defaults)
        for group in self.param_groups:
            for parameter in group["params"]:
                self.state[parameter] = CountedState(
                    self._counts, {"step": 0, **self._start(parameter)}
                )

    def _start(self, parameter: Tensor) -> Group:
        need_shape("Adagrad", parameter)
        value: Any = self.defaults["initial_accumulator_value"]
        if parameter.is_complex():
            value = complex(value, value)
        return {"sum": weft.full_like(parameter.detach(), value)}

    def share_memory(self) -> None:
        """Move the sums of squares to memory that processes share; each counts its own steps."""
        for state in self.state.values():
            state["sum"].share_memory_()

    def _update_group(self, group: Group) -> None:
        lr, decay = number(group, "lr"), number(group, "weight_decay")
        for parameter, gradient, state, _ in updates(
            self, group, self._start, True, by_element=True
        ):
            rate = lr / (1 + (state["step"] - 1) * group["lr_decay"])
            if gradient.is_sparse:
                _adagrad_rows(parameter, gradient, state["sum"], rate, group)
                continue
            gradient = decayed(gradient, parameter, decay)
            total = state["sum"].addcmul_(gradient, gradient, value=1)
            add_quotient_(parameter, gradient, total.sqrt().add_(group["eps"]), -rate)


def _adagrad_rows(
    parameter: Tensor, gradient: SparseTensor, total: Tensor, rate: float, group: Group
) -> None:
    """The update of the entries that a sparse gradient has. Errors: RuntimeError for weight decay, which has all."""
    if group["weight_decay"] != 0:
        raise refuse_sparse("weight_decay")
    gradient = gradient.coalesce()  # the square of a sum is not the sum of squares
    places, values = tuple(gradient._indices()), gradient._values()
    sums = total[places] + values.square()
    total.index_put_(places, sums)
    change = values / (sums.sqrt() + group["eps"]) * -rate
    parameter.index_put_(places, change, accumulate=True)


class Adadelta(Optimizer):
    """Steps by the gradient times the root mean square of past steps over that of past gradients."""

    _counts = ("step",)

    def __init__(
        self,
        params: Parameters,
        lr: float = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        defaults = options(locals())
        check_rate(lr)
        check_number("rho value", rho, "in [0, 1]", lambda share: 0.0 <= share <= 1.0)
        check_not_negative(epsilon_value=eps, weight__decay_value=weight_decay)
        super().__init__(params, defaults)

    def _update_group(self, group: Group) -> None:
        lr, rho, eps = number(group, "lr"), group["rho"], group["eps"]
        decay = number(group, "weight_decay")
        for parameter, gradient, state, _ in updates(self, group, _start_adadelta, by_element=True):
            gradient = decayed(gradient, parameter, decay)
            squares, changes = state["square_avg"], state["acc_delta"]
            blend_square_(squares, gradient, rho)
            change = (changes + eps).sqrt() / (squares + eps).sqrt() * gradient
            blend_square_(changes, change, rho)
            add_scaled_(parameter, change, -lr)


def _start_adadelta(parameter: Tensor) -> Group:
    return {name: weft.zeros_like(parameter) for name in ("square_avg", "acc_delta")}


class RMSprop(Optimizer):
    """Steps by the gradient over the root of the running mean of its square, or of its variance."""

    _counts = ("step",)

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        defaults = options(locals())
        check_rate(lr)
        check_not_negative(
            epsilon_value=eps,
            momentum_value=momentum,
            weight__decay_value=weight_decay,
            alpha_value=alpha,
        )
        super().__init__(params, defaults)

    def _update_group(self, group: Group) -> None:
        lr, decay = number(group, "lr"), number(group, "weight_decay")
        alpha, momentum = group["alpha"], group["momentum"]
        names = ["square_avg"] + ["momentum_buffer"] * (momentum > 0)
        names += ["grad_avg"] * group["centered"]

        def start(parameter: Tensor) -> Group:
            return {name: weft.zeros_like(parameter) for name in names}

        for parameter, gradient, state, _ in updates(self, group, start, by_element=True):
            gradient = decayed(gradient, parameter, decay)
            spread = blend_square_(state["square_avg"], gradient, alpha)
            if group["centered"]:
                mean = blend_(state["grad_avg"], gradient, 1 - alpha)
                spread = spread.addcmul(mean, mean, value=-1)
            root = spread.sqrt() + group["eps"]
            if momentum > 0:
                buffer = state["momentum_buffer"].mul_(momentum).addcdiv_(gradient, root)
                add_scaled_(parameter, buffer, -lr)
            else:
                add_quotient_(parameter, gradient, root, -lr)


class Adamax(Optimizer):
    """Adam with the largest recent gradient in the place of the root mean square."""

    _counts = ("step",)

    def __init__(
        self,
        params: Parameters,
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        defaults = options(locals())
        check_rate(lr)
        check_not_negative(epsilon_value=eps, weight__decay_value=weight_decay)
        check_betas(betas)
        super().__init__(params, defaults)

    def _update_group(self, group: Group) -> None:
        lr, (beta1, beta2) = number(group, "lr"), group["betas"]
        decay = number(group, "weight_decay")
        for parameter, gradient, state, _ in updates(self, group, _start_adamax, by_element=True):
            gradient = decayed(gradient, parameter, decay)
            mean = blend_(state["exp_avg"], gradient, 1 - beta1)
            largest = state["exp_inf"]
            largest.copy_(weft.maximum(largest * beta2, gradient.abs() + group["eps"]))
            add_quotient_(parameter, mean, largest, -lr / (1 - beta1 ** state["step"]))


def _start_adamax(parameter: Tensor) -> Group:
    return {name: weft.zeros_like(parameter) for name in ("exp_avg", "exp_inf")}


class Rprop(Optimizer):
    """Steps by the sign of the gradient alone; a step grows while the sign stays and shrinks when it turns."""

    _counts = ("step",)

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        defaults = options(locals())
        check_rate(lr)
        need_pair("etas", etas)
        need_pair("step_sizes", step_sizes)
        low, high = etas
        check_number(
            "eta values",
            etas,
            "(below 1, above 1)",
            lambda _: 0.0 < low < 1.0 < high,
            f"Invalid eta values: {low}, {high}",
        )
        super().__init__(params, defaults)

    def _update_group(self, group: Group) -> None:
        (shrink, grow), (least, most) = group["etas"], group["step_sizes"]

        def start(parameter: Tensor) -> Group:
            lr: Any = float(group["lr"])
            size = complex(lr, lr) if parameter.is_complex() else lr
            found = parameter.detach()
            return {"prev": weft.zeros_like(found), "step_size": weft.full_like(found, size)}

        for parameter, gradient, state, _ in updates(self, group, start, by_element=True):
            agreement = gradient * state["prev"]
            sizes, turned = state["step_size"], agreement < 0
            sizes.copy_(
                weft.where(
                    agreement > 0, sizes * grow, weft.where(turned, sizes * shrink, sizes)
                ).clamp(least, most)
            )
            gradient = weft.where(turned, 0.0, gradient)
            parameter.addcmul_(gradient.sign(), sizes, value=-1)
            state["prev"].copy_(gradient)
