"""Tensors of nested lists of numbers: read straight into memory where they are regular, and by NumPy where not."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from oracle import torch
from weft.tensor.creation.numbers import shape_of_sizes, tensor_of_list

floats = st.floats(width=64) | st.sampled_from([0.1, 1e39, -1e39, 1e-46, -0.0])
whole = st.integers(-(2**61), 2**61)


@settings(deadline=None, derandomize=True, database=None)
@given(data=st.data(), shape=st.lists(st.integers(1, 3), min_size=1, max_size=3))
def test_regular_lists_are_what_pytorch_makes_of_them(data: Any, shape: list[int]) -> None:
    numbers = data.draw(st.sampled_from([floats, whole]))
    count = math.prod(shape)
    values = data.draw(st.lists(numbers, min_size=count, max_size=count))
    nested: Any = np.array(values, dtype=object).reshape(shape).tolist()
    ours, theirs = weft.tensor(nested), torch.tensor(nested)
    assert str(ours.dtype).rpartition(".")[2] == str(theirs.dtype).rpartition(".")[2]
    assert np.array_equal(ours.numpy(), theirs.numpy(), equal_nan=True)
    assert (
        np.array_equal(np.signbit(ours.numpy()), np.signbit(theirs.numpy()))
        or np.isnan(ours.numpy()).any()
    )


@settings(deadline=None, derandomize=True, database=None)
@given(data=st.data(), shape=st.lists(st.integers(1, 3), min_size=1, max_size=3))
def test_lists_of_truth_values_are_read_as_they_are(data: Any, shape: list[int]) -> None:
    count = math.prod(shape)
    values = data.draw(st.lists(st.booleans(), min_size=count, max_size=count))
    nested = np.array(values, dtype=bool).reshape(shape).tolist()
    dtype = data.draw(st.sampled_from([None, "bool", "float32", "int64"]))
    made = tensor_of_list(nested, dtype and getattr(weft, dtype))
    assert (made is not None) == (dtype in (None, "bool"))
    ours = weft.tensor(nested, dtype=dtype and getattr(weft, dtype))
    theirs = torch.tensor(nested, dtype=dtype and getattr(torch, dtype))
    assert ours.dtype is getattr(weft, dtype or "bool")
    assert ours.tolist() == theirs.tolist()
    assert tuple(ours.shape) == tuple(theirs.shape)


@pytest.mark.parametrize(
    "data",
    [
        [],
        [[]],
        [1, 2.0],
        [True, False],
        [1, True],
        [2.0, 3],
        [[1, 2], [3, 4.5]],
        [1 + 2j],
        [[1.0], [np.float32(2)]],
        range(3),
        [range(3), range(3)],
        [(1, 2), [3, 4]],
    ],
)
def test_other_lists_are_as_before(data: Any) -> None:
    ours, theirs = weft.tensor(data), torch.tensor(data)
    assert str(ours.dtype).rpartition(".")[2] == str(theirs.dtype).rpartition(".")[2]
    assert ours.tolist() == theirs.tolist()
    assert tuple(ours.shape) == tuple(theirs.shape)


@pytest.mark.parametrize("data", [[1, [2]], [[1], 2], [[1, 2], [3]], [[1.0], "x"], [2**70]])
def test_wrong_lists_raise_what_they_did(data: Any) -> None:
    assert tensor_of_list(data) is None
    with pytest.raises((ValueError, TypeError, RuntimeError)):
        weft.tensor(data)


def test_the_default_type_is_asked() -> None:
    before = weft.get_default_dtype()
    try:
        for dtype in (weft.float64, weft.float16, weft.bfloat16):
            weft.set_default_dtype(dtype)
            made = weft.tensor([0.5, 2.0])
            assert made.dtype is dtype
            assert made.tolist() == [0.5, 2.0]
    finally:
        weft.set_default_dtype(before)


def test_what_is_known_of_indices() -> None:
    """The largest element is found while they are read: an index that is out of range is refused at the call."""
    table = weft.arange(4.0)
    assert table[weft.tensor([3, 0])].tolist() == [3.0, 0.0]
    assert table[weft.tensor([-1, 0])].tolist() == [3.0, 0.0]
    with pytest.raises(IndexError):
        table[weft.tensor([[0, 4]])]
    with pytest.raises(IndexError):
        table[weft.tensor([0, -5])]


WIDE = [
    ([1, 2**63], None), ([1, 2**64], None), ([-(2**63) - 1], None), ([True, 2**63], None), ([1, 2**63], "int64"),
    ([1, 2**63], "int8"), ([[2**63 - 1], [-(2**63)]], None), ([1.0, 2**70], None), ([1, 2**70], "float64"),
    ([-(2**63) - 1, 2], "float16"), ([2**70, 1j], None), ([1, 2j], "float32"), ([1, 2j], "int64"),
    ([[1.0], [2j]], "float64"),
]  # fmt: skip


@pytest.mark.parametrize(("data", "name"), WIDE)
def test_what_a_type_cannot_hold_is_refused_as_in_pytorch(data: Any, name: str | None) -> None:
    """Never rounded by way of another type, and no imaginary part is left out."""
    found: list[Any] = []
    for lib in (weft, torch):
        try:
            made = lib.tensor(data, dtype=name and getattr(lib, name))
            found.append((str(made.dtype).rpartition(".")[2], made.tolist()))
        except (RuntimeError, ValueError, TypeError):
            found.append("refused")
    assert found[0] == found[1]


def test_a_list_that_holds_itself_ends() -> None:
    data: list[Any] = []
    data.append(data)
    assert tensor_of_list(data) is None


def test_sizes() -> None:
    assert shape_of_sizes((2, 3)) == (2, 3)
    assert shape_of_sizes(((2, 3),)) == (2, 3)
    assert shape_of_sizes(([],)) == ()
    assert shape_of_sizes((-1,)) is None
    assert shape_of_sizes((True,)) is None
    assert shape_of_sizes((2.0,)) is None
    assert weft.zeros(True).shape == (1,)
