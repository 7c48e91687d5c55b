"""A step writes parameters and state where they lie; nobody who holds an old value sees that."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import weft
from weft import nn, optim
from weft.config import config
from weft.engine.frontend.resolve import value_of
from weft.engine.pipeline import memory_plan, run_program
from weft.engine.runtime import error_propagation, executable_cache
from weft.testing.tuned import tuned

STEPS = 6
OPTIMIZERS: dict[str, Callable[[Any], optim.Optimizer]] = {
    "AdamW": lambda parameters: optim.AdamW(parameters, lr=1e-2),
    "SGD": lambda parameters: optim.SGD(parameters, lr=1e-2, momentum=0.9),
    "RMSprop": lambda parameters: optim.RMSprop(parameters, lr=1e-2),
}


@pytest.fixture
def fresh_memory() -> Iterator[Callable[[bool], None]]:
    """Calls say whether values get memory of their own from then on."""

    def choose(fresh: bool) -> None:
        executable_cache.clear()
        memory_plan.set_reuse(not fresh)

    yield choose
    choose(False)


class Training:
    """A layer, an optimizer and data; the same at each making."""

    def __init__(self, name: str = "AdamW") -> None:
        weft.manual_seed(0)
        self.layer = nn.Linear(24, 16)
        self.optimizer = OPTIMIZERS[name](self.layer.parameters())
        self.x = weft.randn(8, 24)

    @property
    def weight(self) -> Any:
        return self.layer.weight

    def step(self, x: Any = None) -> None:
        self.optimizer.zero_grad()
        self.layer(self.x if x is None else x).square().mean().backward()
        self.optimizer.step()

    def tensors(self) -> list[Any]:
        """The weight and its state but for counts, which are numbers until they are read."""
        state = self.optimizer.state[self.weight].values()
        return [self.weight, *(e for e in state if isinstance(e, weft.Tensor) and e.dim() != 0)]

    def values(self) -> list[Any]:
        return [tensor.detach().clone().tolist() for tensor in self.tensors()]


def addresses(tensors: list[Any]) -> list[int]:
    return [value_of(tensor).buffer.address + value_of(tensor).offset for tensor in tensors]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_keep_the_memory_and_give_the_bits_of_steps_into_fresh_memory(
    fresh_memory: Callable[[bool], None], name: str
) -> None:
    here, elsewhere = Training(name), Training(name)
    for _ in range(STEPS):
        here.step()
    before = addresses(here.tensors())
    here.step()
    assert addresses(here.tensors()) == before
    fresh_memory(True)
    for _ in range(STEPS + 1):
        elsewhere.step()
    assert here.values() == elsewhere.values()


@pytest.mark.parametrize("read", [lambda w: w * 1.0, lambda w: w.t() + 0.0, lambda w: w @ w.t()])
def test_what_was_computed_from_the_parameter_before_a_step_is_that_of_before(
    read: Callable[[Any], Any],
) -> None:
    """Pending or not: it runs in the same program as the update, and may be needed later only."""
    training = Training()
    for _ in range(STEPS):
        old = training.weight.detach().clone()
        weft.realize(old)
        pending = read(training.weight.detach())
        training.step()
        assert pending.tolist() == read(old).tolist()


def test_a_value_saved_for_a_derivative_is_that_of_before() -> None:
    training = Training()
    for _ in range(STEPS):
        old = training.weight.detach().clone().tolist()
        later = weft.ones(16, 24, requires_grad=True)
        loss = (later * training.weight).sum()
        if _ % 2:
            weft.realize(loss)
        training.step()
        loss.backward(inputs=[later])
        assert later.grad.tolist() == old


def test_handles_and_arrays_that_share_the_parameter_see_the_step() -> None:
    training = Training()
    for _ in range(STEPS):
        training.step()
    alias, row = training.weight.detach(), training.weight.data[2]
    state = training.layer.state_dict()["weight"]
    array = training.weight.detach().numpy()
    training.step()
    expected = training.weight.tolist()
    assert alias.tolist() == state.tolist() == array.tolist() == expected
    assert row.tolist() == expected[2]


def test_a_copy_of_the_state_keeps_its_values() -> None:
    training = Training()
    for _ in range(STEPS):
        training.step()
    copy = {key: value.clone() for key, value in training.layer.state_dict().items()}
    lazy, expected = training.weight.detach().clone(), training.weight.tolist()
    training.step()
    assert copy["weight"].tolist() == lazy.tolist() == expected
    assert training.weight.tolist() != expected


def test_a_step_on_a_gradient_that_fails_changes_nothing() -> None:
    """The program is known by then, and overwrites where nothing can fail."""
    training = Training()
    table = weft.randn(5, 24)

    def look_up(number: int) -> Any:
        return weft.take(table, (weft.full((8, 24), number) * 1).long())  # pending, so not seen yet

    for _ in range(STEPS):
        training.step(look_up(3))
    before = training.values()
    with pytest.raises(IndexError):
        training.step(look_up(500))
    assert training.values() == before
    training.step(look_up(3))
    assert training.values() != before


def test_two_parameters_of_one_value_part() -> None:
    """Their storages show one value until the first step, which neither may overwrite for the other."""
    weft.manual_seed(0)
    value = weft.randn(16, 24)
    first, second = nn.Parameter(value.clone()), nn.Parameter(value.clone())
    optimizer = optim.AdamW([first, second], lr=1e-2)
    for _ in range(STEPS):
        optimizer.zero_grad()
        ((first * 2).square().mean() + (second - 1).square().mean()).backward()
        optimizer.step()
    alone = nn.Parameter(value.clone())
    single = optim.AdamW([alone], lr=1e-2)
    for _ in range(STEPS):
        single.zero_grad()
        (alone - 1).square().mean().backward()
        single.step()
    assert np.array_equal(second.detach().numpy(), alone.detach().numpy())


def test_a_signal_behind_the_update_does_not_run_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noting a program down looks at signals; what it has overwritten is handed over all the same."""
    monkeypatch.setattr(config, "interpreter", "none")
    training, twin = Training(), Training()
    raised = []

    def stop(*_: Any) -> None:
        raised.append(1)
        raise KeyboardInterrupt

    for _ in range(STEPS):
        twin.step()
        executable_cache.clear()
        # no kernel is taken apart, so each program is noted down
        with tuned("tiering", uses=1), monkeypatch.context() as patch:
            patch.setattr(run_program, "worth_storing", lambda form: True)
            patch.setattr(run_program, "store", stop)
            with pytest.raises(KeyboardInterrupt):
                training.step()
    assert len(raised) >= STEPS
    assert training.values() == twin.values()


def test_a_signal_while_failures_are_looked_for_does_not_run_the_update_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After any failure in the process this is interpreted code, where signals are handled."""
    with pytest.raises(IndexError):
        weft.take(weft.randn(4), (weft.full((2,), 9) * 1).long()).tolist()
    training, twin, real = Training(), Training(), error_propagation.poison
    for _ in range(STEPS):
        calls: list[int] = []

        def stopped(*operands: Any, calls: list[int] = calls) -> Any:
            calls.append(1)
            if len(calls) == 1:
                raise KeyboardInterrupt
            return real(*operands)

        twin.step()
        executable_cache.clear()
        with monkeypatch.context() as patch:
            patch.setattr(error_propagation, "poison", stopped)
            patch.setattr(config, "interpreter", "none")  # calls of kernels fail by themselves
            with pytest.raises(KeyboardInterrupt):
                training.step()
    assert training.values() == twin.values()
