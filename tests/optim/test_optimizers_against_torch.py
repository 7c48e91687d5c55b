"""Optimizers and schedules give PyTorch's numbers on the same parameters and gradients."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from oracle import torch
from weft.optim import SGD, Adam, AdamW, lr_scheduler

ALGORITHMS = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.01}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    ("SGD", {"lr": 0.1, "weight_decay": 0.1, "maximize": True}),
    ("Adam", {}),
    ("Adam", {"lr": 0.05, "betas": (0.5, 0.9), "eps": 1e-3, "weight_decay": 0.1}),
    ("Adam", {"lr": 0.05, "amsgrad": True}),
    ("Adam", {"lr": 0.05, "maximize": True}),
    ("Adam", {"lr": 0.05, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("AdamW", {}),
    ("AdamW", {"lr": 0.05, "weight_decay": 0.2, "amsgrad": True}),
    ("AdamW", {"lr": 0.05, "maximize": True}),
]
CLASSES = {"SGD": SGD, "Adam": Adam, "AdamW": AdamW}


def arrays(seed: int) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    return [random.standard_normal(shape).astype(np.float32) for shape in ((3, 2), (4,), ())]


def pair(name: str, options: dict) -> tuple:
    ours = [weft.tensor(a, requires_grad=True) for a in arrays(0)]
    theirs = [torch.tensor(a, requires_grad=True) for a in arrays(0)]
    return (
        ours,
        theirs,
        CLASSES[name](ours, **options),
        getattr(torch.optim, name)(theirs, **options),
    )


@pytest.mark.parametrize(("name", "options"), ALGORITHMS)
def test_ten_steps_agree(name: str, options: dict) -> None:
    ours, theirs, optimizer, oracle = pair(name, options)
    for step in range(10):
        for own, other, gradient in zip(ours, theirs, arrays(step + 1), strict=True):
            own.grad, other.grad = weft.tensor(gradient), torch.tensor(gradient)
        if step == 4:  # a parameter without gradient is left alone
            ours[1].grad = theirs[1].grad = None
        optimizer.step()
        oracle.step()
        for own, other in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(
                own.detach().numpy(), other.detach().numpy(), rtol=2e-5, atol=1e-6
            )


@pytest.mark.parametrize("eps", [1e-7, 1e-6, 1e-4])
@pytest.mark.parametrize("amsgrad", [False, True])
def test_a_small_eps_counts_in_float16(eps: float, amsgrad: bool) -> None:
    ours, theirs = (
        library.zeros(4, dtype=library.float16, requires_grad=True) for library in (weft, torch)
    )
    optimizer = Adam([ours], lr=0.01, eps=eps, amsgrad=amsgrad)
    oracle = torch.optim.Adam([theirs], lr=0.01, eps=eps, amsgrad=amsgrad)
    gradient = np.array([0.0, 1e-3, -0.1, 1.0], np.float16)
    for _ in range(3):
        ours.grad, theirs.grad = weft.tensor(gradient), torch.tensor(gradient)
        optimizer.step()
        oracle.step()
    np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=4e-3)


@pytest.mark.parametrize(("name", "options"), ALGORITHMS)
def test_defaults_and_groups_agree(name: str, options: dict) -> None:
    _, _, optimizer, oracle = pair(name, options)
    group, other = optimizer.param_groups[0], oracle.param_groups[0]
    shared = set(group) - {"params"}
    assert {key: group[key] for key in shared} == {key: other[key] for key in shared}
    assert set(other) == set(group)


SCHEDULES = [
    ("StepLR", {"step_size": 3, "gamma": 0.5}),
    ("MultiStepLR", {"milestones": [2, 5, 5], "gamma": 0.3}),
    ("ConstantLR", {"factor": 0.25, "total_iters": 4}),
    ("LinearLR", {"start_factor": 0.1, "total_iters": 6}),
    ("ExponentialLR", {"gamma": 0.9}),
    ("PolynomialLR", {"total_iters": 7, "power": 2.0}),
    ("CosineAnnealingLR", {"T_max": 5, "eta_min": 0.01}),
    ("CosineAnnealingWarmRestarts", {"T_0": 3, "T_mult": 2, "eta_min": 0.01}),
    ("LambdaLR", {"lr_lambda": lambda epoch: 1 / (epoch + 1)}),
    ("MultiplicativeLR", {"lr_lambda": lambda epoch: 1 - epoch / 50}),
    ("OneCycleLR", {"max_lr": 0.7, "total_steps": 20}),
    ("OneCycleLR", {"max_lr": 0.7, "epochs": 4, "steps_per_epoch": 5, "three_phase": True}),
    ("OneCycleLR", {"max_lr": 0.7, "total_steps": 20, "anneal_strategy": "linear"}),
]


@pytest.mark.parametrize(("name", "options"), SCHEDULES)
@pytest.mark.parametrize("algorithm", ["SGD", "Adam"])
def test_schedules_agree(name: str, options: dict, algorithm: str) -> None:
    setting = {"lr": 0.5, "momentum": 0.9} if algorithm == "SGD" else {"lr": 0.5}
    _, _, optimizer, oracle = pair(algorithm, setting)
    ours = getattr(lr_scheduler, name)(optimizer, **options)
    theirs = getattr(torch.optim.lr_scheduler, name)(oracle, **options)
    for _ in range(15):
        optimizer.step()
        oracle.step()
        ours.step()
        theirs.step()
        assert ours.get_last_lr() == pytest.approx(theirs.get_last_lr(), rel=1e-9, abs=1e-15)
        for key in {"momentum", "betas"} & set(optimizer.param_groups[0]):
            assert optimizer.param_groups[0][key] == pytest.approx(oracle.param_groups[0][key])


@pytest.mark.parametrize("mode", ["min", "max"])
@pytest.mark.parametrize("threshold_mode", ["rel", "abs"])
def test_plateau_agrees(mode: str, threshold_mode: str) -> None:
    _, _, optimizer, oracle = pair("SGD", {"lr": 1.0})
    options = {"mode": mode, "threshold_mode": threshold_mode, "patience": 1, "cooldown": 1}
    ours = lr_scheduler.ReduceLROnPlateau(optimizer, min_lr=1e-4, threshold=0.05, **options)
    theirs = torch.optim.lr_scheduler.ReduceLROnPlateau(
        oracle, min_lr=1e-4, threshold=0.05, **options
    )
    falling = [3, 2, 2, 2.01, 1.99, 2, 2, 2, 1, 1, -1, -1, -0.99, -1.02, -1, -1, -1, -1, -1]
    growing = [1.5 * 1.02**epoch for epoch in range(9)] + [-2, float("nan"), 4, float("inf"), 5, 5]
    for value in falling + growing:
        ours.step(value)
        theirs.step(value)
        assert optimizer.param_groups[0]["lr"] == pytest.approx(oracle.param_groups[0]["lr"])


def test_schedules_in_sequence_and_chained_agree() -> None:
    _, _, optimizer, oracle = pair("SGD", {"lr": 1.0})
    rates = []
    for module, opt in ((lr_scheduler, optimizer), (torch.optim.lr_scheduler, oracle)):
        warm = module.LinearLR(opt, start_factor=0.1, total_iters=3)
        cool = module.ExponentialLR(opt, gamma=0.5)
        schedule = module.SequentialLR(opt, [warm, cool], milestones=[4])
        seen = []
        for _ in range(8):
            opt.step()
            schedule.step()
            seen.append(schedule.get_last_lr()[0])
        rates.append(seen)
    assert rates[0] == pytest.approx(rates[1])
    _, _, optimizer, oracle = pair("SGD", {"lr": 1.0})
    rates = []
    for module, opt in ((lr_scheduler, optimizer), (torch.optim.lr_scheduler, oracle)):
        schedule = module.ChainedScheduler(
            [module.ConstantLR(opt, factor=0.1, total_iters=2), module.StepLR(opt, 3)]
        )
        seen = []
        for _ in range(8):
            opt.step()
            schedule.step()
            seen.append(schedule.get_last_lr()[0])
        rates.append(seen)
    assert rates[0] == pytest.approx(rates[1])
