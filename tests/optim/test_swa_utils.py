"""Averaged models, their schedule and the cyclic schedule against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from oracle import torch
from weft.optim import SGD, Adam, lr_scheduler, swa_utils

torch_swa = torch.optim.swa_utils


def nets() -> tuple:
    made = []
    for lib in (weft, torch):
        net = lib.nn.Sequential(lib.nn.Linear(3, 4), lib.nn.BatchNorm1d(4), lib.nn.Linear(4, 2))
        random = np.random.default_rng(0)
        with lib.no_grad():
            for parameter in net.parameters():
                values = random.standard_normal(tuple(parameter.shape)).astype(np.float32)
                parameter.copy_(lib.tensor(values))
        made.append(net)
    return tuple(made)


def drift(lib: object, net: object, step: int) -> None:
    """Change parameters and buffers as training would."""
    random = np.random.default_rng(step)
    with lib.no_grad():
        for parameter in net.parameters():
            values = random.standard_normal(tuple(parameter.shape)).astype(np.float32)
            parameter.add_(lib.tensor(values))
        net(lib.tensor(random.standard_normal((5, 3)).astype(np.float32)))


@pytest.mark.parametrize("use_buffers", [False, True])
@pytest.mark.parametrize("how", ["mean", "ema", "multi"])
def test_averages_agree(use_buffers: bool, how: str) -> None:
    averaged = []
    for lib, swa, net in zip((weft, torch), (swa_utils, torch_swa), nets(), strict=True):
        options = {
            "mean": {},
            "ema": {"avg_fn": swa.get_ema_avg_fn(0.9)},
            "multi": {"multi_avg_fn": swa.get_ema_multi_avg_fn(0.8)},
        }[how]
        model = swa.AveragedModel(net, use_buffers=use_buffers, **options)
        for step in range(4):
            drift(lib, net, step)
            model.update_parameters(net)
        data = [(lib.tensor(np.random.default_rng(9).random((6, 3), np.float32)), 0)] * 2
        before = {key: np.array(v.detach().numpy()) for key, v in model.state_dict().items()}
        swa.update_bn(data, model)
        after = {key: np.array(v.detach().numpy()) for key, v in model.state_dict().items()}
        averaged.append((before, after))
    for ours, theirs in zip(*averaged, strict=True):
        assert list(ours) == list(theirs)
        for key, value in ours.items():
            np.testing.assert_allclose(value, theirs[key], rtol=1e-5, atol=1e-6, err_msg=key)


@pytest.mark.parametrize("options", [{}, {"anneal_epochs": 3}, {"anneal_epochs": 0}])
@pytest.mark.parametrize("strategy", ["cos", "linear"])
def test_swalr_agrees(options: dict, strategy: str) -> None:
    rates = []
    for lib, swa in ((weft, swa_utils), (torch, torch_swa)):
        optimizer = lib.optim.SGD([lib.zeros(2, requires_grad=True)], lr=0.5)
        schedule = swa.SWALR(optimizer, 0.05, anneal_strategy=strategy, **options)
        seen = []
        for _ in range(12):
            optimizer.step()
            schedule.step()
            seen.append(schedule.get_last_lr()[0])
        rates.append(seen)
    assert rates[0] == pytest.approx(rates[1])


CYCLES = [
    {},
    {"step_size_down": 5, "mode": "triangular2"},
    {"mode": "exp_range", "gamma": 0.9},
    {"scale_fn": lambda x: 0.5 ** (x - 1), "scale_mode": "cycle"},
]


@pytest.mark.parametrize("options", CYCLES)
@pytest.mark.parametrize("algorithm", ["SGD", "Adam"])
def test_cyclic_agrees(options: dict, algorithm: str) -> None:
    seen = []
    for lib in (weft, torch):
        setting = {"momentum": 0.9} if algorithm == "SGD" else {}
        optimizer = getattr(lib.optim, algorithm)(
            [lib.zeros(2, requires_grad=True)], lr=1, **setting
        )
        make = lib.optim.lr_scheduler.CyclicLR
        schedule = make(optimizer, 0.1, 0.9, step_size_up=4, **options)
        rows = []
        for _ in range(25):
            optimizer.step()
            schedule.step()
            group = optimizer.param_groups[0]
            rows.append((group["lr"], group.get("momentum", 0), *group.get("betas", ())))
        again = make(optimizer, 0.1, 0.9, step_size_up=4, **options)
        again.load_state_dict(schedule.state_dict())
        again.step()
        rows.append((*again.get_last_lr(), again.last_epoch))
        seen.append(rows)
    for ours, theirs in zip(*seen, strict=True):
        assert ours == pytest.approx(theirs)


def test_bad_arguments_are_explained() -> None:
    optimizer = SGD([weft.zeros(2, requires_grad=True)], lr=1)
    with pytest.raises(ValueError, match="must support momentum or beta1"):
        lr_scheduler.CyclicLR(weft.optim.Adagrad([weft.zeros(2, requires_grad=True)]), 0.1, 0.9)
    with pytest.raises(ValueError, match="mode is invalid"):
        lr_scheduler.CyclicLR(optimizer, 0.1, 0.9, mode="square")
    with pytest.raises(ValueError, match="anneal_strategy"):
        swa_utils.SWALR(optimizer, 0.1, anneal_strategy="step")
    with pytest.raises(ValueError, match="Invalid decay value"):
        swa_utils.get_ema_avg_fn(1.5)
    with pytest.raises(AssertionError, match="Only one of"):
        swa_utils.AveragedModel(
            weft.nn.Linear(1, 1), avg_fn=lambda *a: a[0], multi_avg_fn=lambda *a: None
        )
    assert isinstance(Adam([weft.zeros(1, requires_grad=True)]), weft.optim.Optimizer)
