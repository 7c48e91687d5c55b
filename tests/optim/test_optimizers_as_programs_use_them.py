"""What packages that subclass optimizers and schedules rely on, with PyTorch's beside them."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import weft
from oracle import torch

BOTH = pytest.mark.parametrize("lib", [weft, torch], ids=["weft", "torch"])


def parameter(lib: Any) -> Any:
    """One parameter of two ones."""
    return lib.nn.Parameter(lib.ones(2))


@BOTH
def test_loading_asks_the_class(lib: Any) -> None:
    """`load_state_dict` goes through `__setstate__`, where classes add options that older states lack."""

    class WithFlag(lib.optim.SGD):  # type: ignore[misc,name-defined]
        def __setstate__(self, state: Any) -> None:
            super().__setstate__(state)
            for group in self.param_groups:
                group.setdefault("flag", 7)

    saved = lib.optim.SGD([parameter(lib)], 0.1).state_dict()
    optimizer = WithFlag([parameter(lib)], 0.5)
    optimizer.load_state_dict(saved)
    assert optimizer.param_groups[0]["flag"] == 7
    assert optimizer.param_groups[0]["lr"] == 0.1


@BOTH
def test_what_hooks_of_steps_are_given(lib: Any) -> None:
    """The positional arguments of a step begin with the optimizer."""
    optimizer, seen = lib.optim.SGD([parameter(lib)], 0.1), []
    optimizer.register_step_pre_hook(lambda o, args, kwargs: seen.append((args, kwargs)))
    optimizer.register_step_post_hook(lambda o, args, kwargs: seen.append((args, kwargs)))
    optimizer.step()
    assert seen == [((optimizer,), {}), ((optimizer,), {})]


@BOTH
def test_a_hook_may_change_the_arguments(lib: Any) -> None:
    """What a hook before a step returns takes the place of all positional arguments."""
    optimizer, calls = lib.optim.SGD([parameter(lib)], 0.1), []
    optimizer.register_step_pre_hook(
        lambda o, args, kwargs: ((o, lambda: calls.append(1) or lib.ones(())), kwargs)
    )
    assert float(optimizer.step()) == 1.0 and calls == [1]


@BOTH
def test_groups_without_parameters(lib: Any) -> None:
    """The error of a group that has no 'params' is PyTorch's KeyError."""
    with pytest.raises(KeyError, match="params"):
        lib.optim.SGD([{"lr": 0.1}], 0.1)


@BOTH
def test_rates_know_that_a_step_asks(lib: Any) -> None:
    """Within a step `_get_lr_called_within_step` is true, so that schedules of packages do not warn."""
    seen = []

    class Halved(lib.optim.lr_scheduler.LRScheduler):  # type: ignore[misc,name-defined]
        def get_lr(self) -> list[float]:
            seen.append(self._get_lr_called_within_step)
            return [group["lr"] / 2 for group in self.optimizer.param_groups]

    optimizer = lib.optim.SGD([parameter(lib)], 1.0)
    schedule = Halved(optimizer)
    optimizer.step()
    schedule.step()
    schedule.get_lr()
    assert seen == [True, True, False] and schedule.get_last_lr() == [0.25]


@BOTH
def test_a_schedule_that_goes_first(lib: Any) -> None:
    """The warning has the words that programs filter by."""
    schedule = lib.optim.lr_scheduler.StepLR(lib.optim.SGD([parameter(lib)], 0.1), 1)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        schedule.step()
    assert "In PyTorch 1.1.0 and later, you should call them in the opposite order" in str(
        found[0].message
    )


@BOTH
def test_the_numbers_of_a_scaler(lib: Any) -> None:
    """Its growth, backoff and interval can be asked for and set."""
    scaler = lib.amp.GradScaler("cpu", growth_factor=3.0, backoff_factor=0.25, growth_interval=5)
    names = "growth_factor", "backoff_factor", "growth_interval"
    assert [getattr(scaler, f"get_{name}")() for name in names] == [3.0, 0.25, 5]
    for name, value in zip(names, (4.0, 0.5, 6), strict=True):
        getattr(scaler, f"set_{name}")(value)
    assert [scaler.state_dict()[name] for name in names] == [4.0, 0.5, 6]


@BOTH
def test_lbfgs_steps_where_no_gradient_is_flat_enough(lib: Any) -> None:
    """The gradient is zero, and the tolerance below zero: the first size is that of the rate."""
    weight = parameter(lib)
    optimizer = lib.optim.LBFGS([weight], tolerance_grad=-float("inf"))

    def closure() -> Any:
        optimizer.zero_grad()
        loss = (weight * 0.0).sum()
        loss.backward()
        return loss

    assert isinstance(optimizer.step(closure), lib.Tensor)
    assert weight.tolist() == [1.0, 1.0]


@BOTH
def test_nadam_is_differentiable_through_its_product(lib: Any) -> None:
    weight = lib.nn.Parameter(lib.ones(2)).clone()
    weight.grad = lib.tensor([1.0, -2.0])
    optimizer = lib.optim.NAdam([lib.ones(2).requires_grad_()], lr=0.5, differentiable=True)
    optimizer.param_groups[0]["params"] = [weight]
    product = lib.tensor(0.9, requires_grad=True)
    optimizer.state[weight] = {
        "step": lib.tensor(3.0) if lib is torch else 3,
        "mu_product": product.clone(),
        **{name: lib.zeros(2) for name in ("exp_avg", "exp_avg_sq")},
    }
    optimizer.step()
    (weight * lib.tensor([1.0, 3.0])).sum().backward()
    assert float(product.grad) == pytest.approx(1.42588, rel=1e-3)
