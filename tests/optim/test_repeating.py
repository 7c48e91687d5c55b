"""An update is written down once for parameters that are alike and repeated for the others: with the same result, and
only where it is surely the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from test_algorithms import ELEMENTWISE, EVERYTHING

import weft
from weft import optim
from weft.optim import sgd, updating

REPEATING = updating.once_for_all


@contextmanager
def watched(monkeypatch: pytest.MonkeyPatch, repeat: bool) -> Iterator[list[Any]]:
    """The parameters whose update is written down; all of them, unless updates are repeated."""
    seen: list[Any] = []

    def watching(candidates: Any) -> Iterator[Any]:
        for found in REPEATING(candidates) if repeat else candidates:
            seen.append(found[0])
            yield found

    with monkeypatch.context() as patch:
        patch.setattr(updating, "once_for_all", watching)
        patch.setattr(sgd, "once_for_all", watching)
        yield seen


def mixed() -> list[weft.Tensor]:
    """Parameters alike and not: of other shapes and types, views, memory of NumPy's, columns, a number."""
    weft.manual_seed(1)
    base = weft.randn(3, 8)
    given = [weft.randn(2 + i % 3, 4) for i in range(6)]
    given += [weft.randn(3, 4, dtype=weft.float64), weft.randn(5, dtype=weft.bfloat16)]
    given += [weft.tensor(0.3), weft.randn(2, 0), base[:, 2:6], weft.randn(4, 3).T]
    given += [weft.from_numpy(np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4))]
    given += [weft.randn(3, dtype=weft.complex64)]
    return [tensor.requires_grad_() for tensor in given]


def after_steps(name: str, options: dict[str, Any]) -> list[bytes]:
    """Bits of parameters and their states after steps in which some have no gradient."""
    given = mixed()
    optimizer = getattr(optim, name)(given, **options)
    for step in range(4):
        for number, parameter in enumerate(given):
            absent = (number + step) % 5 == 0
            parameter.grad = None if absent else (parameter.detach() * (step - 1.5)).sin()
        optimizer.step()
    found = [parameter.detach() for parameter in given]
    for parameter in given:
        state = optimizer.state[parameter]
        found += [x if isinstance(x, weft.Tensor) else weft.tensor(x) for x in state.values()]
    return [np.asarray(x.clone().contiguous().flatten().tolist()).tobytes() for x in found]


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_repeating_changes_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    options = EVERYTHING.get(name, {})
    with watched(monkeypatch, True) as some:
        found = after_steps(name, options)
    with watched(monkeypatch, False) as every:
        assert after_steps(name, options) == found
    assert len(some) < len(every)


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_repeating_goes_on_where_pending_work_runs_in_the_middle_of_a_step(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What has been written down has run by the time that it is repeated."""

    def running(candidates: Any) -> Iterator[Any]:
        for found in candidates:
            weft.realize()
            yield found

    def early(candidates: Any) -> Iterator[Any]:
        for found in REPEATING(running(candidates)):
            written.append(found[0])
            yield found

    options = EVERYTHING.get(name, {})
    written: list[Any] = []
    with watched(monkeypatch, True) as some:
        expected = after_steps(name, options)
    with monkeypatch.context() as patch:
        patch.setattr(updating, "once_for_all", early)
        patch.setattr(sgd, "once_for_all", early)
        assert after_steps(name, options) == expected
    assert len(written) <= len(some) + 4


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_one_of_many_is_written_down(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given = [weft.randn(1 + i % 3, 4, requires_grad=True) for i in range(20)]
    optimizer = getattr(optim, name)(given, **EVERYTHING.get(name, {}))
    for _ in range(4):
        for parameter in given:
            parameter.grad = weft.randn(*parameter.shape)
        with watched(monkeypatch, True) as seen:
            optimizer.step()
    assert len(seen) == 1
    assert len({parameter._version for parameter in given}) == 1


def test_what_counts_differently_is_written_down_again(monkeypatch: pytest.MonkeyPatch) -> None:
    given = [weft.randn(3, requires_grad=True) for _ in range(6)]
    optimizer = optim.AdamW(given)
    for step in range(3):
        for parameter in given[: 6 if step else 4]:
            parameter.grad = weft.randn(3)
        with watched(monkeypatch, True) as seen:
            optimizer.step()
    assert [number for number, p in enumerate(given) if any(p is x for x in seen)] == [0, 4]


@pytest.mark.parametrize("kind", ["eager", "differentiable", "first step"])
def test_what_is_not_surely_the_same_is_written_down(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    differentiable = kind == "differentiable"
    given = [weft.randn(3, requires_grad=True) for _ in range(4)]
    given = [p.clone() if differentiable else p for p in given]
    optimizer = optim.SGD(given, lr=0.1, momentum=0.9, differentiable=differentiable)
    for parameter in given:
        parameter.grad = weft.randn(3)
    with watched(monkeypatch, True) as seen:
        if kind == "eager":
            with weft.eager():
                optimizer.step()
        else:
            optimizer.step()  # the first step makes the buffers of momentum
    assert len(seen) == 4


def test_parameters_in_pairs_keep_their_own_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the first step of ASGD its mean is the parameter, one value for two tensors, and no longer after that."""
    with watched(monkeypatch, True):
        found = after_steps("ASGD", {"t0": 1})
    with watched(monkeypatch, False):
        assert after_steps("ASGD", {"t0": 1}) == found


def test_a_gradient_in_the_memory_of_its_parameter_changes_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """AdamW shrinks the parameter before it reads the gradient, which here is the same memory."""

    def steps(repeat: bool) -> list[Any]:
        first, second = [weft.arange(1.0, 5.0).requires_grad_() for _ in range(2)]
        optimizer = optim.AdamW([first, second], lr=0.1, weight_decay=0.9)
        for _ in range(3):
            first.grad, second.grad = weft.ones(4), second.detach()
            with watched(monkeypatch, repeat):
                optimizer.step()
        state = optimizer.state[second]
        return [x.tolist() for x in (first, second, state["exp_avg"], state["exp_avg_sq"])]

    assert steps(True) == steps(False)
