"""`_foreach_add` and its kin do to every tensor of a list what PyTorch's do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from oracle import both, torch
from weft.functional.foreach import FOREACH

SHAPES = [(3,), (2, 2), ()]
LISTS = "list", "number", "numbers"
TWO = ("add", "sub", "mul", "div", "maximum", "minimum", "clamp_max", "clamp_min", "pow")
CALLS: dict[str, list[Any]] = {
    **{name: [(kind,) for kind in LISTS] for name in TWO},
    "addcmul": [("list", "list"), ("list", "list", "number"), ("list", "list", "numbers"), ("list", "list", "vector")],
    "lerp": [("list", "number"), ("list", "list"), ("list", "numbers")],
    "norm": [(), ("number",)], "copy": [("list",)],
}  # fmt: skip
CALLS["addcdiv"] = CALLS["addcmul"]


def arrays(seed: int) -> list[Any]:
    """Numbers in (0.1, 0.9), where every function has a value."""
    source = np.random.default_rng(seed)
    return [np.asarray(source.uniform(0.1, 0.9, shape), np.float32) for shape in SHAPES]


def argument(lib: Any, kind: str, seed: int) -> Any:
    """One argument of a kind, as a library's."""
    made: dict[str, Any] = {
        "list": [lib.tensor(array) for array in arrays(seed)],
        "number": 0.5,
        "numbers": [0.5, 2.0, -1.0],
        "vector": lib.tensor([0.5, 2.0, -1.0]),
    }
    return made[kind]


@pytest.mark.parametrize("name", sorted(set(FOREACH) - {"_foreach_mm"}))
def test_each_is_pytorchs(name: str) -> None:
    plain = name.removeprefix("_foreach_").removesuffix("_")
    for kinds in CALLS.get(plain, [()]):
        found = []
        for lib in (weft, torch):
            tensors = argument(lib, "list", 0)
            rest = [argument(lib, kind, 1 + place) for place, kind in enumerate(kinds)]
            result = getattr(lib, name)(tensors, *rest)
            found.append(tensors if name.endswith("_") else result)
        for ours, theirs in zip(*found, strict=True):
            assert ours.shape == theirs.shape
            np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=2e-6, atol=1e-6)


def test_every_name_is_pytorchs() -> None:
    assert set(FOREACH) == {name for name in dir(torch) if name.startswith("_foreach_")}


@both
def test_keywords_and_numbers_to_powers(lib: Any) -> None:
    tensors = [lib.ones(2), lib.ones(3)]
    lib._foreach_add_(tensors, [lib.ones(2), lib.ones(3)], alpha=3)
    lib._foreach_addcmul_(tensors, tensors, tensors, value=0.5)
    assert [tensor.tolist() for tensor in tensors] == [[12.0] * 2, [12.0] * 3]
    assert [power.tolist() for power in lib._foreach_pow(2.0, [lib.ones(2) * 3])] == [[8.0, 8.0]]
    norms = lib._foreach_norm(tensors, 1, dtype=lib.float64)
    assert [norm.item() for norm in norms] == [24.0, 36.0]
    assert norms[0].dtype == lib.float64


@both
def test_what_is_changed_is_returned(lib: Any) -> None:
    tensors = [lib.ones(2), lib.ones(3)]
    assert lib._foreach_add_(tensors, 1) is tensors
    assert lib._foreach_zero_(tensors) is tensors
    assert type(lib._foreach_add(tensors, 1)) is tuple


def test_gradients_pass() -> None:
    x = weft.tensor([1.0, 2.0], requires_grad=True)
    (y,) = weft._foreach_mul([x], [x])
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]


@both
def test_lists_of_other_lengths_are_refused(lib: Any) -> None:
    with pytest.raises(RuntimeError, match="must have the same number of tensors, got 2 and 1"):
        lib._foreach_mul([lib.ones(1), lib.ones(1)], [lib.ones(1)])


def test_products_of_pairs() -> None:
    source = np.random.default_rng(0)
    pairs = [((2, 3), (3, 4)), ((3, 2), (2, 2))]
    arrays = [[source.standard_normal(shape) for shape in shapes] for shapes in pairs]
    found = [
        lib._foreach_mm([lib.tensor(a) for a, _ in arrays], [lib.tensor(b) for _, b in arrays])
        for lib in (weft, torch)
    ]
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-12)
