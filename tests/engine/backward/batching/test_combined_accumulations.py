"""Cotangents from the times of a loop are laid behind each other instead of being added up, with the same sum."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from weft.debug import stages


def both_ways(loss_of: Any, *leaves: Any) -> list[tuple[Any, Any]]:
    """Gradients with cotangents joined, and added up one by one (as under `create_graph`)."""
    joined = weft.autograd.grad(loss_of(), leaves)
    added = weft.autograd.grad(loss_of(), leaves, create_graph=True)
    return [(a.numpy(), b.detach().numpy()) for a, b in zip(joined, added, strict=True)]


def computed(loss_of: Any) -> str:
    """What is live of a backward pass."""
    return stages(lambda: loss_of().backward())["collect"]


def test_rows_taken_out_one_by_one() -> None:
    x = weft.randn(6, 3, 4, requires_grad=True)

    def loss_of() -> Any:
        return sum((x[t] * (t + 1.0)).tanh().sum() for t in range(6))

    for joined, added in both_ways(loss_of, x):
        assert np.array_equal(joined, added)
    text = computed(loss_of)
    assert " cat(" in text
    assert "put(" not in text


def test_rows_that_nobody_took_have_no_gradient() -> None:
    x = weft.randn(9, 4, requires_grad=True)

    def loss_of() -> Any:
        return (x[1].exp() * x[6]).sum() + (x[3:5] ** 2).sum()

    for joined, added in both_ways(loss_of, x):
        assert np.array_equal(joined, added)
        assert not joined[[0, 2, 5, 7, 8]].any()
    assert "put(" not in computed(loss_of)


def test_blocks_that_overlap_are_added() -> None:
    x = weft.randn(6, 2, requires_grad=True)

    def loss_of() -> Any:
        return (x[0:4].sin() * x[2:6]).sum() + x[3].exp().sum()

    for joined, added in both_ways(loss_of, x):
        assert np.array_equal(joined, added)


def test_a_use_of_the_whole_beside_its_rows() -> None:
    weft.manual_seed(0)
    x = weft.randn(4, 3, requires_grad=True)

    def loss_of() -> Any:
        y = x * 2
        return sum(y[t].exp().sum() for t in range(4)) + (y * y).sum()

    for joined, added in both_ways(loss_of, x):
        np.testing.assert_allclose(joined, added, 1e-6)


@pytest.mark.parametrize("dtype", [weft.float32, weft.float64])
def test_a_weight_that_is_used_at_every_time(dtype: Any) -> None:
    weft.manual_seed(0)
    weight = weft.randn(8, 8, dtype=dtype, requires_grad=True)
    bias = weft.randn(8, dtype=dtype, requires_grad=True)
    xs = [weft.randn(3, 8, dtype=dtype) for _ in range(5)]

    def loss_of() -> Any:
        hidden = weft.zeros(3, 8, dtype=dtype)
        for x in xs:
            hidden = (x + weft.nn.functional.linear(hidden, weight, bias)).tanh()
        return hidden.sum()

    for joined, added in both_ways(loss_of, weight, bias):
        tolerance = 1e-5 if dtype is weft.float32 else 1e-12
        np.testing.assert_allclose(joined, added, tolerance, tolerance)
    # 5 products forward, 4 of cotangents with the weight, 1 for the gradient of the weight.
    assert computed(loss_of).count(" matmul(") + computed(loss_of).count(" linear") == 10


def test_products_of_many_rows_are_added() -> None:
    """Bringing 64 rows of 4 + 4 together would move more than two gradients of 4 x 4."""
    weight = weft.randn(4, 4, requires_grad=True)
    x, y = weft.randn(64, 4), weft.randn(64, 4)

    def loss_of() -> Any:
        return ((x @ weight).tanh() + (y @ weight).exp()).sum()

    for joined, added in both_ways(loss_of, weight):
        assert np.array_equal(joined, added)
    assert " cat(" not in computed(loss_of)


def test_sums_over_large_rows_do_not_wait_for_each_other() -> None:
    """One sum over all rows would keep the cotangents of all times at once."""
    bias = weft.randn(512, requires_grad=True)

    def loss_of() -> Any:
        hidden = weft.zeros(256, 512)
        for _ in range(5):
            hidden = (hidden + bias).tanh()
        return hidden.sum()

    for joined, added in both_ways(loss_of, bias):
        assert np.array_equal(joined, added)
    assert " cat(" not in computed(loss_of)


def test_a_graph_that_is_kept_can_be_walked_again() -> None:
    weight = weft.randn(8, 8, requires_grad=True)
    hidden = weft.ones(2, 8)
    for _ in range(4):
        hidden = (hidden @ weight).sin()
    loss = hidden.sum()
    first = weft.autograd.grad(loss, weight, retain_graph=True)[0].numpy()
    assert np.array_equal(first, weft.autograd.grad(loss, weight)[0].numpy())


def test_a_hook_on_the_weight_sees_the_sum() -> None:
    weight = weft.randn(8, 8, requires_grad=True)
    seen: list[Any] = []
    weight.register_hook(lambda g: seen.append(g.clone()))
    hidden = weft.ones(2, 8)
    for _ in range(4):
        hidden = (hidden @ weight).sin()
    hidden.sum().backward()
    assert len(seen) == 1
    assert np.array_equal(seen[0].numpy(), weight.grad.numpy())


@pytest.mark.parametrize("dtype", [weft.float32, weft.float64])
def test_a_bias_that_single_rows_use(dtype: Any) -> None:
    """What comes for the bias row by row, and as a sum over rows, is one sum."""
    weft.manual_seed(0)
    layer = weft.nn.Linear(6, 6, dtype=dtype)
    xs = weft.randn(7, 6, dtype=dtype)

    def loss_of() -> Any:
        hidden = weft.zeros(6, dtype=dtype)
        for x in xs:
            hidden = (x + layer(hidden)).tanh()
        return (hidden + layer(xs[2:5]).exp().sum(0)).sum()

    for joined, added in both_ways(loss_of, layer.weight, layer.bias):
        tolerance = 1e-5 if dtype is weft.float32 else 1e-12
        np.testing.assert_allclose(joined, added, tolerance, tolerance)
    text = computed(loss_of)
    assert text.count(" cat(") == 2  # of what the layer read, and of the cotangents of what it gave
    assert text.count(" add(") == 7


def test_rows_of_all_times_are_laid_out_once() -> None:
    """A recurrent layer's input projection and its recurrent weight get gradients from the same cotangents."""
    weft.manual_seed(0)
    steps, rows, width = 6, 3, 8
    x = weft.randn(steps, rows, width)
    w, u = (weft.randn(width, width, requires_grad=True) for _ in range(2))
    b, c = (weft.randn(width, requires_grad=True) for _ in range(2))

    def loss_of() -> Any:
        projected, hidden = weft.nn.functional.linear(x, w, b), weft.zeros(rows, width)
        for t in range(steps):
            hidden = (projected[t] + weft.nn.functional.linear(hidden, u, c)).tanh()
        return hidden.sum()

    for joined, added in both_ways(loss_of, w, u, b, c):
        np.testing.assert_allclose(joined, added, 1e-4, 1e-5)
    text = computed(loss_of)
    laid_out = sum(" cat(" in line for line in text.splitlines())
    assert laid_out == 2  # the cotangents, and the states before each step
    assert sum(" = sum(" in line for line in text.splitlines()) == 1  # of both biases
    assert b.grad.eq(c.grad).all()
    b.grad.zero_()
    assert not c.grad.eq(0).all()


def test_parts_below_each_other_in_other_shapes_are_one_value() -> None:
    parts = [weft.randn(2, 3).exp() for _ in range(3)]

    def values() -> Any:
        rows, blocks = weft.cat(parts, 0), weft.stack(parts)
        turned = weft.stack([part.T for part in parts])
        return rows.sum(0) + blocks.sum((0, 1)), blocks.sum(0), turned.sum((0, 1)), blocks * 2

    text = stages(values)["collect"]
    assert sum(" cat(" in line for line in text.splitlines()) == 2
    both, each, turned, twice = (value.numpy() for value in values())
    held = np.stack([part.numpy() for part in parts])
    np.testing.assert_allclose(both, 2 * held.sum((0, 1)), 1e-5)
    np.testing.assert_allclose(each, held.sum(0), 1e-5)
    np.testing.assert_allclose(turned, held.sum((0, 2)), 1e-5)
    assert np.array_equal(twice, 2 * held)
