"""Functions of the long tail whose values NumPy helps to find: scattering by other means than sums, resizing with
cubic and widened filters, norms of singular values; beside PyTorch where that is installed."""

import numpy as np
import pytest

import weft
from oracle import torch

SOURCE = np.random.default_rng(5)


def both(make, *arrays):
    """The values and gradients of one function of float arrays in both libraries."""
    found = []
    for lib in (weft, torch):
        given = [lib.tensor(array).requires_grad_() for array in arrays]
        result = make(lib, *given)
        weights = lib.arange(result.numel()).to(result.dtype).reshape(result.shape) + 1
        grads = lib.autograd.grad((result * weights).sum(), given, allow_unused=True)
        found.append([p if p is None else p.detach().numpy() for p in (result, *grads)])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, 1e-10, 1e-12)


@pytest.mark.parametrize("reduce", ["prod", "amax", "amin"])
@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("dim", [0, 1])
def test_scatter_reduce(reduce, include_self, dim):
    index = SOURCE.integers(0, 3, (4, 5))
    ties = SOURCE.integers(-1, 3, (4, 5)).astype(float)  # zeros and equal values
    own = ties + (
        0 if include_self else 0.5
    )  # PyTorch counts it among the ties where it takes no part
    for base, source in ((SOURCE.normal(size=(4, 5)), SOURCE.normal(size=(4, 5))), (own, ties)):

        def make(lib, x, y):
            return lib.scatter_reduce(
                x, dim, lib.tensor(index), y, reduce, include_self=include_self
            )

        both(make, base, source)
    numbers = np.array([3, -1, 7, 7])
    places = np.array([0, 1, 1, 3])
    ours, theirs = (
        lib.scatter_reduce(
            lib.tensor(numbers), 0, lib.tensor(places), lib.tensor(numbers * 2), reduce,
            include_self=include_self,
        )
        for lib in (weft, torch)
    )  # fmt: skip
    assert ours.dtype is weft.int64 and ours.tolist() == theirs.tolist()
    flags, dark = weft.tensor([True, False]), weft.tensor([False, False])
    if reduce != "prod":
        found = weft.scatter_reduce(flags, 0, weft.tensor([1, 0]), dark, reduce, include_self=True)
        assert found.tolist() == ([True, False] if reduce == "amax" else [False, False])


def test_a_product_has_every_derivative_beside_zeros():
    base = weft.tensor([2.0, 0.0], dtype=weft.float64, requires_grad=True)
    source = weft.tensor([0.0, 3.0, 5.0], dtype=weft.float64, requires_grad=True)
    index = weft.tensor([0, 0, 1])

    def function(x, y):
        return weft.scatter_reduce(x, 0, index, y, "prod")

    assert weft.autograd.gradcheck(function, (base, source))
    assert weft.autograd.gradgradcheck(function, (base, source))


def test_extrema_with_nan_and_nested_levels():
    x = weft.tensor([1.0, 2.0])
    found = weft.scatter_reduce(x, 0, weft.tensor([0, 1]), weft.tensor([float("nan"), 1.0]), "amax")
    assert found.isnan().tolist() == [True, False] and found[1].item() == 2
    moved = weft.func.jvp(
        lambda x: weft.scatter_reduce(x, 0, weft.tensor([0, 0]), x, "amax"), (x,), (x * 10,)
    )
    assert moved[0].tolist() == [2, 2] and moved[1].tolist() == [20, 20]
    with pytest.raises(ValueError, match="reduce argument must be either sum, prod"):
        weft.scatter_reduce(x, 0, weft.tensor([0, 1]), x, "median")


@pytest.mark.parametrize("mode", ["bicubic", "bilinear"])
@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("antialias", [False, True])
def test_resizing(mode, corners, antialias):
    image = SOURCE.normal(size=(2, 3, 5, 7))
    for size, factor in (((3, 9), None), ((1, 2), None), (None, 1.7), (None, (0.4, 2.0))):

        def make(lib, x, size=size, factor=factor):
            return lib.nn.functional.interpolate(
                x, size, factor, mode, align_corners=corners, antialias=antialias
            )

        both(make, image)


def test_resizing_complaints():
    with pytest.raises(ValueError, match="Anti-alias option is restricted"):
        weft.nn.functional.interpolate(weft.ones(1, 1, 4), 2, mode="linear", antialias=True)
    with pytest.raises(NotImplementedError, match="bicubic"):
        weft.nn.functional.interpolate(weft.ones(1, 1, 4), 2, mode="bicubic")


@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 5), (2, 3, 4)])
@pytest.mark.parametrize("order", ["nuc", 2, -2])
def test_norms_of_singular_values(shape, order):
    matrix = SOURCE.normal(size=shape)
    for keepdim in (False, True):
        both(lambda lib, x, keep=keepdim: lib.linalg.matrix_norm(x, order, keepdim=keep), matrix)
    both(lambda lib, x: lib.linalg.matrix_norm(x, order, (0, 1)), matrix)
    wide = weft.tensor(matrix + 1j * SOURCE.normal(size=shape)).requires_grad_()
    for x in (weft.tensor(matrix).requires_grad_(), wide):
        assert weft.autograd.gradgradcheck(lambda x: weft.linalg.matrix_norm(x, order), (x,))


def test_nuclear_norm_at_zero_and_beside_repeated_values():
    both(lambda lib, x: x.norm("nuc"), np.eye(3))
    x = weft.zeros(2, 3, requires_grad=True)
    x.norm("nuc").backward()
    assert x.grad.isfinite().all() and x.grad.norm("nuc").item() == pytest.approx(2)
    with pytest.raises(RuntimeError, match="at least 2 dimensions"):
        weft.ones(3).norm("nuc")
    with pytest.raises(RuntimeError, match="2-tuple"):
        weft.linalg.matrix_norm(weft.ones(2, 2), "nuc", (0,))
