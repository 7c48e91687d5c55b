"""Orders of rows of all lengths and types against PyTorch's stable sort; what is made of orders, and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from oracle import torch
from weft.engine.devices.cpu.kernels.sort import COUNTED_LENGTH, FEW, SEGMENT, STACK_BYTES

FLOATS = ("float16", "bfloat16", "float32", "float64")
TYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", *FLOATS)
# Around the lengths from which rows are put in order in another way, in one half of the stack, and beyond it.
LENGTHS = (
    1,
    2,
    15,
    16,
    17,
    COUNTED_LENGTH,
    COUNTED_LENGTH + 1,
    300,
    STACK_BYTES // 16,
    STACK_BYTES // 16 + 1,
)


def numbers(dtype: str, shape: tuple[int, ...], seed: int = 0) -> Any:
    """Many equal elements, and where there are: both zeros, infinities, nans of both signs, the ends of the range."""
    made = np.random.default_rng([seed, *shape])
    array = made.integers(-9, 10, shape).astype(np.float64)
    if dtype in FLOATS:
        for value in (np.nan, -np.nan, np.inf, -np.inf, -0.0, 1e-7, 0.5):
            array[made.random(shape) < 0.04] = value
        return torch.tensor(array).to(getattr(torch, dtype))
    if dtype == "bool":
        return torch.tensor(array > 0)
    ends = torch.iinfo(getattr(torch, dtype))
    found = torch.tensor(np.abs(array) if ends.min == 0 else array).to(getattr(torch, dtype))
    for end in (ends.min, ends.max):
        found[torch.tensor(made.random(shape) < 0.05)] = end
    return found


def ours(x: Any) -> Any:
    return (
        weft.tensor(x.float().numpy()).bfloat16()
        if x.dtype is torch.bfloat16
        else weft.tensor(x.numpy())
    )


def same(found: Any, expected: Any) -> None:
    wide = expected.float() if expected.dtype is torch.bfloat16 else expected
    mine = found.float() if found.dtype is weft.bfloat16 else found
    np.testing.assert_array_equal(mine.numpy(), wide.numpy())


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("length", LENGTHS)
def test_stable_sorts(dtype: str, length: int) -> None:
    x = numbers(dtype, (3, length))
    for descending in (False, True):
        expected = x.sort(dim=1, descending=descending, stable=True)
        found = ours(x).sort(dim=1, descending=descending, stable=True)
        same(found.indices, expected.indices)
        same(found.values, expected.values)
        same(ours(x).argsort(1, descending, True), expected.indices)
        for k in {1, min(5, length), min(FEW, length), length // 2} if dtype != "bool" else ():
            same(ours(x).topk(k, 1, descending).indices, expected.indices[:, :k])


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (0, 3), (2, 70, 3), (70, 2, 3)])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_other_dimensions_and_nothing(shape: tuple[int, ...], dim: int) -> None:
    if dim >= max(len(shape), 1):
        return
    x = numbers("float32", shape)
    for mine, theirs in (
        (ours(x).sort(dim=dim, stable=True), x.sort(dim=dim, stable=True)),
        (
            ours(x).t().sort(dim) if x.ndim == 2 else None,
            x.t().sort(dim=dim, stable=True) if x.ndim == 2 else None,
        ),
        (ours(x).cummin(dim), x.cummin(dim)),
        (ours(x).cummax(dim), x.cummax(dim)),
    ):
        if mine is not None:
            same(mine.values, theirs.values)
            same(mine.indices, theirs.indices)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize("ascending", [False, True])
def test_long_rows_are_put_in_order_by_several_launches(dtype: str, ascending: bool) -> None:
    x = torch.randint(0, 1 << 40, (SEGMENT + 3,), generator=torch.Generator().manual_seed(1))
    x = x.sort()[0] if ascending else x
    x = x.to(getattr(torch, dtype))
    same(ours(x).sort(stable=True).indices, x.sort(dim=-1, stable=True).indices)


@pytest.mark.parametrize("fill", [np.nan, np.inf, -np.inf, 3.0])
def test_few_of_a_row_of_equal_elements(fill: float) -> None:
    """Nothing is better than the largest key: its places come in their order all the same."""
    array = np.full((2, 500), fill, np.float32)
    array[0, [3, 7]] = 1
    for descending in (False, True):
        expected = torch.tensor(array).sort(dim=1, descending=descending, stable=True)
        found = weft.tensor(array).topk(9, 1, descending)
        np.testing.assert_array_equal(found.indices.numpy(), expected.indices[:, :9].numpy())


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("length", [1, 4, 17, 200])
def test_medians_and_the_kth(dtype: str, length: int) -> None:
    x = numbers(dtype, (6, length))
    x[0] = 1
    if dtype != "int32":
        x[:3] = torch.nan_to_num(x[:3])
    same(ours(x).median(1).values, x.median(1).values)
    same(ours(x).median(), x.median())
    same(ours(x)[:2].median(), x[:2].median())
    for k in {1, length // 2 + 1, length}:
        same(ours(x).kthvalue(k, 1).values, x.kthvalue(k, 1).values)
    places = ours(x).median(1, True)
    same(ours(x).gather(1, places.indices), x.median(1, True).values)


def test_gradients_go_where_values_came_from() -> None:
    for take in (
        lambda x: x.sort(1)[0],
        lambda x: x.topk(3, 1)[0],
        lambda x: x.kthvalue(4, 1)[0],
        lambda x: x.median(1)[0],
        lambda x: x.median(),
        lambda x: x.cummax(1)[0],
        lambda x: x.cummin(0)[0],
    ):
        values = np.random.default_rng(0).permutation(60).reshape(4, 15).astype(np.float32)
        x, y = weft.tensor(values, requires_grad=True), torch.tensor(values, requires_grad=True)
        for leaf in (x, y):
            out = take(leaf)
            (out * out).sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy())  # type: ignore[union-attr]


def test_orders_read_nothing_and_are_mapped() -> None:
    """An order is recorded as other operations are: in one program with what comes before and behind it."""
    x = weft.tensor(np.random.default_rng(0).standard_normal((5, 40)).astype(np.float32))
    from weft.debug import stages

    text = stages(lambda: (x * 2).sort(1)[0].exp())["record"]
    assert "order" in text and "gather" in text and "exp" in text
    rows = weft.func.vmap(lambda row: row.sort()[0])(x)
    np.testing.assert_array_equal(rows.numpy(), np.sort(x.numpy(), 1))
    few = weft.map(lambda row: row.topk(3)[1], list(x))
    for row, found in zip(x, few, strict=True):
        np.testing.assert_array_equal(found.numpy(), np.argsort(-row.numpy(), kind="stable")[:3])


@given(st.lists(st.floats(width=32), min_size=1, max_size=200), st.booleans())
@settings(max_examples=60, deadline=None)
def test_any_floats(values: list[float], descending: bool) -> None:
    x = torch.tensor(values, dtype=torch.float32)
    expected = x.sort(dim=-1, descending=descending, stable=True).indices
    np.testing.assert_array_equal(ours(x).argsort(0, descending).numpy(), expected.numpy())


@pytest.mark.parametrize("name", ["sort", "argsort", "topk", "kthvalue", "cummax", "cummin"])
def test_complex_numbers_have_no_order(name: str) -> None:
    rest = (1,) if name in ("topk", "kthvalue") else (0,)
    with pytest.raises(RuntimeError, match="complex|Complex"):
        getattr(torch, name)(torch.ones(3, dtype=torch.complex64), *rest)
    with pytest.raises(RuntimeError, match="complex|Complex"):
        getattr(weft, name)(weft.ones(3, dtype=weft.complex64), *rest)
