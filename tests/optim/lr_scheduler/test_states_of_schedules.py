"""The states of schedules and optimizers: PyTorch's keys, and PyTorch's states go on here as they do there."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import weft
from oracle import torch

SCHEDULES: dict[str, dict[str, Any]] = {
    "LambdaLR": {"lr_lambda": lambda epoch: 0.9**epoch},
    "MultiplicativeLR": {"lr_lambda": lambda epoch: 0.9},
    "StepLR": {"step_size": 2},
    "MultiStepLR": {"milestones": [1, 3]},
    "ConstantLR": {},
    "LinearLR": {},
    "ExponentialLR": {"gamma": 0.9},
    "CosineAnnealingLR": {"T_max": 5},
    "PolynomialLR": {},
    "ReduceLROnPlateau": {"patience": 1},
    "CyclicLR": {"base_lr": 0.01, "max_lr": 0.1, "step_size_up": 2},
    "CosineAnnealingWarmRestarts": {"T_0": 3},
    "OneCycleLR": {"max_lr": 0.2, "total_steps": 10},
}
OPTIMIZERS = (
    *(
        "ASGD",
        "Adadelta",
        "Adafactor",
        "Adagrad",
        "Adam",
        "AdamW",
        "Adamax",
        "LBFGS",
        "NAdam",
        "RAdam",
        "RMSprop",
    ),
    *("Rprop", "SGD", "Muon"),
)


def _pair(T: Any, name: str, kind: str, **options: Any) -> tuple[Any, Any]:
    momentum = {"momentum": 0.9} if kind == "SGD" else {}
    optimizer = getattr(T.optim, kind)([T.nn.Parameter(T.ones(3))], lr=0.1, **momentum)
    return optimizer, getattr(T.optim.lr_scheduler, name)(optimizer, **SCHEDULES[name], **options)


def _go_on(optimizer: Any, schedule: Any, steps: int) -> list[Any]:
    """The rates and momenta after each step."""
    seen = []
    for _ in range(steps):
        optimizer.step()
        schedule.step(*((1.0,) if type(schedule).__name__ == "ReduceLROnPlateau" else ()))
        group = optimizer.param_groups[0]
        seen += [group["lr"], group.get("momentum", 0.0), *group.get("betas", ())]
    return seen


CASES = [(name, kind, {}) for name in SCHEDULES for kind in ("SGD", "Adam")]
CASES += [
    ("OneCycleLR", "SGD", {"three_phase": True}),
    ("OneCycleLR", "SGD", {"cycle_momentum": False}),
]
CASES += [("OneCycleLR", "Adam", {"anneal_strategy": "linear", "div_factor": 10})]


@pytest.mark.parametrize(("name", "kind", "options"), CASES)
def test_states_of_schedules_are_pytorchs(name: str, kind: str, options: dict[str, Any]) -> None:
    ours, theirs = (_pair(T, name, kind, **options) for T in (weft, torch))
    assert _go_on(*ours, 3) == pytest.approx(_go_on(*theirs, 3), rel=1e-12)
    mine, wanted = ours[1].state_dict(), theirs[1].state_dict()
    assert set(mine) == set(wanted)
    assert {key: repr(mine[key]) for key in mine} == {key: repr(wanted[key]) for key in wanted}
    assert set(ours[0].param_groups[0]) == set(theirs[0].param_groups[0])

    resumed = _pair(weft, name, kind, **options)
    groups = [{**group, "params": [0]} for group in theirs[0].state_dict()["param_groups"]]
    resumed[0].load_state_dict({"state": {}, "param_groups": groups})
    resumed[1].load_state_dict(wanted)
    assert _go_on(*resumed, 5) == pytest.approx(_go_on(*theirs, 5), rel=1e-12)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_states_of_optimizers_have_pytorchs_keys(name: str) -> None:
    states = []
    for T in (weft, torch):
        parameter = T.nn.Parameter(T.ones(3, 3))
        optimizer = getattr(T.optim, name)([parameter], lr=0.1)

        def loss(optimizer: Any = optimizer, parameter: Any = parameter) -> Any:
            optimizer.zero_grad()
            value = (parameter**2).sum()
            value.backward()
            return value

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            optimizer.step(loss)
        states.append(optimizer.state_dict())
    mine, wanted = states
    assert set(mine) == set(wanted)
    assert set(mine["param_groups"][0]) == set(wanted["param_groups"][0])
    assert set(mine["state"].get(0, {})) == set(wanted["state"].get(0, {}))
