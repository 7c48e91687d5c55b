"""Elements of views that an index names: written where they lie, seen by every other view, and found out of range."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from oracle import torch

VIEWS: dict[str, Callable[[Any], Any]] = {
    "column": lambda x: x[:, 1],
    "row": lambda x: x[2],
    "rows": lambda x: x[1:4],
    "every second": lambda x: x[::2, 1::2],
    "transposed": lambda x: x.t(),
    "turned rows": lambda x: x[1:3].t(),
    "diagonal": lambda x: x.diagonal(),
    "part of the diagonal": lambda x: x.diagonal(1),
    "flattened": lambda x: x.view(-1),
    "folded": lambda x: x.view(2, -1, 3)[:, 1],
    "element": lambda x: x[3, 4:5],
    "whole": lambda x: x,
}


def indices(lib: Any, shape: tuple[int, ...], seed: int, pending: bool) -> tuple[Any, ...]:
    source = np.random.default_rng(seed)
    found = [lib.tensor(source.integers(-size, size, 3)) for size in shape]
    return tuple(index + 0 for index in found) if pending else tuple(found)


def written(lib: Any, name: str, seed: int, accumulate: bool, pending: bool) -> list[Any]:
    """What several writes to a view leave in the tensor, in the view and in a view beside it, and versions."""
    x = lib.arange(30.0).reshape(5, 6).clone()
    view, beside = VIEWS[name](x), x[1:, 2:]
    values = lib.arange(3.0) + 100
    for turn in range(3):
        places = indices(lib, tuple(view.shape), seed + turn, pending)
        if accumulate:
            view.index_put_(places, values + turn, accumulate=True)
        else:  # where places repeat, one value: it does not matter which is last
            view[places] = values[turn]
        x[0, 0] += view.sum()
    return [x.numpy(), view.numpy(), beside.numpy(), np.array(x._version)]


@pytest.mark.parametrize("pending", [False, True])
@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("name", VIEWS)
def test_writes_are_pytorchs(name: str, accumulate: bool, pending: bool) -> None:
    for seed in range(3):
        ours, theirs = (written(lib, name, seed, accumulate, pending) for lib in (weft, torch))
        for found, expected in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", VIEWS)
def test_gradients_go_through_writes(name: str) -> None:
    def gradients(lib: Any) -> list[Any]:
        leaf, values = lib.arange(30.0), lib.arange(3.0)
        leaf.requires_grad_(), values.requires_grad_()
        x = leaf.reshape(5, 6).clone()
        view = VIEWS[name](x)
        view.index_put_(indices(lib, tuple(view.shape), 0, False), values, accumulate=True)
        (x * x).sum().backward()
        return [leaf.grad.numpy(), values.grad.numpy()]

    for found, expected in zip(gradients(weft), gradients(torch), strict=True):
        np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize("pending", [False, True])
def test_places_outside_of_a_view_are_errors_though_they_lie_in_its_memory(pending: bool) -> None:
    x = weft.arange(30.0).reshape(5, 6).clone()
    places = weft.tensor([0, 6])
    with pytest.raises(IndexError):
        x[1][places + 0 if pending else places] = 1.0
        weft.realize(x)


def test_masks_and_numbers_beside_tensors() -> None:
    def made(lib: Any) -> Any:
        x = lib.arange(60.0).reshape(3, 4, 5).clone()
        i, j = lib.tensor([0, 2]), lib.tensor([3, 1])
        x[i, 1, j] = 7.0
        x[1, i, j] = lib.tensor([8.0, 9.0])
        x[i, j, 2] += 0.5
        x[0][x[0] > 15] = -1.0
        x[:, 2][lib.tensor([True, False, True]), 1] = -2.0
        x[:, :, 4].t()[j, i] = -3.0
        return x.numpy()

    np.testing.assert_array_equal(made(weft), made(torch))
