"""Convolutions walk windows where they lie: the bits of a product with copied patches, without their memory."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import weft
import weft.nn.functional as F
from weft.debug import stages

SHAPES: tuple[dict[str, Any], ...] = (
    {"x": (3, 5, 9, 8), "w": (6, 5, 3, 3), "padding": 1},
    {"x": (2, 3, 17, 34), "w": (20, 3, 3, 3), "padding": 1},
    {"x": (4, 16, 4, 4), "w": (40, 16, 3, 3), "padding": 1},
    {"x": (2, 3, 19, 21), "w": (7, 3, 5, 3), "stride": 2, "padding": 2},
    {"x": (2, 3, 23, 23), "w": (4, 3, 7, 7), "stride": 3},
    {"x": (2, 4, 12, 13), "w": (3, 4, 3, 2), "dilation": 2},
    {"x": (5, 7, 6, 1), "w": (1, 7, 2, 1)},
    {"x": (3, 16, 12, 12), "w": (20, 16, 3, 3), "padding": 1},
    {"x": (5, 40, 11, 13), "w": (9, 40, 3, 3)},
    {"x": (4, 24, 14, 9), "w": (6, 24, 3, 2), "stride": 2, "padding": 1},
    {"x": (70, 4, 7, 7), "w": (3, 4, 3, 3), "padding": 1},
)


def drawn(shape: tuple[int, ...], seed: int, dtype: str = "float32") -> Any:
    return weft.tensor(np.random.default_rng(seed).normal(size=shape).astype(dtype))


def held(value: Any) -> Any:
    """The value, computed now."""
    weft.realize(value)
    return value


def by_patches(x: Any, w: Any, **options: Any) -> Any:
    """(N, O, P): the product with patches that are in memory, as somebody holds them."""
    size = tuple(w.shape[2:])
    patches = held(F.unfold(x, size, **options))
    return w.reshape(len(w), -1) @ patches


@pytest.mark.parametrize("dtype", ("float32", "float64"))
@pytest.mark.parametrize("case", SHAPES, ids=str)
def test_bits_are_those_of_patches_in_memory(case: dict[str, Any], dtype: str) -> None:
    options = {key: value for key, value in case.items() if key not in "xw"}
    x, w = drawn(case["x"], 0, dtype), drawn(case["w"], 1, dtype)
    with weft.no_grad():
        result = F.conv2d(x, w, **options).flatten(2)
        expected = by_patches(x, w, **options)
        alone = weft.cat([F.conv2d(x[i : i + 1], w, **options) for i in range(len(x))])
    np.testing.assert_array_equal(result.numpy(), expected.numpy())
    np.testing.assert_array_equal(result.numpy(), alone.flatten(2).numpy())


@pytest.mark.parametrize("case", SHAPES, ids=str)
def test_gradients_of_kernels_too(case: dict[str, Any]) -> None:
    """Sums over examples and positions, in the order of examples."""
    options = {key: value for key, value in case.items() if key not in "xw"}
    x, w = drawn(case["x"], 0), drawn(case["w"], 1).requires_grad_()
    result = F.conv2d(x, w, **options)
    g = drawn(tuple(result.shape), 2)
    (found,) = weft.autograd.grad(result, w, g)
    del result
    patches = held(F.unfold(x, tuple(w.shape[2:]), **options))
    left = g.flatten(2).permute(1, 0, 2).flatten(1).contiguous()
    right = held(patches.permute(1, 0, 2).flatten(1))
    np.testing.assert_array_equal(found.flatten(1).numpy(), (left @ right.mT).numpy())


def test_threads_and_groups() -> None:
    x, w = drawn((4, 12, 20, 20), 0), drawn((36, 4, 3, 3), 1)
    before = weft.get_num_threads()
    results = []
    for threads in (1, 2):
        weft.set_num_threads(threads)
        with weft.no_grad():
            results.append(F.conv2d(x, w, padding=1, groups=3).numpy())
    weft.set_num_threads(before)
    np.testing.assert_array_equal(results[0], results[1])
    parts = [
        F.conv2d(x[:, 4 * i : 4 * i + 4], w[12 * i : 12 * i + 12], padding=1) for i in range(3)
    ]
    np.testing.assert_array_equal(results[0], weft.cat(parts, 1).numpy())


def test_patches_that_are_held_are_read() -> None:
    """A product whose patches somebody else wants as well takes the copy."""
    x, w = drawn((2, 3, 8, 8), 0), drawn((4, 27), 1)
    with weft.no_grad():
        patches = F.unfold(x, 3)
        result = w @ patches
        others = patches.sum(0)
    expected = w.numpy() @ patches.numpy()
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(others.numpy(), patches.numpy().sum(0), rtol=1e-5)


def bytes_of(plan: str) -> int:
    found = re.search(r"slots of (\d+) bytes", plan)
    assert found is not None
    return int(found[1])


def test_no_patches_in_memory() -> None:
    """Forward and backward, what is kept between kernels is less than half of the patches."""
    x, w = drawn((4, 8, 16, 16), 0).requires_grad_(), drawn((8, 8, 3, 3), 1).requires_grad_()

    def step() -> Any:
        result = F.conv2d(x, w, padding=1)
        result.backward(weft.ones_like(result))
        return x.grad, w.grad

    patches = 4 * 8 * 9 * 16 * 16 * 4
    assert bytes_of(stages(step)["plan"]) < patches / 2
