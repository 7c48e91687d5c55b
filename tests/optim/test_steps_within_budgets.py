"""A step of an optimizer is recorded as a whole, however little may be pending: it gives the same bits, and what stops
it, or what runs it, leaves no model with half of it."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from small_budgets import NODES, bits, within
from weft import optim
from weft.engine.pipeline import driver, execution

OPTIONS: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.3, "maximize": True}),
    ("Adam", {"lr": 0.1, "foreach": True}),
    ("Adam", {"lr": weft.tensor(0.1), "amsgrad": True, "weight_decay": 0.1}),
    ("AdamW", {"lr": 0.1, "amsgrad": True, "maximize": True}),
    ("Adafactor", {}),
    ("Adadelta", {"weight_decay": 0.1}),
    ("Adagrad", {"lr_decay": 0.1, "initial_accumulator_value": 0.1}),
    ("Adamax", {"weight_decay": 0.1}),
    ("ASGD", {"t0": 2, "weight_decay": 0.1}),
    ("LBFGS", {"lr": 0.1, "max_iter": 3}),
    ("LBFGS", {"max_iter": 4, "line_search_fn": "strong_wolfe"}),
    ("Muon", {"lr": 0.1}),
    ("NAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("RAdam", {"betas": (0.5, 0.9), "weight_decay": 0.1}),
    ("RMSprop", {"centered": True, "momentum": 0.9}),
    ("Rprop", {}),
]
NAMES = [f"{name} {' '.join(options)}".strip() for name, options in OPTIONS]


def test_every_optimizer_is_here() -> None:
    classes = {
        name
        for name in optim.__all__
        if isinstance(getattr(optim, name), type) and name not in ("Optimizer", "SparseAdam")
    }
    assert classes == {name for name, _ in OPTIONS}


class Training:
    """Parameters of several shapes, an optimizer and a schedule."""

    def __init__(self, name: str, options: dict[str, Any]) -> None:
        weft.manual_seed(3)
        shapes = [(3, 4), (3, 4), (5, 4), (3, 4), (6, 2)]
        shapes += [] if name == "Muon" else [(7,), (7,), ()]
        self.parameters = [weft.randn(*shape, requires_grad=True) for shape in shapes]
        self.name, self.options = name, copy.deepcopy(options)  # a schedule writes to rates
        self.optimizer, self.schedule = self.made()

    def made(self) -> tuple[Any, Any]:
        some = self.parameters
        groups = [{"params": some[:3]}, {"params": some[3:], "lr": 0.05}]
        groups = [{"params": some}] if self.name == "LBFGS" else groups
        optimizer = getattr(optim, self.name)(groups, **self.options)
        return optimizer, optim.lr_scheduler.ExponentialLR(optimizer, 0.9)

    def loss(self, step: int) -> Any:
        total = weft.zeros(())
        for number, parameter in enumerate(self.parameters):
            if (step + number) % 4:  # the others have no gradient
                total = total + (parameter - 0.1 * number).square().sum() * (1 + step)
        return total

    def closure(self, step: int) -> Callable[[], Any]:
        def evaluate() -> Any:
            self.optimizer.zero_grad()
            loss = self.loss(step)
            loss.backward()
            return loss

        return evaluate

    def step(self, step: int) -> None:
        if self.name == "LBFGS" or step == 1:
            self.optimizer.step(self.closure(step))
        else:
            self.closure(step)()
            self.optimizer.step()
        self.schedule.step()

    def reload(self) -> None:
        """Go on with another optimizer, that has been given the state of this one."""
        state, rates = self.optimizer.state_dict(), self.schedule.state_dict()
        self.optimizer, self.schedule = self.made()
        self.optimizer.load_state_dict(state)
        self.schedule.load_state_dict(rates)

    def shown(self) -> list[bytes]:
        found = list(self.parameters)
        for parameter in self.parameters:
            state = self.optimizer.state.get(parameter, {})
            found += [entry for entry in state.values() if isinstance(entry, (weft.Tensor, int))]
        return [bits(entry) for entry in found]

    def run(self) -> list[bytes]:
        for step in range(6):
            if step == 3:
                self.reload()
            self.step(step)
        return self.shown()


@pytest.mark.parametrize("nodes", NODES)
@pytest.mark.parametrize(("name", "options"), OPTIONS, ids=NAMES)
def test_steps_are_the_same(name: str, options: dict[str, Any], nodes: int) -> None:
    expected = Training(name, options).run()
    with within(nodes):
        assert Training(name, options).run() == expected


@pytest.mark.parametrize("nodes", NODES)
def test_a_step_runs_when_all_of_it_is_recorded(nodes: int) -> None:
    training = Training("Adam", {})
    for step in range(3):
        training.closure(step)()
        weft.realize()
        before = driver.counters["flushes"]
        with within(nodes):
            training.optimizer.step()
        assert driver.counters["flushes"] == before + 1


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("nodes", [0, 3])
@pytest.mark.parametrize(
    ("name", "options"),
    [pair for pair in OPTIONS if pair[0] != "LBFGS"],
    ids=[name for name in NAMES if "LBFGS" not in name],
)
def test_no_model_makes_half_a_step(
    name: str,
    options: dict[str, Any],
    nodes: int,
    error: type[BaseException],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What keeps a step from running leaves it recorded: it has been made."""
    expected, training = Training(name, options), Training(name, options)
    real, raised = execution.worth_storing, []

    def fail(form: Any) -> bool:
        if len(raised) % 2 == 0:
            raised.append(1)
            raise error
        raised.append(0)
        return bool(real(form))

    for step in range(4):
        expected.closure(step)()
        expected.optimizer.step()
        training.closure(step)()
        weft.realize()
        with within(nodes), monkeypatch.context() as patch:
            patch.setattr(execution, "worth_storing", fail)
            with contextlib.suppress(error):
                training.optimizer.step()
        assert training.shown() == expected.shown()


