"""Views, in-place operations and grad modes: random programs give the same as on PyTorch, step by step."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest

import aliasing_programs as programs
import weft
from oracle import torch
from weft.engine.devices.cpu import pool


@pytest.fixture
def dirty_memory() -> Iterator[None]:
    """Buffers come filled with garbage: what is read before it is written shows."""
    pool.set_fill(0x41)
    yield
    pool.set_fill(None)


@pytest.mark.usefixtures("dirty_memory")
@pytest.mark.parametrize("block", range(8))
def test_random_programs(block: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(block * 25, block * 25 + 25):
            assert programs.differences(torch, seed) == [], seed


@pytest.mark.parametrize("seed", [220, 362, 929])
def test_programs_that_once_failed(seed: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert programs.differences(torch, seed) == []


# -- single rules ----------------------------------------------------------------------------------


def test_slice_writes_into_its_base() -> None:
    x = weft.zeros(4)
    y = x[1:]
    y += 1
    assert x.tolist() == [0, 1, 1, 1]
    assert x._version == y._version == 1


def test_views_of_views_share_memory() -> None:
    x = weft.arange(6.0).view(2, 3)
    column = x.t()[1]
    column.mul_(10)
    assert x.tolist() == [[0, 10, 2], [3, 40, 5]]


def test_detached_alias_shares_value_and_version() -> None:
    x = weft.ones(3, requires_grad=True) * 2
    x.detach().zero_()
    assert x.tolist() == [0, 0, 0]
    assert x._version == 1
    assert x.requires_grad


def test_data_has_a_version_of_its_own() -> None:
    x = weft.ones(3)
    alias = x.data
    alias.add_(1)
    assert (x._version, alias._version) == (0, 1)
    assert x.tolist() == [2, 2, 2]
    x.add_(1)
    assert (x._version, alias._version) == (1, 1)


def test_value_changed_under_no_grad_keeps_its_gradient() -> None:
    x = weft.tensor([1.0, 2.0], requires_grad=True)
    y = x * 2
    with weft.no_grad():
        y.mul_(3)
    y.sum().backward()
    assert y.tolist() == [6, 12]
    assert x.grad.tolist() == [2, 2]


@pytest.mark.parametrize("name", ["add", "sum", "amax", "softmax", "matmul", "clone", "T", "mul_"])
def test_an_untracked_view_of_what_got_a_history_is_read_without_gradients(name: str) -> None:
    """It has no derivative, which is an error where one would follow, and only there."""
    base, weight = weft.zeros(1, 4), weft.ones(1, 4, requires_grad=True)
    with weft.no_grad():
        view = base.reshape(2, 2)
    base += weight

    def read() -> object:
        operands = {"add": (1,), "mul_": (2,), "softmax": (0,), "matmul": (view.detach(),)}
        return view.T if name == "T" else getattr(view, name)(*operands.get(name, ()))

    with pytest.raises(RuntimeError, match="in no_grad mode"):
        read()
    with weft.no_grad():
        read()


def test_saved_value_is_never_overwritten() -> None:
    x = weft.tensor([1.0, 2.0], requires_grad=True)
    y = x * 1
    z = y * y
    y.zero_()
    z.sum().backward()
    assert x.grad.tolist() == [2, 4]


def test_in_place_on_a_view_reaches_the_gradient_of_the_base() -> None:
    x = weft.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = x * 1
    y[1:].mul_(5)
    assert y.grad_fn.name() == "torch::autograd::CopySlices"
    assert repr(y.grad_fn).startswith("<CopySlices object at")
    y.sum().backward()
    assert x.grad.tolist() == [1, 5, 5]


def test_overwriting_keeps_requires_grad_and_stops_the_gradient() -> None:
    x = weft.tensor([1.0, 2.0], requires_grad=True)
    y = x * 3
    y.zero_()
    assert y.requires_grad
    y.sum().backward()
    assert x.grad.tolist() == [0, 0]


def test_setting_data_shows_other_memory() -> None:
    x = weft.ones(2, requires_grad=True)
    other = weft.tensor([5.0, 6.0, 7.0])
    x.data = other
    assert x.tolist() == [5, 6, 7]
    assert x.requires_grad
    other.add_(1)
    assert x.tolist() == [6, 7, 8]


@pytest.mark.parametrize("requires_grad", [True, False])
def test_expanded_tensors_cannot_be_written(requires_grad: bool) -> None:
    x = weft.ones(3, requires_grad=requires_grad)
    with pytest.raises(RuntimeError, match=r"(?s)more than one element.*fix +call .clone\(\)"):
        x.expand(2, 3).add_(1)


def test_expansions_of_one_leaf_differentiate_together() -> None:
    x = weft.tensor([1.0, -3.0, 3.0, 3.0], requires_grad=True)
    parts: list[Any] = [x.expand(2, 4) for _ in range(3)]
    total = sum((part * part).sum() for part in parts)
    total.backward()
    assert x.grad.tolist() == [12, -36, 36, 36]
