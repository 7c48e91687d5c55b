"""What padding and resizing take along a dimension, as runs of neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from oracle import torch
from weft.nn.functional.index_runs import MOST_RUNS, IndexRun, places_of, runs, taken

INDICES: list[list[int]] = [
    [0, 1, 2, 3],
    [2, 1, 0, 1, 2, 3, 2],
    [0, 0, 1, 1, 2, 2],
    [0, 0, 0, 1, 1, 2, 2, 3],
    [3, 2, 1],
    [1],
    [2, 2, 2],
    [3, 3, 2, 2, 0],
    [0, 2, 0, 2, 1, 3, 0, 2, 0],
    [],
]


@pytest.mark.parametrize("index", INDICES)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_taken_is_what_indices_give(index: list[int], axis: int) -> None:
    array = np.random.default_rng(0).standard_normal((4, 5, 6)).astype(np.float32)
    places = np.array(index, np.int64)
    x = weft.tensor(array, requires_grad=True)
    reference = torch.tensor(array, requires_grad=True)
    found = taken(x, axis, places_of(places))
    expected = reference.index_select(axis, torch.tensor(places))
    np.testing.assert_array_equal(found.detach().numpy(), expected.detach().numpy())
    factor = np.random.default_rng(1).standard_normal(tuple(expected.shape)).astype(np.float32)
    (found * weft.tensor(factor)).sum().backward()
    (expected * torch.tensor(factor)).sum().backward()
    assert x.grad is not None
    assert reference.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), reference.grad.numpy(), 1e-5, 1e-6)


def test_runs_are_as_long_as_they_can_be() -> None:
    assert runs(np.array([2, 1, 0, 1, 2, 2, 2])) == [
        IndexRun(2, 3, -1, 1),
        IndexRun(1, 1, 1, 1),
        IndexRun(2, 1, 1, 3),
    ]
    assert runs(np.repeat(np.arange(9), 3)) == [IndexRun(0, 9, 1, 3)]
    assert len(runs(np.arange(100) * 7 % 100)) == MOST_RUNS + 1


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("pad", {"pad": (3, 1, 0, 2), "mode": "reflect"}),
        ("pad", {"pad": (3, 1, 4, 2), "mode": "replicate"}),
        ("pad", {"pad": (3, 1, 4, 2), "mode": "circular"}),
        ("pad", {"pad": (-1, 1, 2, -2), "mode": "circular"}),
        ("interpolate", {"scale_factor": 2}),
        ("interpolate", {"size": (7, 11)}),
        ("interpolate", {"scale_factor": 2, "mode": "bilinear"}),
        ("interpolate", {"scale_factor": 3, "mode": "bilinear", "align_corners": True}),
        ("interpolate", {"size": (4, 3), "mode": "bicubic"}),
    ],
)
def test_padding_and_resizing_with_their_derivatives(name: str, options: dict[str, Any]) -> None:
    array = np.random.default_rng(0).standard_normal((2, 3, 5, 6)).astype(np.float32)
    x, reference = weft.tensor(array).requires_grad_(), torch.tensor(array).requires_grad_()
    found = getattr(weft.nn.functional, name)(x, **options)
    expected = getattr(torch.nn.functional, name)(reference, **options)
    np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), 1e-5, 1e-5)
    with weft.no_grad():
        plain = getattr(weft.nn.functional, name)(x, **options)
    np.testing.assert_array_equal(plain.numpy(), found.detach().numpy())
    found.square().sum().backward()
    expected.square().sum().backward()
    assert x.grad is not None
    assert reference.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), reference.grad.numpy(), 1e-4, 1e-4)
