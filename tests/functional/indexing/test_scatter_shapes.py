"""Elementwise scatters over every axis of tensors of one to four dimensions, with indices smaller than what they write:
however the dimensions are put together for the kernel, the elements are those of PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from oracle import torch
from weft.debug import stages

SHAPES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((40,), (25,)),
    ((7, 40), (7, 40)),
    ((7, 40), (5, 30)),
    ((1, 40), (1, 30)),
    ((3, 5, 40), (3, 5, 40)),
    ((3, 5, 40), (2, 4, 30)),
    ((3, 140, 2), (3, 135, 2)),
    ((3, 4, 5, 6), (3, 4, 5, 6)),
    ((3, 4, 5, 6), (2, 3, 4, 5)),
    ((3, 1, 5, 1), (2, 1, 4, 1)),
]


def operands(shape: Any, part: Any, axis: int, kind: str) -> tuple[Any, Any, Any]:
    """base, index without repeated places of a line, source; the source lies as `kind` says."""
    made = np.random.default_rng(len(shape) + axis)
    base = made.standard_normal(shape).astype(np.float32)
    order = made.random((*part[:axis], shape[axis], *part[axis + 1 :])).argsort(axis)
    index = np.take(order, np.arange(part[axis]), axis)
    source = made.standard_normal(shape).astype(np.float32)
    if kind == "turned":
        source = np.ascontiguousarray(source.T).T
    if kind == "repeated":
        source = np.broadcast_to(source[:1], shape)
    return base, index, source


@pytest.mark.parametrize("kind", ["beside", "turned", "repeated"])
@pytest.mark.parametrize(("shape", "part"), SHAPES)
def test_every_axis(shape: Any, part: Any, kind: str) -> None:
    for axis in range(len(shape)):
        base, index, source = operands(shape, part, axis, kind)
        for name in ("scatter", "scatter_add"):
            x, i = weft.tensor(base), weft.tensor(index)
            values = weft.tensor(np.ascontiguousarray(source[:1] if kind == "repeated" else source))
            if kind == "turned":
                values = weft.tensor(np.ascontiguousarray(source.T)).permute(
                    *reversed(range(source.ndim))
                )
            found = getattr(x, name)(axis, i, values.expand(*shape))
            expected = getattr(torch.tensor(base), name)(
                axis, torch.tensor(index), torch.tensor(np.ascontiguousarray(source))
            )
            np.testing.assert_array_equal(found.numpy(), expected.numpy())


@pytest.mark.parametrize("axis", [0, 1])
def test_repeated_places_are_written_in_order(axis: int) -> None:
    made = np.random.default_rng(0)
    index = made.integers(0, 3, (6, 7))
    source = made.standard_normal((6, 7)).astype(np.float32)
    base = np.zeros((6, 7), np.float32)
    for place in np.ndindex(6, 7):
        target = list(place)
        target[axis] = index[place]
        base[tuple(target)] = source[place]
    found = weft.zeros(6, 7).scatter(axis, weft.tensor(index), weft.tensor(source))
    np.testing.assert_array_equal(found.numpy(), base)


def test_an_index_out_of_range_is_refused() -> None:
    x, index = weft.zeros(4, 5), weft.tensor([[0, 1], [4, 5]])
    with pytest.raises(IndexError):
        x.scatter(1, index, weft.ones(2, 2)).numpy()


@pytest.mark.parametrize("pending", [False, True])
@pytest.mark.parametrize("shape", [(0, 0, 3), (0, 3), (0,), (3, 0, 2)])
def test_nothing_can_be_chosen_from_a_dimension_without_elements(
    shape: tuple[int, ...], pending: bool
) -> None:
    """Also where the result has no elements, and would never be computed."""
    x = weft.zeros(shape)
    zero = weft.tensor([1]) - 1 if pending else weft.tensor([0])
    index = (zero,) if shape[0] == 0 else (slice(None), zero)
    for _ in range(2):
        with pytest.raises(IndexError, match="out of bounds for dimension.* with size 0"):
            x[index]
    with pytest.raises(IndexError, match="out of bounds for dimension.* with size 0"):
        x[index] = 1.0
    assert x[tuple(part if part is not zero else zero[:0] for part in index)].numel() == 0


@pytest.mark.parametrize("reduce", ["sum", "mean", "amax", "amin"])
@pytest.mark.parametrize("shape", [(40, 6), (6, 40), (5, 40, 6), (40, 5, 6), (2, 5, 40, 3)])
def test_an_expanded_index_reduces_as_one_that_is_written_out(
    shape: tuple[int, ...], reduce: str
) -> None:
    """Expanded over all other dimensions, or only over some of them; with a part of the source, too."""
    made = np.random.default_rng(len(shape))
    axis = shape.index(40)
    for kept in [set(), {0}, {len(shape) - 1}]:
        narrow = [n if place in kept | {axis} else 1 for place, n in enumerate(shape)]
        index = made.integers(0, 7, narrow)
        base = [7 if place == axis else n for place, n in enumerate(shape)]
        numbers = made.standard_normal(base), made.standard_normal(shape)
        x, source = (weft.tensor(part.astype(np.float32)) for part in numbers)
        wide = weft.tensor(index).expand(shape)
        found = x.scatter_reduce(axis, wide, source, reduce)
        written = x.scatter_reduce(axis, wide.clone(), source, reduce)
        np.testing.assert_array_equal(found.numpy(), written.numpy())
        if torch is not None:
            given = [torch.tensor(part.numpy()) for part in (x, wide, source)]
            expected = given[0].scatter_reduce(axis, given[1], given[2], reduce)
            np.testing.assert_allclose(found.numpy(), expected.numpy(), 1e-5, 1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "int8", "complex64"])
@pytest.mark.parametrize("include_self", [True, False])
def test_products_are_pytorchs_with_zeros_and_without_derivatives(dtype, include_self):
    """By the kernel where no derivative follows, and as a composition where one may."""
    made = np.random.default_rng(3)
    for shape, wide, axis in [((5, 6), (7, 6), 0), ((5, 6), (5, 9), 1), ((3, 4, 5), (3, 2, 5), 1)]:
        numbers = made.integers(-3, 4, shape), made.integers(-2, 3, wide)
        index = made.integers(0, shape[axis], wide)
        found = []
        for lib in (weft, torch):
            x, source = (lib.tensor(part).to(getattr(lib, dtype)) for part in numbers)
            given = axis, lib.tensor(index), source, "prod"
            found.append(x.scatter_reduce(*given, include_self=include_self).tolist())
        assert found[0] == found[1]


def test_a_product_is_one_scatter_where_no_derivative_follows():
    x, index = weft.rand(6, 5), weft.tensor([[0, 1, 1, 0, 5]] * 4)
    source = weft.rand(4, 5).requires_grad_()
    with weft.no_grad():
        value = x.scatter_reduce(0, index, source, "prod")
    recorded = stages(lambda: x.scatter_reduce(0, index, source.detach(), "prod"))["record"]
    assert recorded.count("=") == 1 and "scatter_product" in recorded
    followed = x.scatter_reduce(0, index, source, "prod")
    assert followed.requires_grad
    np.testing.assert_allclose(followed.detach().numpy(), value.numpy(), rtol=1e-6)
