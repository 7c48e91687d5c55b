"""What PyTorch's jagged tensors can do, ours do too, by the same lines."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from oracle import torch

LENGTHS = [2, 5, 1]
VALUES = np.random.default_rng(0).normal(size=(8, 6))


def both(program: Callable[[Any, Any, Any], Any]) -> list[Any]:
    """A program of a library, leaf values, and the jagged tensor of them."""
    found = []
    for library in (weft, torch):
        values = library.tensor(VALUES, requires_grad=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tensor = library.nested.nested_tensor_from_jagged(
                values, library.tensor([0, 2, 7, 8]), min_seqlen=1, max_seqlen=5
            )
            result = program(library, values, tensor)
        found.append(result)
    return found


def dense(found: Any) -> np.ndarray[Any, Any]:
    return (found.values() if found.is_nested else found).detach().numpy()


# name -> (program, whether PyTorch differentiates it, and rightly)
PROGRAMS: dict[str, tuple[Callable[[Any, Any], Any], bool]] = {
    "arithmetic": (lambda lib, x: (x * 2 + 1).sin() / x.exp() - x, True),
    "two": (lambda lib, x: x * x.cos() + lib.where(x > 0, x, -x), False),
    "broadcast": (lambda lib, x: x * lib.arange(6.0, dtype=lib.float64), True),
    "activations": (lambda lib, x: lib.nn.functional.gelu(lib.nn.functional.silu(x)), True),
    "linear": (lambda lib, x: lib.nn.functional.linear(x, lib.ones(3, 6, dtype=lib.float64)), True),
    "matmul": (lambda lib, x: x @ lib.ones(6, 2, dtype=lib.float64), True),
    "layer norm": (lambda lib, x: lib.nn.functional.layer_norm(x, (6,)), True),
    "softmax": (lambda lib, x: lib.softmax(x, -1), True),
    "ragged softmax": (lambda lib, x: lib.softmax(x, 1), False),
    "sum": (lambda lib, x: x.sum(1), False),
    "sum of rows": (lambda lib, x: x.sum(-1, keepdim=True), False),
    "mean": (lambda lib, x: x.mean(1), False),
    "largest": (lambda lib, x: lib.amax(x, 1), False),
    "transpose": (lambda lib, x: x.transpose(1, 2), True),
    "unflatten": (lambda lib, x: x.unflatten(-1, [2, 3]).transpose(1, 2), True),
    "chunk": (lambda lib, x: x.chunk(2, -1)[1], True),
    "unsqueeze": (lambda lib, x: x.unsqueeze(-1), True),
    "padded": (lambda lib, x: lib.nested.to_padded_tensor(x, 7.0), True),
    "cat": (lambda lib, x: lib.cat([x, x * 2], -1), True),
    "attention": (
        lambda lib, x: lib.nn.functional.scaled_dot_product_attention(
            *[x.unflatten(-1, [2, 3]).transpose(1, 2)] * 3
        ),
        True,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_results_and_gradients_agree(name: str) -> None:
    function, differentiable = PROGRAMS[name]

    def program(library: Any, values: Any, tensor: Any) -> Any:
        found = function(library, tensor)
        if differentiable:
            (found.values() if found.is_nested else found).pow(3).sum().backward()
        return found, values.grad

    (ours, own), (theirs, other) = both(program)
    np.testing.assert_allclose(dense(ours), dense(theirs), rtol=1e-6, atol=1e-9)
    shapes = [
        [size if isinstance(size, int) else "j" for size in one.shape] for one in (ours, theirs)
    ]
    assert shapes[0] == shapes[1]
    if differentiable:
        np.testing.assert_allclose(own.numpy(), other.numpy(), rtol=1e-6, atol=1e-9)


def test_structures_agree() -> None:
    def program(library: Any, values: Any, tensor: Any) -> Any:
        padded = library.arange(24).reshape(2, 4, 3)
        return [
            tensor.offsets().tolist(),
            [list(item.shape) for item in tensor.unbind()],
            tensor.dim(),
            tensor.is_nested,
            str(tensor.layout).split(".")[1],
            tensor[1].shape,
            library.nested.narrow(padded, 1, 1, library.tensor([2, 3]), layout=library.jagged)
            .unbind()[1]
            .tolist(),
            library.nested.masked_select(padded, padded % 5 == 0).values().tolist(),
            library.nested.nested_tensor([padded[0], padded[1, :2]], layout=library.jagged)
            .offsets()
            .tolist(),
        ]

    ours, theirs = both(program)
    assert ours == theirs
