"""Printing: the text is PyTorch's for any tensor, and the options mean the same."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import weft
from oracle import torch

DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64",
          "complex128"]  # fmt: skip
OPTIONS: list[dict[str, Any]] = [
    {},
    {"precision": 2},
    {"precision": 8},
    {"sci_mode": True},
    {"sci_mode": False},
    {"linewidth": 40},
    {"edgeitems": 1, "threshold": 5},
    {"profile": "short"},
    {"profile": "full"},
]
SIZES = (0.0, 1.0, 3.0, 1e-6, 1e-3, 0.25, 1e5, 123456.0, 1e9)


@pytest.fixture(autouse=True)
def default_options() -> Iterator[None]:
    yield
    torch.set_printoptions(profile="default")
    weft.set_printoptions(profile="default")


def normal(text: str) -> str:
    """Without the line breaks that the package's name moves: `weft` is a letter shorter."""
    return re.sub(r",\s+(dtype|requires_grad|grad_fn)=", r", \1=", text.replace("weft.", "torch."))


@st.composite
def values(draw: st.DrawFn) -> Any:
    """Arrays of one character each: whole, decimal, tiny, huge, mixed, with nan and infinities."""
    name = draw(st.sampled_from(DTYPES))
    shape = draw(arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=13))
    base = draw(st.sampled_from(SIZES))
    special = draw(st.sampled_from([0.0, 0.0, 0.3, 1.0]))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    numbers = generator.standard_normal(shape) * base
    if draw(st.booleans()):
        numbers = np.round(numbers)
    odd = generator.choice([np.nan, np.inf, -np.inf, -0.0], shape)
    numbers = np.where(generator.random(shape) < special, odd, numbers)
    with np.errstate(all="ignore"):
        if name.startswith("complex"):
            return (numbers + 1j * np.flip(numbers)).astype(name)
        if "int" in name:
            return np.nan_to_num(numbers, posinf=99, neginf=-99).astype(np.int64).astype(name)
        return numbers.astype(name)


@given(values(), st.sampled_from(OPTIONS))
@settings(max_examples=400, deadline=None)
def test_repr_is_that_of_pytorch(array: Any, options: dict[str, Any]) -> None:
    for framework in (torch, weft):
        framework.set_printoptions(profile="default")
        framework.set_printoptions(**options)
    expected = repr(torch.from_numpy(np.array(array, order="C")))
    assert normal(repr(weft.tensor(array))) == normal(expected)


@given(values())
@settings(max_examples=50, deadline=None)
def test_bfloat16_prints_as_pytorch(array: Any) -> None:
    single = np.array(array.real, np.float32, order="C")
    expected = repr(torch.from_numpy(single).bfloat16())
    assert normal(repr(weft.tensor(single).bfloat16())) == normal(expected)


SAME_TEXT = """
tensor(2.5)
tensor([])
tensor([], dtype=int64)
zeros(0, 3)
zeros(2, 0, 3, dtype=float64)
tensor([2.0], requires_grad=True)
tensor([2.0], requires_grad=True) * 2
tensor([2.0], dtype=float64, requires_grad=True).sum()
tensor([1.0, 2.0], requires_grad=True)[0]
tensor([1, 2], dtype=int32)
tensor([True, False])
arange(1001)
arange(1200.0).view(30, 40)
arange(2000).view(2, 1000)
zeros(10, 10, 11)
tensor([1e-5, 1.0])
tensor([1.0, 1e9])
tensor([0.1, 1000.5])
tensor([1 + 2j])
tensor([nan, inf, 1.0])
tensor([1.0]).expand(3)
ones(2, 3).t()
nn.Parameter(tensor([1.0, 2.0]))
nn.Parameter(zeros(2, 2))
tensor([[1.5, -2.25], [1000.0, 0.0]])
""".strip().splitlines()


@pytest.mark.parametrize("text", SAME_TEXT)
def test_known_texts(text: str) -> None:
    expected, got = (
        repr(eval(text, {**vars(framework), "nn": framework.nn})) for framework in (torch, weft)
    )
    assert normal(got) == normal(expected)


def test_custom_function_is_named_by_its_class() -> None:
    class Double(weft.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            return gradient * 2

    x = weft.tensor([2.0], requires_grad=True)
    assert repr(Double.apply(x)) == "tensor([4.], grad_fn=<DoubleBackward>)"


def test_default_dtype_is_not_printed() -> None:
    weft.set_default_dtype(weft.float64)
    try:
        assert repr(weft.tensor([1.5])) == "tensor([1.5000])"
        assert repr(weft.ones(1, dtype=weft.float32)) == "tensor([1.], dtype=weft.float32)"
    finally:
        weft.set_default_dtype(weft.float32)


def test_format_takes_a_spec_without_dimensions_only() -> None:
    assert f"{weft.tensor(2.5):.2f}" == "2.50"
    assert f"{weft.tensor(2.5)}" == "2.5"
    assert f"{weft.tensor([2.5])}" == "tensor([2.5000])"
    with pytest.raises(TypeError, match=r"(?s)unsupported format string.*fix +format elements"):
        format(weft.tensor([2.5]), ".2f")


def test_unknown_profile() -> None:
    with pytest.raises(ValueError, match=r"(?s)one of default, short, full.*fix"):
        weft.set_printoptions(profile="long")
