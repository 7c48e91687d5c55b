"""Elementwise results of operands that lie by columns are computed in that order, and lie so, as PyTorch's do."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import weft
from oracle import torch
from random_cases import case_of
from weft.debug import stages
from weft.engine.frontend import recorder
from weft.engine.frontend.recorder import LEAST_REORDERED

CALLS = {
    "number": lambda x, lib: x * 2,
    "twice": lambda x, lib: x + x,
    "unary": lambda x, lib: x.exp(),
    "compared": lambda x, lib: x > 0.5,
    "chosen": lambda x, lib: lib.where(x > 0.5, x, 0.0),
    "converted": lambda x, lib: x.double() * 2,
    "repeated": lambda x, lib: x + x[:1],
    "number in a tensor": lambda x, lib: x * lib.tensor(2.0),
    "a row": lambda x, lib: x + x[0].clone(),
    "columns": lambda x, lib: x[:, ::2] - 1,
    "written": lambda x, lib: (x * 2).add_(1),
    "viewed": lambda x, lib: (x * 2)[3] + 1,
    "both orders": lambda x, lib: x + x.contiguous(),
    "copied": lambda x, lib: (x * 2).contiguous(),
    "cloned": lambda x, lib: (x * 2).clone() + 1,
    "reduced": lambda x, lib: (x * 2).sum(0),
    "lower": lambda x, lib: (x + 1).tril(),
    "softmax": lambda x, lib: (x + 1).softmax(-1),
}
ORDERS = {"matrix": (1, 0), "reversed": (2, 1, 0), "channels": (0, 2, 3, 1), "turned": (1, 2, 0)}


def turned(lib: Any, order: tuple[int, ...], tracked: bool = False) -> Any:
    """Many elements, their dimensions permuted."""
    shape = (96, 72) if len(order) == 2 else (16, 24, 20) if len(order) == 3 else (4, 12, 12, 20)
    numbers = np.random.default_rng(0).random(shape, np.float32)
    return lib.tensor(numbers).requires_grad_(tracked).permute(order)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", CALLS)
def test_results_lie_as_in_pytorch(name, order):
    found = CALLS[name](turned(weft, ORDERS[order]), weft)
    expected = CALLS[name](turned(torch, ORDERS[order]), torch)
    assert found.stride() == expected.stride()
    assert found.numpy().strides == expected.numpy().strides
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-6)


@pytest.mark.parametrize("order", ORDERS)
def test_gradients_of_what_lies_by_columns(order):
    grads = []
    for lib in (weft, torch):
        x = turned(lib, ORDERS[order], tracked=True)
        x.retain_grad()
        ((x * 2).exp() * x).sum().backward()
        grads.append(x.grad.numpy())
    np.testing.assert_allclose(*grads, rtol=1e-5)


def test_the_kernel_runs_over_memory():
    x = weft.rand(72, 96)
    x.tolist()
    assert "k0 [72, 96]: mul" in stages(lambda: x.t() * 2)["fuse"]
    few = weft.rand(2, LEAST_REORDERED // 4)
    few.tolist()
    assert f"k0 [{LEAST_REORDERED // 4}, 2]: mul" in stages(lambda: few.t() * 2)["fuse"]


def test_chains_stay_in_order_without_copies():
    x = weft.rand(72, 96)
    x.tolist()
    text = stages(lambda: ((x.t() * 2).exp() + x.t()).t())
    assert "permute" not in text["collect"]
    assert "k0 [72, 96]: mul exp add -> add[72, 96]" in text["fuse"]


def test_data_lies_where_the_strides_say():
    x = weft.rand(72, 96)
    y = x.t() * 2
    flat = np.ndarray((72 * 96,), np.float32, buffer=y.t().numpy())
    np.testing.assert_array_equal(flat, x.numpy().ravel() * 2)


def test_random_programs_whose_few_elements_are_reordered(monkeypatch):
    monkeypatch.setattr(recorder, "LEAST_REORDERED", 1)
    x = weft.rand(3, 2)
    x.tolist()
    assert "permute" in stages(lambda: x.t() * 2)["record"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # both libraries warn of what random programs do
        found = [case_of(number).differences() for number in range(7_000_000, 7_000_060)]
    assert found == [[]] * 60