@pytest.mark.parametrize("where", ["before", "after", "closure"])
@pytest.mark.parametrize("nodes", [0, 3, 100_000])
def test_what_fails_around_a_step_leaves_it_whole(where: str, nodes: int) -> None:
    def fail(*_: Any) -> Any:
        raise ValueError(where)

    training, twin = Training("Adam", {}), Training("Adam", {})
    for step in range(4):
        with within(nodes):
            training.closure(step)()
            optimizer = training.optimizer
            if where == "closure":
                with pytest.raises(ValueError, match=where):
                    optimizer.step(fail)
            else:
                kind = "pre" if where == "before" else "post"
                handle = getattr(optimizer, f"register_step_{kind}_hook")(fail)
                with pytest.raises(ValueError, match=where):
                    optimizer.step()
                handle.remove()
        if where == "after":  # the step has been made
            twin.closure(step)()
            twin.optimizer.step()
        assert training.shown()[: len(training.parameters)] == twin.shown()[: len(twin.parameters)]
    assert np.isfinite(training.loss(0).item())


def with_a_sparse_table() -> list[bytes]:
    """SparseAdam writes to the rows that a step has looked up."""
    weft.manual_seed(3)
    table = weft.nn.Embedding(9, 4, sparse=True)
    optimizer = optim.SparseAdam(table.parameters(), lr=0.1)
    for step in range(5):
        optimizer.zero_grad()
        table(weft.tensor([step, 8, step + 1, 8])).square().sum().backward()
        optimizer.step()
    state = optimizer.state[table.weight]
    return [bits(found) for found in (table.weight, state["exp_avg"], state["exp_avg_sq"])]


def with_all_around_a_step() -> list[bytes]:
    """Scaled losses, of which one overflows, clipped gradients, averages of weights, schedules."""
    training = Training("AdamW", {"amsgrad": True})
    holder = weft.nn.ParameterList(training.parameters)
    average = optim.swa_utils.AveragedModel(holder, avg_fn=lambda a, p, n: a + (p - a) * 0.25)
    scaler = weft.amp.GradScaler("cpu", init_scale=4.0, growth_interval=2)
    scales, norms = [], []
    for step in range(5):
        training.optimizer.zero_grad()
        loss = training.loss(step)
        scaler.scale(loss * (weft.inf if step == 2 else 1.0)).backward()
        scaler.unscale_(training.optimizer)
        norms.append(weft.nn.utils.clip_grad_norm_(training.parameters, 1.0))
        scaler.step(training.optimizer)
        scaler.update()
        training.schedule.step()
        average.update_parameters(holder)
        scales.append(scaler.get_scale())
    assert scales == [4.0, 8.0, 4.0, 4.0, 8.0]
    return [*training.shown(), *map(bits, (*average.parameters(), *norms)), bits(scales)]


@pytest.mark.parametrize("nodes", NODES)
@pytest.mark.parametrize("train", [with_a_sparse_table, with_all_around_a_step])
def test_what_belongs_to_steps_is_the_same(train: Callable[[], list[bytes]], nodes: int) -> None:
    expected = train()
    with within(nodes):
        assert train() == expected
