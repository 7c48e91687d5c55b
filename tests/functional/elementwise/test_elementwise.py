"""Elementwise functions against PyTorch: values, types, strides, gradients, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from functional_oracle import compare, make, torch

UNARY = [
    "abs",
    "sgn",
    "square",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "sqrt",
    "rsqrt",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "tanh",
    "sinh",
    "cosh",
    "asinh",
    "acosh",
    "atanh",
    "sigmoid",
    "erf",
    "erfc",
    "reciprocal",
    "isfinite",
    "isinf",
    "isnan",
    "logical_not",
    "floor",
    "ceil",
    "trunc",
    "neg",
    "sign",
    "round",
    "frac",
    "relu",
    "isposinf",
    "isneginf",
    "deg2rad",
    "rad2deg",
    "angle",
    "absolute",
    "sinc",
]
BINARY = [
    "add",
    "sub",
    "mul",
    "div",
    "true_divide",
    "remainder",
    "fmod",
    "maximum",
    "minimum",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "atan2",
    "logical_and",
    "logical_or",
    "logical_xor",
    "fmax",
    "fmin",
    "rsub",
]
TYPES = ("float32", "float64", "int64", "bool", "float16", "complex64")
MIXED = ("float32", "float64", "int64", "uint8", "bool", "float16", "complex64")


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str, dtype: str) -> None:
    low, high = (1.1, 2.9) if name == "acosh" else (0.1, 0.9)
    compare(lambda lib, x: getattr(lib, name)(x), make(3, 4, dtype=dtype, low=low, high=high))


@pytest.mark.parametrize("name", UNARY)
def test_unary_keeps_the_layout_and_bfloat16(name: str) -> None:
    low, high = (1.1, 2.9) if name == "acosh" else (0.1, 0.9)
    x = make(3, 4, low=low, high=high)
    compare(lambda lib, x: getattr(lib, name)(x.t()), x)
    compare(lambda lib, x: getattr(lib, name)(x.to(lib.bfloat16)), x, tolerance=5e-2)


def _divisor(name: str, array: Any) -> Any:
    """No integer division by zero: that ends differently on each machine."""
    if name in ("remainder", "fmod", "div", "true_divide") and array.dtype.kind in "iu":
        return np.where(array == 0, 3, array).astype(array.dtype)
    return array


@pytest.mark.parametrize("first", MIXED)
@pytest.mark.parametrize("name", BINARY)
def test_binary_promotion(name: str, first: str) -> None:
    for second in MIXED:
        if name in ("remainder", "fmod") and second == "bool":
            continue
        if name == "atan2" and {first, second} & {"uint8", "bool", "int64"}:
            continue  # PyTorch's own gradient overflows or fails there
        half = "float16" in (first, second)
        x, y = make(3, 4, dtype=first, seed=1), _divisor(name, make(3, 4, dtype=second, seed=2))
        compare(lambda lib, a, b: getattr(lib, name)(a, b), x, y, tolerance=3e-3 if half else 1e-4)


SCALED = [
    n
    for n in BINARY
    if n not in ("maximum", "minimum", "atan2", "fmax", "fmin") and "logical" not in n
]


@pytest.mark.parametrize("dtype", ("float32", "int64", "bool"))
@pytest.mark.parametrize("name", SCALED)
def test_binary_with_numbers(name: str, dtype: str) -> None:
    for number in (2, 2.5, True, 3, -1, 0.5, -2.0):
        if dtype == "bool" and number is True and name in ("remainder", "fmod"):
            continue
        compare(lambda lib, x, n=number: getattr(lib, name)(x, n), make(3, 4, dtype=dtype, seed=1))


@pytest.mark.parametrize("name", BINARY)
def test_binary_broadcasts_and_refuses(name: str) -> None:
    x, y = np.abs(make(4, 3, seed=1)) + 0.1, np.abs(make(4, seed=2)) + 0.1
    compare(lambda lib, a, b: getattr(lib, name)(a.t(), b), x, y)
    compare(lambda lib, a, b: getattr(lib, name)(a, b), x, y)


CASES: dict[str, Any] = {
    "alpha": lambda lib, x, y: lib.add(x, y, alpha=2) - lib.sub(x, y, alpha=0.5),
    "rsub alpha": lambda lib, x, y: lib.rsub(x, y, alpha=3),
    "div trunc": lambda lib, x, y: lib.div(x.detach(), y.detach(), rounding_mode="trunc"),
    "div floor": lambda lib, x, y: lib.div(x.detach(), y.detach(), rounding_mode="floor"),
    "div bad": lambda lib, x, y: lib.div(x, y, rounding_mode="up"),
    "floor_divide": lambda lib, x, y: lib.floor_divide(x.detach(), y.detach()),
    "pow tensor": lambda lib, x, y: x.abs() ** y,
    "scalar pow": lambda lib, x, y: 2.0**y,
    "clamp": lambda lib, x, y: x.clamp(-1, 1) + lib.clip(y, max=0.5) + lib.clamp(x, min=y),
    "clamp tensors": lambda lib, x, y: lib.clamp(x, y, y + 1),
    "clamp crossed": lambda lib, x, y: lib.clamp(x, 1, -1) + y,
    "clamp nothing": lambda lib, x, y: lib.clamp(x),
    "clamp_min": lambda lib, x, y: lib.clamp_min(x, 0) + lib.clamp_max(y, 0.3),
    "lerp": lambda lib, x, y: lib.lerp(x, y, 0.3) + lib.lerp(x, y, 0.8),
    "lerp tensor": lambda lib, x, y: lib.lerp(x, y, x),
    "addcmul": lambda lib, x, y: lib.addcmul(x, x, y, value=0.5),
    "addcdiv": lambda lib, x, y: lib.addcdiv(x, x, y, value=0.5),
    "hypot": lambda lib, x, y: lib.hypot(x, y),
    "logaddexp": lambda lib, x, y: lib.logaddexp(x, y),
    "xlogy": lambda lib, x, y: lib.xlogy(x, y.abs()),
    "copysign": lambda lib, x, y: lib.copysign(x, y),
    "float_power": lambda lib, x, y: lib.float_power(x.abs(), y),
    "where": lambda lib, x, y: lib.where(x > 0, x, y),
    "where number": lambda lib, x, y: lib.where(x > 0, x, 1.5) + lib.where(y > 0, 2, y),
    "where numbers": lambda lib, x, y: lib.where(x > 0, 1, 2),
    "where method": lambda lib, x, y: x.where(y > 0, y),
    "where not bool": lambda lib, x, y: lib.where(x, x, y),
    "isclose": lambda lib, x, y: lib.isclose(x, x + 1e-9) & lib.isclose(x, y, atol=0.5),
    "allclose": lambda lib, x, y: [lib.allclose(x, x + 1e-9), lib.allclose(x, y)],
    "equal": lambda lib, x, y: [lib.equal(x, x * 1), lib.equal(x, y), x.equal(x[:1])],
    "nan_to_num": lambda lib, x, y: (x / (x - x)).nan_to_num(1.0, 2.0, 3.0),
    "logit": lambda lib, x, y: lib.logit(x.abs() / 2.1) + lib.logit(y, eps=0.1),
    "masked_fill": lambda lib, x, y: x.masked_fill(y > 0, 3) + y.masked_fill(x > 0, -1.5),
    "masked_fill tensor": lambda lib, x, y: x.masked_fill(y > 0, y[0, 0]),
    "masked_fill not bool": lambda lib, x, y: x.masked_fill(y, 3),
    "round decimals": lambda lib, x, y: lib.round(x, decimals=2),
    "dist": lambda lib, x, y: lib.dist(x, y, 3),
    "add non-tensor": lambda lib, x, y: lib.add(2.0, x),
    "exp non-tensor": lambda lib, x, y: lib.exp(2.0),
}


@pytest.mark.parametrize("name", CASES)
def test_cases(name: str) -> None:
    compare(
        CASES[name],
        make(3, 4, dtype="float64"),
        make(3, 4, dtype="float64", seed=5),
        tolerance=1e-8,
    )


@pytest.mark.parametrize("exponent", (0, 1, 2, 3, 4, -1, -2, 0.5, -0.5, 1.5, 2.0, -3.0))
def test_powers(exponent: float) -> None:
    base = np.array([0.0, 0.5, 1.0, 2.0, 3.5])
    compare(lambda lib, x: x**exponent, base)
    compare(lambda lib, x: lib.pow(x, exponent), base.astype(np.int64) + 1)
    compare(
        lambda lib, x: x**exponent, np.array([True, False]), grad=False
    ) if exponent > 1 else None


KINKS = np.array([-np.inf, -2.0, -1.0, -0.0, 0.0, 1.0, 2.0, np.inf, np.nan])


@pytest.mark.parametrize(
    "name", ("abs", "sign", "relu", "sqrt", "rsqrt", "log", "floor", "round", "trunc", "acosh")
)
def test_kinks(name: str) -> None:
    compare(lambda lib, x: getattr(lib, name)(x), KINKS)


@pytest.mark.parametrize(
    "name", ("maximum", "minimum", "fmod", "remainder", "atan2", "fmax", "logaddexp")
)
def test_binary_kinks(name: str) -> None:
    x, y = (grid.reshape(-1) for grid in np.meshgrid(KINKS, KINKS))
    with np.errstate(all="ignore"):
        ours = getattr(weft, name)(weft.from_numpy(x), weft.from_numpy(y)).numpy()
        theirs = getattr(torch, name)(torch.from_numpy(x), torch.from_numpy(y)).numpy()
    np.testing.assert_allclose(ours, theirs)


def test_ties_of_maximum_split_evenly() -> None:
    compare(
        lambda lib, x, y: lib.maximum(x, y) + 2 * lib.minimum(x, y),
        np.ones(3),
        np.array([0.0, 1.0, 2.0]),
    )


IN_PLACE: dict[str, Any] = {
    "add_": lambda x, y: x.add_(y, alpha=2),
    "sub_": lambda x, y: x.sub_(1.5),
    "mul_": lambda x, y: x.mul_(y),
    "div_": lambda x, y: x.div_(y),
    "pow_": lambda x, y: x.pow_(2),
    "clamp_": lambda x, y: x.clamp_(-1, 1),
    "exp_": lambda x, y: x.exp_(),
    "neg_": lambda x, y: x.neg_(),
    "sigmoid_": lambda x, y: x.sigmoid_(),
    "copy_": lambda x, y: x.copy_(y[0]),
    "fill_": lambda x, y: x.fill_(3),
    "zero_": lambda x, y: x.zero_(),
    "lerp_": lambda x, y: x.lerp_(y, 0.3),
    "addcmul_": lambda x, y: x.addcmul_(y, y, value=2),
    "masked_fill_": lambda x, y: x.masked_fill_(y > 0, 7),
    "round_": lambda x, y: x.round_(),
    "operators": lambda x, y: x.__iadd__(y).__imul__(2).__isub__(y).__itruediv__(3),
    "shape": lambda x, y: x[0].add_(y),
    "copy shape": lambda x, y: x.copy_(y[:2]),
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place(name: str) -> None:
    """On a fresh result, and through a transposed view, whose base changes."""

    def direct(lib: Any, x: Any, y: Any) -> Any:
        z = x * 1
        return IN_PLACE[name](z, y) * 1, z

    def through_view(lib: Any, x: Any, y: Any) -> Any:
        base = x * 1
        IN_PLACE[name](base.t(), y.t())
        return base

    x, y = make(3, 4, dtype="float64"), make(3, 4, dtype="float64", seed=5)
    compare(direct, x, y)
    if name not in ("shape", "copy_", "copy shape"):
        compare(through_view, x, y)


def test_in_place_keeps_the_type() -> None:
    compare(lambda lib, x: x.clone().add_(1.5), make(3, dtype="int64"))
    compare(lambda lib, x: x.clone().add_(True).mul_(2), make(3, dtype="int64"))
    compare(lambda lib, x: x.clone().copy_(lib.tensor([1.7, 2.2, -3.9])), make(3, dtype="int64"))
    compare(lambda lib, x: x.clone().fill_(2.7), make(3, dtype="int64"))


def test_out() -> None:
    x = weft.tensor([1.0, 4.0])
    out = weft.empty(2)
    assert weft.sqrt(x, out=out) is out
    assert out.tolist() == [1.0, 2.0]
    with pytest.warns(UserWarning, match="was resized"):
        assert weft.sqrt(x, out=weft.empty(3)).tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("call", "text", "fix"),
    (
        (
            lambda: -weft.tensor([True]),
            "Negation, the `-` operator, on a bool tensor",
            "use ~input",
        ),
        (
            lambda: weft.tensor([True]) - weft.tensor([True]),
            "Subtraction, the `-` operator, with two bool",
            r"input \^ other",
        ),
        (
            lambda: weft.tensor([2]) ** -1,
            "Integers to negative integer powers are not allowed",
            r"\.float\(\)",
        ),
        (
            lambda: weft.add(weft.tensor([1]), weft.tensor([1]), alpha=0.5),
            "argument alpha must not be",
            "pass an int",
        ),
        (lambda: weft.tensor([1j]) < 1, "not implemented for 'ComplexFloat'", r"\.abs\(\)"),
        (
            lambda: weft.zeros(2, 3) + weft.zeros(4),
            r"The size of tensor a \(3\) must match",
            "reshape, transpose",
        ),
    ),
)
def test_messages(call: Any, text: str, fix: str) -> None:
    with pytest.raises(RuntimeError, match=text) as caught:
        call()
    assert "test_elementwise.py" in str(caught.value)
    caught.match(rf"fix +.*{fix}")
