"""Averages of a model's weights over its training: stochastic weight averaging (Izmailov et al. 2018) and exponential
moving averages.

The average of a trained model is a copy of it with averaged parameters; there are a schedule for the phase in which
they are taken, and fresh statistics for the copy's batch norms.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any

import weft
from weft import Tensor
from weft._typing import DeviceLike
from weft.engine.api.api_function import publish
from weft.errors import ArgumentError, AssertedError
from weft.nn.module.module import Module
from weft.nn.modules.normalization import _BatchNorm
from weft.optim.lr_scheduler.base import LRScheduler, for_each_group
from weft.optim.optimizer import Optimizer

__all__ = [
    "SWALR", "AveragedModel", "get_ema_avg_fn", "get_ema_multi_avg_fn", "get_swa_avg_fn", "get_swa_multi_avg_fn",
    "update_bn",
]  # fmt: skip

Average = Callable[[Tensor, Tensor, Any], Tensor]
Averages = Callable[[Any, Any, Any], None]


def _check_decay(decay: float) -> None:
    if not 0.0 <= decay <= 1.0:
        raise ArgumentError(
            f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.",
            expected="a number between 0 and 1",
            got=repr(decay),
            fix="0.999 is usual",
        )


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """A function of an average and a new value: decay * average + (1 - decay) * value."""
    _check_decay(decay)

    def average(ema_param: Tensor, current_param: Tensor, num_averaged: Tensor) -> Tensor:
        return ema_param * decay + current_param * (1 - decay)

    return average


def get_swa_avg_fn() -> Average:
    """A function of the mean of `num_averaged` values and a new value: the mean of all."""

    def average(averaged_param: Tensor, current_param: Tensor, num_averaged: Tensor) -> Tensor:
        return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return average


def _in_place(average: Average) -> Averages:
    def update(averages: list[Tensor], values: list[Tensor], num_averaged: object) -> None:
        with weft.no_grad():
            for held, value in zip(averages, values, strict=True):
                held.copy_(average(held, value, num_averaged))

    return update


def get_ema_multi_avg_fn(decay: float = 0.999) -> Averages:
    """`get_ema_avg_fn` for lists of tensors, in place."""
    return _in_place(get_ema_avg_fn(decay))


def get_swa_multi_avg_fn() -> Averages:
    """`get_swa_avg_fn` for lists of tensors, in place."""
    return _in_place(get_swa_avg_fn())


class AveragedModel(Module):
    """A copy of a model whose parameters are averages of the model's; `update_parameters(model)` takes them in.

    `avg_fn` averages one tensor, `multi_avg_fn` lists of them in place; without either all count the same. Buffers are
    averaged with `use_buffers=True`, else copied.
    """

    def __init__(
        self,
        model: Module,
        device: DeviceLike | None = None,
        avg_fn: Average | None = None,
        multi_avg_fn: Averages | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertedError(
                "Only one of avg_fn and multi_avg_fn should be provided",
                expected="avg_fn or multi_avg_fn",
                got="both",
                fix="leave one out",
            )
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", weft.tensor(0, dtype=weft.int64))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The averaged model's result.

        Args:
            *args: the arguments of the model.
            **kwargs: the same by name.
        """
        return self.module(*args, **kwargs)

    def _averaged(self, model: Module) -> list[Tensor]:
        """The averaged tensors of the model or of its copy, in the same order for both."""
        buffers = model.buffers() if self.use_buffers else ()
        return [tensor.detach() for tensor in itertools.chain(model.parameters(), buffers)]

    def update_parameters(self, model: Module) -> None:
        """Take the model's parameters into the averages; the first time they are the averages."""
        averages, values = self._averaged(self.module), self._averaged(model)
        if int(self.n_averaged) == 0:
            for held, value in zip(averages, values, strict=True):
                held.copy_(value)
        else:
            update = self.multi_avg_fn or _in_place(self.avg_fn or get_swa_avg_fn())
            update(averages, values, self.n_averaged)
        if not self.use_buffers:
            for held, value in zip(self.module.buffers(), model.buffers(), strict=True):
                held.detach().copy_(value.detach())
        self.n_averaged += 1
        weft.realize()


def update_bn(loader: Iterable[Any], model: Module, device: DeviceLike | None = None) -> None:
    """Compute the running statistics of a model's batch norms anew, in one pass over the data.

    Of batches that are lists or tuples the first entry is the model's input.
    """
    norms: list[Any] = [module for module in model.modules() if isinstance(module, _BatchNorm)]
    if not norms:
        return
    momenta, was_training = [norm.momentum for norm in norms], model.training
    model.train()
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None
    with weft.no_grad():
        for batch in loader:
            inputs = batch[0] if isinstance(batch, list | tuple) else batch
            model(inputs if device is None else inputs.to(device))
            weft.realize()
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """Brings the rates to `swa_lr` within `anneal_epochs` and leaves them there."""

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float,
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        rates = for_each_group(optimizer, swa_lr, "swa_lr")
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ArgumentError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}",
                expected="'cos' or 'linear'",
                got=repr(anneal_strategy),
                fix="use anneal_strategy='cos'",
            )
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ArgumentError(
                f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}",
                expected="an integer >= 0",
                got=repr(anneal_epochs),
                fix="0 switches at once",
            )
        self.anneal_epochs, self._anneal_strategy = anneal_epochs, anneal_strategy
        super().__init__(optimizer, last_epoch)

    def _share(self, step: int) -> float:
        """The fraction of the annealing that is done after `step` steps."""
        done = max(0.0, min(1.0, step / max(1, self.anneal_epochs)))
        return done if self._anneal_strategy == "linear" else (1 - math.cos(math.pi * done)) / 2

    def get_lr(self) -> list[float]:
        """The rates now: those of before, freed of what the last step mixed in, mixed anew."""
        self._warn_outside_step()
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        previous, share = self._share(step - 1), self._share(step)
        rates = []
        for group in self.optimizer.param_groups:
            end, rate = group["swa_lr"], group["lr"]
            start = end if previous == 1 else (rate - previous * end) / (1 - previous)
            rates.append(end * share + start * (1 - share))
        return rates


publish(globals())
del publish
