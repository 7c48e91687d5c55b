"""Convolutions and their transposes of drawn geometries: values, gradients and second derivatives against PyTorch's."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import weft
from oracle import torch


def drawn(seed: int) -> tuple[int, dict[str, Any], list[Any]]:
    """The number of dimensions, options, and arrays for input, kernel (out, in / groups) and bias."""
    draw, source = random.Random(seed), np.random.default_rng(seed)
    rank = draw.choice([1, 2, 3])
    groups = draw.choice([1, 1, 2])
    inputs, outputs = groups * draw.choice([1, 2]), groups * draw.choice([1, 3])
    options = {
        "stride": tuple(draw.choice([1, 2, 3]) for _ in range(rank)),
        "padding": tuple(draw.choice([0, 1, 2]) for _ in range(rank)),
        "dilation": tuple(draw.choice([1, 1, 1, 2]) for _ in range(rank)),
        "groups": groups,
    }
    kernel = [draw.choice([1, 2, 3, 4]) for _ in range(rank)]
    shapes = [
        (draw.choice([1, 2]), inputs, *(draw.randint(7, 9) for _ in range(rank))),
        (outputs, inputs // groups, *kernel),
        (outputs,),
    ]
    return rank, options, [source.standard_normal(shape) for shape in shapes]


def derivatives(lib: Any, name: str, arrays: list[Any], options: dict[str, Any]) -> list[Any]:
    tensors = [lib.tensor(array, requires_grad=True) for array in arrays]
    value = getattr(lib.nn.functional, name)(*tensors, **options)
    first = lib.autograd.grad(value.square().sum(), tensors, create_graph=True)
    lib.stack([part.square().sum() for part in first]).sum().backward()
    found = [value, *first, *(tensor.grad for tensor in tensors)]
    return [part.detach().numpy() for part in found]


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("seed", range(25))
def test_values_and_derivatives(seed: int, transposed: bool) -> None:
    rank, options, (x, kernel, bias) = drawn(seed)
    name = f"conv{rank}d"
    if transposed:
        name = f"conv_transpose{rank}d"
        groups = options["groups"]
        kernel = np.ascontiguousarray(
            kernel.reshape(groups, -1, *kernel.shape[1:]).swapaxes(1, 2)
        ).reshape(x.shape[1], -1, *kernel.shape[2:])
        most = [max(pair) for pair in zip(options["stride"], options["dilation"], strict=True)]
        options["output_padding"] = tuple((seed + n) % size for n, size in enumerate(most))
    ours = derivatives(weft, name, [x, kernel, bias], options)
    theirs = derivatives(torch, name, [x, kernel, bias], options)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)
