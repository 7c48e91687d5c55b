"""The algorithms as functions of lists do what PyTorch's do: to parameters, and to each list that they are given."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest

import weft
from oracle import torch

MOMENTS = ("zeros", "zeros")
# Of each: what its lists begin with, then its options.
CALLS: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "adadelta": ((*MOMENTS, "count"), dict(lr=1.0, rho=0.9, eps=1e-6, weight_decay=0.1, maximize=False)),
    "adagrad": (("zeros", "count"), dict(lr=0.1, weight_decay=0.1, lr_decay=0.1, eps=1e-8, maximize=False)),
    "adam": (
        (*MOMENTS, "zeros", "count"),
        dict(amsgrad=True, beta1=0.9, beta2=0.99, lr=0.1, weight_decay=0.1, eps=1e-8, maximize=False),
    ),
    "adamw": (
        (*MOMENTS, "none", "count"),
        dict(amsgrad=False, beta1=0.9, beta2=0.99, lr=0.1, weight_decay=0.1, eps=1e-8, maximize=True),
    ),
    "adamax": ((*MOMENTS, "count"), dict(eps=1e-8, beta1=0.9, beta2=0.99, lr=0.1, weight_decay=0.1)),
    "asgd": (("zeros", "one", "rate", "count"), dict(lambd=1e-4, lr=0.1, t0=1.0, alpha=0.75, weight_decay=0.1)),
    "nadam": (
        (*MOMENTS, "one", "count"),
        dict(beta1=0.9, beta2=0.99, lr=0.1, weight_decay=0.1, momentum_decay=4e-3, eps=1e-8),
    ),
    "radam": ((*MOMENTS, "count"), dict(beta1=0.9, beta2=0.99, lr=0.1, weight_decay=0.1, eps=1e-8)),
    "rmsprop": (
        ("zeros", "zeros", "zeros", "count"),
        dict(lr=0.1, alpha=0.9, eps=1e-8, weight_decay=0.1, momentum=0.5, centered=True),
    ),
    "rprop": (
        ("zeros", "ones", "count"),
        dict(step_size_min=1e-6, step_size_max=50, etaminus=0.5, etaplus=1.2),
    ),
    "sgd": (
        ("nothing",),
        dict(weight_decay=0.1, momentum=0.9, lr=0.1, dampening=0.0, nesterov=True, maximize=False),
    ),
}  # fmt: skip
STARTS: dict[str, Any] = {
    "zeros": lambda T, x: T.zeros_like(x),
    "ones": lambda T, x: T.ones_like(x),
    "count": lambda T, x: T.tensor(0.0),
    "one": lambda T, x: T.tensor(1.0),
    "rate": lambda T, x: T.tensor(0.1),
    "nothing": lambda T, x: None,
}


@pytest.mark.parametrize("name", CALLS)
def test_lists_are_written_as_in_pytorch(name: str) -> None:
    assert torch.__version__  # else it is skipped: what follows imports parts of PyTorch

    def run(T: Any) -> Any:
        starts, options = CALLS[name]
        step = getattr(import_module(f"{T.__name__}.optim.{name}"), name)
        params = [T.tensor([1.0, -2.0, 3.0]), T.tensor([[0.5, 4.0]], requires_grad=True)]
        lists = [
            [] if start == "none" else [STARTS[start](T, x.detach()) for x in params]
            for start in starts
        ]
        with T.no_grad():
            for turn in (1.0, -0.5, 2.0):
                step(
                    params,
                    [x.detach() * turn + 1 for x in params],
                    *lists,
                    foreach=False,
                    **options,
                )
        assert all(x.grad is None for x in params)
        return [np.array(x.tolist()).reshape(-1) for row in [params, *lists] for x in row]

    for ours, theirs in zip(run(weft), run(torch), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=1e-6)
