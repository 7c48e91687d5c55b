"""Functions of analysis against SciPy: values where it counts, derivatives, types."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest
from functional_oracle import compare, make

import weft

scipy = pytest.importorskip("scipy.special")

POINTS: dict[str, Any] = {
    "erfinv": np.concatenate(
        [np.linspace(-0.999, 0.999, 401), 1 - np.logspace(-16, -1, 60), [1e-300, 1e-12, -1e-9]]
    ),
    "ndtri": np.concatenate([np.linspace(0.001, 0.999, 401), np.logspace(-300, -1, 80), [0.5]]),
    "gammaln": np.concatenate(
        [
            np.linspace(-9.75, 9.75, 403),
            np.logspace(-12, 36, 120),
            -np.logspace(-12, -1, 40),
            [1.0, 2.0, 171.5],
        ]
    ),
    "digamma": np.concatenate(
        [np.linspace(-9.75, 9.75, 403), np.logspace(-12, 12, 120), [1.4616321449683623]]
    ),
    "ndtr": np.linspace(-37, 9, 300),
    "entr": np.concatenate([np.linspace(0, 4, 50), [-1.0, np.inf, np.nan]]),
    "sinc": np.linspace(-5.03, 5.03, 300),
}
ABSOLUTE = ("gammaln", "digamma", "sinc")  # near their zeros
SPELLED = {"gammaln": "gammaln", "digamma": "psi"}


def reference(name: str, x: Any) -> Any:
    if name == "digamma":  # SciPy's loses digits near the negative poles, not above 0
        left = (x < 0) & (x != np.round(x))
        turned = scipy.psi(1 - x) - np.pi / np.tan(np.pi * np.where(left, x - np.round(x), 0.25))
        return np.where(left, turned, scipy.psi(x))
    return np.sinc(x) if name == "sinc" else getattr(scipy, SPELLED.get(name, name))(x)


@pytest.mark.parametrize("name", POINTS)
def test_values_are_as_exact_as_stated(name: str) -> None:
    x = POINTS[name]
    wanted = reference(name, x)
    for dtype, bound in ((weft.float64, 1e-14), (weft.float32, 6e-7)):
        got = getattr(weft.special, name)(weft.tensor(x.astype(dtype.numpy))).numpy()
        want = (
            wanted
            if dtype is weft.float64
            else reference(name, x.astype(np.float32).astype(np.float64))
        )
        least = (
            1e-300 if dtype is weft.float64 else 1e-36
        )  # below, the type itself has fewer digits
        there = np.isfinite(want) & (np.abs(want) < 3e38) & (np.abs(want) > least)
        got, want, at = got[there].astype(np.float64), want[there], x[there]
        scale = np.maximum(np.abs(want), 1.0 if name in ABSOLUTE else 0.0)
        if name == "ndtr":  # what rounding the argument alone makes of the tail
            scale = scale * (1 + at**2)
        gap = np.abs(got - want) / scale
        assert gap.max() <= bound, (name, dtype, gap.max(), at[gap.argmax()])


EDGES: dict[str, Any] = {
    "erfinv": ([1.0, -1.0, 1.5, np.nan, 0.0], [np.inf, -np.inf, np.nan, np.nan, 0.0]),
    "ndtri": ([0.0, 1.0, -0.1, 1.1, np.nan], [-np.inf, np.inf, np.nan, np.nan, np.nan]),
    "gammaln": ([0.0, -1.0, -7.0, np.inf, np.nan], [np.inf, np.inf, np.inf, np.inf, np.nan]),
    "digamma": (
        [-1.0, -3.0, np.inf, np.nan, 0.0, -0.0],
        [np.nan, np.nan, np.inf, np.nan, -np.inf, np.inf],
    ),
}


@pytest.mark.parametrize("name", EDGES)
def test_ends_and_poles(name: str) -> None:
    points, wanted = EDGES[name]
    got = getattr(weft.special, name)(weft.tensor(points, dtype=weft.float64)).numpy()
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("order", (1, 2, 3, 5))
def test_polygamma(order: int) -> None:
    x = np.concatenate([np.linspace(0.05, 12, 100), np.logspace(1, 6, 30)])
    if order == 1:
        x = np.concatenate([x, np.linspace(-5.3, -0.2, 20)])
        want = np.where(x > 0, scipy.polygamma(1, np.abs(x)), 0)
        left = x[x <= 0]
        sine = np.sin(np.pi * (left - np.trunc(left)))
        want[x <= 0] = (np.pi / sine) ** 2 - scipy.polygamma(1, 1 - left)
    else:
        want = scipy.polygamma(order, x)
    got = weft.polygamma(order, weft.tensor(x)).numpy()
    np.testing.assert_allclose(got, want, rtol=3e-14)


@pytest.mark.parametrize("order", (2, 3, 4, 5))
def test_polygamma_of_negative_numbers(order: int) -> None:
    x = np.concatenate([np.linspace(-5.3, -0.2, 20), [-100.25, -7.7]])
    want = [float(mpmath.polygamma(order, value)) for value in x]
    got = weft.polygamma(order, weft.tensor(x)).numpy()
    np.testing.assert_allclose(got, want, rtol=1e-11)
    poles = weft.polygamma(order, weft.tensor([0.0, -1.0, -2.0])).tolist()
    assert poles == [math.inf if order % 2 else -math.inf] * 3


@pytest.mark.parametrize("name", ("erfinv", "ndtri", "gammaln", "digamma", "entr", "ndtr", "sinc"))
def test_derivatives_of_first_and_second_order(name: str) -> None:
    low, high = {"erfinv": (-0.8, 0.8), "ndtri": (0.1, 0.9)}.get(name, (0.4, 3.0))
    x = weft.linspace(low, high, 7, dtype=weft.float64).requires_grad_()
    function = getattr(weft.special, name)
    assert weft.autograd.gradcheck(function, (x,))
    assert weft.autograd.gradgradcheck(function, (x,))


TWO: dict[str, Any] = {
    "logaddexp2": lambda lib, x, y: lib.logaddexp2(x, y),
    "ldexp": lambda lib, x, y: lib.ldexp(x.detach(), lib.tensor([1, -2, 3])) + y,
    "copysign": lambda lib, x, y: lib.copysign(x, y),
    "xlogy": lambda lib, x, y: lib.xlogy(x, y.abs()),
    "xlog1py": lambda lib, x, y: lib.special.xlog1py(x, y.abs()),
    "heaviside": lambda lib, x, y: lib.heaviside(x.detach().round(), y.detach()),
    "signbit": lambda lib, x, y: lib.signbit(x - y),
    "mvlgamma": lambda lib, x, y: lib.mvlgamma(x.abs() + 3, 3) + y,
    "polygamma": lambda lib, x, y: lib.polygamma(2, x.abs() + 0.5) * y,
    "expit": lambda lib, x, y: lib.special.expit(x) + lib.special.logit(y.sigmoid()),
    "log_softmax": lambda lib, x, y: lib.special.log_softmax(x, 0) + lib.special.logsumexp(y, 0),
}


@pytest.mark.parametrize("dtype", ("float32", "float64"))
@pytest.mark.parametrize("name", TWO)
def test_against_pytorch(name: str, dtype: str) -> None:
    x, y = make(4, 3, dtype=dtype, seed=1), make(4, 3, dtype=dtype, seed=2)
    compare(TWO[name], x, y, tolerance=1e-5)


@pytest.mark.parametrize("name", ("erfinv", "lgamma", "digamma", "sinc", "signbit"))
def test_types_as_in_pytorch(name: str) -> None:
    for dtype in ("int64", "bool", "float16", "float32"):
        compare(
            lambda lib, x: getattr(lib, name)(x),
            np.array([0, 1, 1, 0]).astype(dtype)
            if name == "erfinv"
            else make(4, dtype=dtype, low=0.5),
            tolerance=4e-3,
        )


def test_in_place_and_refusals() -> None:
    x = weft.tensor([0.25, 0.5])
    assert x.erfinv_() is x and abs(float(x[1]) - 0.4769363) < 1e-6
    with pytest.raises(RuntimeError, match="(?s)different dtypes.*fix"):
        weft.heaviside(weft.ones(2), weft.ones(2).double())
    with pytest.raises(RuntimeError, match="complex"):
        weft.signbit(weft.ones(2, dtype=weft.complex64))
    with pytest.raises(TypeError, match="must be Tensor"):
        weft.logaddexp(weft.ones(2), 1.0)


def test_near_poles_the_angle_is_not_rounded() -> None:
    steps = np.logspace(-14, -2, 30)
    x = np.concatenate([-1 + steps, -1 - steps, -4 + steps, -steps])
    near = x - np.round(x)
    np.testing.assert_allclose(
        weft.special.digamma(weft.tensor(x)).numpy() * near,
        scipy.psi(1 - x) * near - np.pi * near / np.tan(np.pi * near),
        rtol=1e-13,
    )
    close = np.abs(near) < 1e-6  # where psi' is 1 / near^2 to twelve digits
    trigamma = weft.special.polygamma(1, weft.tensor(x[close])).numpy()
    np.testing.assert_allclose(trigamma * near[close] ** 2, 1.0, rtol=1e-9)


def test_signs_of_zero_and_far_ends() -> None:
    assert np.signbit(weft.special.erfinv(weft.tensor([-0.0, 0.0])).numpy()).tolist() == [
        True,
        False,
    ]
    far = weft.tensor([np.inf, 1e300], dtype=weft.float64)
    np.testing.assert_allclose(weft.special.polygamma(1, far).numpy(), [0.0, 1e-300])
    np.testing.assert_array_equal(weft.special.polygamma(3, far).numpy(), [0.0, 0.0])


@pytest.mark.parametrize("dtype", (weft.float16, weft.bfloat16))
def test_entr_keeps_half_types(dtype: Any) -> None:
    assert weft.special.entr(weft.tensor([0.5, 0.0, -1.0], dtype=dtype)).dtype is dtype
