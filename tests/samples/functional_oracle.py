"""Comparing a function's behaviour with PyTorch's: values, dtypes, shapes, strides, gradients, errors."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from oracle import torch

TOLERANCE = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 1e-5, "complex64": 1e-5}
FLOATS = ("float32", "float64")


def make(
    *shape: int, dtype: str = "float32", seed: int = 0, low: float = -2.0, high: float = 2.0
) -> Any:
    """An array of one dtype: floats in [low, high], small integers, booleans."""
    source = np.random.default_rng([seed, *shape])
    if dtype == "bool":
        return np.asarray(source.random(shape) < 0.5)
    if dtype.startswith("complex"):
        return np.asarray(
            source.uniform(low, high, shape) + 1j * source.uniform(low, high, shape)
        ).astype(dtype)
    if dtype.startswith(("int", "uint")):
        start = -9 if dtype[0] == "i" else 0
        return np.asarray(source.integers(start, 9, shape)).astype(dtype)
    return np.asarray(source.uniform(low, high, shape)).astype(dtype)


def as_numpy(value: Any) -> Any:
    """A tensor of either library as an array; bfloat16 as float32."""
    value = value.detach()
    if str(value.dtype).endswith("bfloat16"):
        value = value.float()
    return value.numpy(force=True) if isinstance(value, torch.Tensor) else value.numpy()


def leaves(result: Any) -> list[Any]:
    """The tensors and numbers of a result, flattened."""
    if isinstance(result, (tuple, list)):
        return [leaf for part in result for leaf in leaves(part)]
    return [result]


def dtype_name(tensor: Any) -> str:
    """`float32` for either library's dtype."""
    return str(tensor.dtype).split(".")[-1]


def assert_same(
    ours: Any, theirs: Any, strides: bool = True, tolerance: float | None = None
) -> None:
    """One result agrees with PyTorch's."""
    if not isinstance(theirs, torch.Tensor):
        if isinstance(theirs, float):
            assert ours == pytest.approx(theirs, rel=1e-5, nan_ok=True)
        else:
            assert ours == theirs
        return
    assert isinstance(ours, weft.Tensor), type(ours)
    assert tuple(ours.shape) == tuple(theirs.shape)
    assert dtype_name(ours) == dtype_name(theirs)
    limit = TOLERANCE.get(dtype_name(ours), 1e-10) if tolerance is None else tolerance
    np.testing.assert_allclose(as_numpy(ours), as_numpy(theirs), rtol=limit, atol=limit)
    if strides and 0 not in theirs.shape:
        pairs = zip(ours.stride(), theirs.stride(), theirs.shape, strict=True)
        assert all(a == b for a, b, size in pairs if size != 1), (ours.stride(), theirs.stride())


def run(library: Any, function: Callable[..., Any], arrays: tuple[Any, ...], grad: bool) -> Any:
    """Call `function(library, *tensors)`; with `grad`, floating inputs are leaves."""
    tensors = []
    for array in arrays:
        if isinstance(array, np.ndarray):
            array = library.from_numpy(array.copy()).clone()
            if grad and array.dtype.is_floating_point or (grad and array.dtype.is_complex):
                array.requires_grad_()
        tensors.append(array)
    return tensors, function(library, *tensors)


def compare(
    function: Callable[..., Any],
    *arrays: Any,
    grad: bool = True,
    strides: bool = True,
    tolerance: float | None = None,
) -> None:
    """`function(library, *tensors)` gives the same in both libraries, and the same gradients; or both raise, and then
    PyTorch's error class is among ours."""
    try:
        theirs_in, theirs = run(torch, function, arrays, grad)
    except Exception as error:  # noqa: BLE001
        expected = RuntimeError if isinstance(error, NotImplementedError) else type(error)
        with pytest.raises(expected) as caught:
            for result in leaves(run(weft, function, arrays, grad)[1]):
                as_numpy(result)  # what only the kernel can see is raised by the read
        assert isinstance(caught.value, weft.errors.WeftError) or expected is TypeError
        return
    ours_in, ours = run(weft, function, arrays, grad)
    pairs = list(zip(leaves(ours), leaves(theirs), strict=True))
    for mine, other in pairs:
        assert_same(mine, other, strides, tolerance)
    if grad:
        compare_gradients(ours_in, theirs_in, pairs, tolerance)


def compare_gradients(ours_in: Any, theirs_in: Any, pairs: Any, tolerance: float | None) -> None:
    """The gradients of a fixed weighted sum of the results agree."""
    outputs = [
        (mine, other)
        for mine, other in pairs
        if isinstance(other, torch.Tensor) and other.requires_grad
    ]
    assert [isinstance(m, weft.Tensor) and m.requires_grad for m, o in outputs] == [True] * len(
        outputs
    )
    wanted = [
        (a, b)
        for a, b in zip(ours_in, theirs_in, strict=True)
        if isinstance(b, torch.Tensor) and b.requires_grad
    ]
    if not outputs or not wanted:
        return
    seeds = [
        make(
            *other.shape,
            dtype=dtype_name(other) if "bfloat" not in dtype_name(other) else "float32",
            seed=9,
        )
        for _, other in outputs
    ]
    theirs = torch.autograd.grad(
        [o for _, o in outputs],
        [b for _, b in wanted],
        [
            torch.from_numpy(np.asarray(s)).to(o.dtype)
            for s, (_, o) in zip(seeds, outputs, strict=True)
        ],
        allow_unused=True,
    )
    ours = weft.autograd.grad(
        [m for m, _ in outputs],
        [a for a, _ in wanted],
        [
            weft.from_numpy(np.asarray(s)).to(m.dtype)
            for s, (m, _) in zip(seeds, outputs, strict=True)
        ],
        allow_unused=True,
    )
    for mine, other, (leaf, _) in zip(ours, theirs, wanted, strict=True):
        if other is None or mine is None:
            value = other if mine is None else mine
            assert value is None or not as_numpy(value).any()
            continue
        names = {dtype_name(leaf), *(dtype_name(m) for m, _ in outputs)}
        limit = tolerance or 10 * max(TOLERANCE.get(name, 1e-9) for name in names)
        assert tuple(mine.shape) == tuple(other.shape)
        np.testing.assert_allclose(as_numpy(mine), as_numpy(other), rtol=limit, atol=limit)


def product(**options: Any) -> list[dict[str, Any]]:
    """All combinations of keyword values."""
    return [
        dict(zip(options, values, strict=True)) for values in itertools.product(*options.values())
    ]
