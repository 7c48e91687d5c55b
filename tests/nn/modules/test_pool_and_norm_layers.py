"""Pooling and normalisation layers over one, two and three dimensions against PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from oracle import torch

SIZES = {1: (13,), 2: (7, 10), 3: (5, 7, 6)}


def both(name: str, *arguments: Any, **options: Any) -> list[tuple[Any, Any]]:
    return [(lib, getattr(lib.nn, name)(*arguments, **options)) for lib in (weft, torch)]


def run(made: list[tuple[Any, Any]], x: Any) -> list[Any]:
    """Outputs, and the gradient of a weighted sum of the first output."""
    found = []
    for lib, layer in made:
        tensor = lib.from_numpy(x.copy()).requires_grad_()
        results = layer(tensor)
        results = results if isinstance(results, tuple) else (results,)
        weights = lib.from_numpy(np.cos(np.arange(results[0].numel())).reshape(results[0].shape))
        (results[0] * weights).sum().backward()
        found.append([r.detach().numpy() for r in results] + [tensor.grad.numpy()])
    return found


def agree(made: list[tuple[Any, Any]], x: Any) -> None:
    ours, theirs = run(made, x)
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-9, atol=1e-12)
        assert mine.dtype == other.dtype
    assert repr(made[0][1]) == repr(made[1][1])


def sample(rank: int, ties: bool = False) -> Any:
    source = np.random.default_rng(rank)
    x = source.standard_normal((2, 3, *SIZES[rank]))
    return np.round(x) if ties else x


@pytest.mark.parametrize("rank", (1, 2, 3))
@pytest.mark.parametrize("wanted", (1, 3, 4, 5))
def test_adaptive_pooling_to_any_size(rank: int, wanted: int) -> None:
    for x in (sample(rank), sample(rank)[0]):
        agree(both(f"AdaptiveAvgPool{rank}d", wanted), x)
    for ties in (False, True):
        target = wanted
        agree(both(f"AdaptiveMaxPool{rank}d", target, return_indices=True), sample(rank, ties))
        agree(both(f"AdaptiveMaxPool{rank}d", target), sample(rank, ties)[0])


def test_adaptive_pooling_to_more_places_than_there_are_and_with_nan() -> None:
    x = sample(2)
    x[0, 0, 3, 4] = np.nan
    agree(both("AdaptiveMaxPool2d", (9, 3), return_indices=True), x)
    agree(both("AdaptiveMaxPool2d", (None, 4)), sample(2))
    agree(both("AdaptiveAvgPool2d", (9, 3)), sample(2))


@pytest.mark.parametrize("rank", (1, 2, 3))
def test_pooling(rank: int) -> None:
    agree(both(f"MaxPool{rank}d", 2), sample(rank))
    agree(both(f"MaxPool{rank}d", 3, 2, 1, return_indices=True), sample(rank))
    agree(both(f"AvgPool{rank}d", 2), sample(rank))
    agree(both(f"AvgPool{rank}d", 3, stride=2, padding=1, count_include_pad=False), sample(rank))


@pytest.mark.parametrize("rank", (1, 2, 3))
@pytest.mark.parametrize("options", ({}, {"affine": True}, {"track_running_stats": True}))
def test_instance_norm(rank: int, options: dict[str, Any]) -> None:
    made = both(f"InstanceNorm{rank}d", 3, **options, dtype=None)
    for _, layer in made:
        layer.double()
    for _ in range(2):
        agree(made, sample(rank))
    agree(made, sample(rank)[1])
    states = [{k: v.numpy() for k, v in layer.state_dict().items()} for _, layer in made]
    assert states[0].keys() == states[1].keys()
    for key in states[0]:
        np.testing.assert_allclose(states[0][key], states[1][key], rtol=1e-9)
    for _, layer in made:
        layer.eval()
    agree(made, sample(rank))


def test_batch_norm_over_three_dimensions() -> None:
    made = both("BatchNorm3d", 3)
    for _, layer in made:
        layer.double()
    agree(made, sample(3))


def test_instance_norm_refuses_other_ranks_and_channels() -> None:
    with pytest.raises(ValueError, match="(?s)expected 3D or 4D input.*fix"):
        weft.nn.InstanceNorm2d(3)(weft.ones(2, 3))
    with pytest.raises(ValueError, match="(?s)to match num_features.*fix"):
        weft.nn.InstanceNorm1d(4, affine=True)(weft.ones(2, 3, 5))
    with pytest.warns(UserWarning, match="does not match num_features"):
        weft.nn.InstanceNorm1d(4)(weft.rand(2, 3, 5))


@pytest.mark.parametrize("name", ["AdaptiveAvgPool", "AdaptiveMaxPool"])
@pytest.mark.parametrize("rank", (1, 2, 3))
def test_adaptive_pooling_refuses_other_ranks_and_empty_inputs(name: str, rank: int) -> None:
    layer = getattr(weft.nn, f"{name}{rank}d")(3)
    for shape in ((4,) * rank, (4,) * (rank + 3), (2, 3, *(4,) * (rank - 1), 0)):
        with pytest.raises(RuntimeError, match=r"(?s)Expected .*expected .*fix "):
            layer(weft.ones(shape))


@pytest.mark.parametrize("rank", (1, 2, 3))
def test_one_element_has_no_instance_to_normalise(rank: int) -> None:
    layer = getattr(weft.nn, f"InstanceNorm{rank}d")(3, track_running_stats=True)
    with pytest.raises(ValueError, match="more than 1 spatial element"):
        layer(weft.ones(2, 3, *(1,) * rank))
    assert layer.running_var.tolist() == [1.0] * 3
    assert layer.eval()(weft.ones(2, 3, *(1,) * rank)).shape == (2, 3, *(1,) * rank)
    assert layer.train()(weft.ones(0, 3, *(2,) * rank)).shape == (0, 3, *(2,) * rank)
    assert layer.running_var.tolist() == [1.0] * 3


@pytest.mark.parametrize("size", ((), (2, 2)))
def test_avg_pool1d_takes_one_size(size: tuple[int, ...]) -> None:
    with pytest.raises((RuntimeError, ValueError), match="(?s)kernel_size.*fix "):
        weft.nn.AvgPool1d(size)(weft.ones(1, 1, 4))
