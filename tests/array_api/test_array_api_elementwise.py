"""Every element-wise function of the standard on every type that it takes, special values among them, beside NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft

xp: Any = weft.ones(1).__array_namespace__()
INTEGERS = ("int8", "int64", "uint16", "uint64")
FLOATS, COMPLEX = ("float32", "float64"), ("complex64", "complex128")
REAL, INEXACT = (*INTEGERS, *FLOATS), (*FLOATS, *COMPLEX)
NUMERIC = (*REAL, *COMPLEX)
UNARY = {
    NUMERIC: "abs conj isfinite isinf isnan negative positive real round sign square",
    REAL: "ceil floor trunc",
    FLOATS: "signbit",
    COMPLEX: "imag",
    INEXACT: "acos acosh asin asinh atan atanh cos cosh exp expm1 log log10 log1p log2 sin sinh sqrt tan tanh",
    ("bool", *INTEGERS): "bitwise_invert",
    ("bool",): "logical_not",
}
BINARY = {
    NUMERIC: "add multiply subtract equal not_equal",
    REAL: "floor_divide greater greater_equal less less_equal maximum minimum remainder pow",
    FLOATS: "atan2 copysign divide hypot logaddexp nextafter",
    ("bool", *INTEGERS): "bitwise_and bitwise_or bitwise_xor",
    INTEGERS: "bitwise_left_shift bitwise_right_shift",
    ("bool",): "logical_and logical_or logical_xor",
}
INF, NAN = float("inf"), float("nan")
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 1e-3, 1e30, -1e30, 88.0, 1e-8, INF, -INF, NAN]
# A sign that the standard leaves open, or that annex G of C99 does.
OPEN = {"maximum", "minimum"}
AXIS = [0.0, -0.0, 1.0, -2.5, 1e-6, INF, -INF, NAN]


def values(dtype: str) -> Any:
    kind = np.dtype(dtype).kind
    if kind == "b":
        return np.array([False, True])
    if kind in "iu":
        info = np.iinfo(dtype)
        return np.array([0, 1, 2, 5, 100, info.max, info.min, info.max - 1], dtype)
    if kind == "f":
        return np.array(SPECIAL, dtype)
    return np.array([complex(a, b) for a in AXIS for b in AXIS], dtype)


def assert_close(found: Any, wanted: Any, signs: bool = True, atol: float = 0) -> None:
    """Equal types; equal integers; floats within a few units, nan, infinities and, where asked for, signs of zeros."""
    assert found.dtype == wanted.dtype and found.shape == wanted.shape
    if wanted.dtype.kind in "biu":
        np.testing.assert_array_equal(found, wanted)
        return
    if wanted.dtype.kind == "c":
        assert_close(found.real, wanted.real, signs, atol)
        assert_close(found.imag, wanted.imag, signs, atol)
        return
    rtol = 2e-6 if wanted.dtype == np.float32 else 1e-14
    np.testing.assert_allclose(found, wanted, rtol=rtol, atol=atol)
    if signs:
        zeros = (found == 0) & (wanted == 0)
        np.testing.assert_array_equal(np.signbit(found[zeros]), np.signbit(wanted[zeros]))


def table(families: dict[tuple[str, ...], str]) -> list[tuple[str, str]]:
    return [
        (name, dtype)
        for types, names in families.items()
        for name in names.split()
        for dtype in types
    ]


def reference(name: str, x: Any) -> Any:
    """What NumPy has in its widest type: float32 and complex functions of its own are off by more than a few units."""
    with np.errstate(all="ignore"):
        wide = {"f": np.longdouble, "c": np.clongdouble}.get(x.dtype.kind, x.dtype)
        result = getattr(np, name)(x.astype(wide))
        narrow = {"f": x.real.dtype, "c": x.dtype}.get(result.dtype.kind, result.dtype)
        return result.astype(narrow)


def without_open_signs(name: str, x: Any) -> Any:
    """The elements where the standard fixes the result, with its sign."""
    if x.dtype.kind != "c":
        return x
    if name in (
        "log",
        "log2",
        "log10",
        "abs",
        "negative",
        "square",
        "conj",
        "real",
        "imag",
        "positive",
    ):
        return x
    both = ~np.isfinite(x.real) & ~np.isfinite(x.imag)
    keep = ~both & ~np.isnan(x)
    if name in ("sin", "cos", "tan"):
        keep &= np.isfinite(x.real)
    if name in ("sinh", "cosh", "tanh", "exp"):
        keep &= np.isfinite(x.imag)
    if name in ("expm1", "sign"):
        keep &= np.isfinite(x)
    return x[keep]


@pytest.mark.parametrize("name, dtype", table(UNARY))
def test_functions_of_one_array(name: str, dtype: str) -> None:
    x = without_open_signs(name, values(dtype))
    found = getattr(xp, name)(weft.tensor(x)).resolve_conj().resolve_neg().numpy()
    rounded = 1e-18 if name == "log1p" else 0.0  # the reference is the one that cancels
    assert_close(found, reference(name, x), name != "sign", rounded)


@pytest.mark.parametrize("name, dtype", table(BINARY))
def test_functions_of_two_arrays(name: str, dtype: str) -> None:
    others = {"float32": "float64", "int8": "uint8", "uint16": "uint32"}
    for second in (dtype, others.get(dtype, dtype)):
        a, b = values(dtype)[:, None], values(second)[None]
        if name in ("floor_divide", "remainder") and b.dtype.kind in "iu":
            b = b[b != 0][None]
        if "shift" in name or (name == "pow" and b.dtype.kind in "iu"):
            b = np.array([[0, 1, 2, 3]], second)
        if a.dtype.kind == "c":
            a, b = a[np.isfinite(a)][:, None], b[np.isfinite(b)][None]
        with np.errstate(all="ignore"):
            wanted = getattr(np, name)(a, b)
            if name == "floor_divide" and wanted.dtype.kind == "f":  # NumPy has nan, the standard
                wanted = np.where(np.isinf(a), a / b, wanted)
        found = getattr(xp, name)(weft.tensor(a), weft.tensor(b)).numpy()
        cancelled = 1e-12 if name == "multiply" and wanted.dtype.kind == "c" else 0.0
        assert_close(found, wanted, name not in OPEN, cancelled)


def test_nan_has_no_sign() -> None:
    assert np.isnan(xp.sign(weft.tensor([NAN])).numpy()).all()
    assert weft.sign(weft.tensor([NAN])).tolist() == [0.0]  # PyTorch's


def test_clip() -> None:
    x = weft.tensor([1.0, 5.0, NAN, -3.0])
    low = weft.tensor([2.0, 2.0, 2.0, NAN])
    np.testing.assert_array_equal(xp.clip(x, low, 4).numpy(), [2, 4, NAN, NAN])
    copy = xp.clip(x)
    copy[0] = 9
    assert x[0] == 1 and xp.clip(weft.tensor([1, 9]), max=4).tolist() == [1, 4]


def test_results_record_gradients() -> None:
    x = weft.tensor([0.5, 2.0], dtype=weft.float64, requires_grad=True)
    xp.sum(xp.multiply(xp.exp(x), xp.astype(weft.ones(2), xp.float64))).backward()
    np.testing.assert_allclose(x.grad.numpy(), np.exp([0.5, 2.0]))
