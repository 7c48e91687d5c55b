"""Functions of analysis against SciPy: values where it counts, derivatives, types."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest

import weft
from functional_oracle import compare, make

scipy = pytest.importorskip("scipy.special")

_BESSEL_POINTS = np.concatenate([np.linspace(0.01, 40, 150), np.logspace(-8, 2.5, 40), [2.0, 8.0]])
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
    **{
        name: _BESSEL_POINTS
        for name in ("i0e", "i1e", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1")
    },
    **{name: _BESSEL_POINTS for name in ("scaled_modified_bessel_k0", "scaled_modified_bessel_k1")},
}
# Near their zeros; and J and Y, whose phase is that of the argument.
ABSOLUTE = ("gammaln", "digamma", "sinc", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1")
BESSEL: dict[str, Any] = {
    "i0e": lambda x: mpmath.besseli(0, x) * mpmath.exp(-x),
    "i1e": lambda x: mpmath.besseli(1, x) * mpmath.exp(-x),
    "bessel_j0": lambda x: mpmath.besselj(0, x),
    "bessel_j1": lambda x: mpmath.besselj(1, x),
    "bessel_y0": lambda x: mpmath.bessely(0, x),
    "bessel_y1": lambda x: mpmath.bessely(1, x),
    "scaled_modified_bessel_k0": lambda x: mpmath.besselk(0, x) * mpmath.exp(x),
    "scaled_modified_bessel_k1": lambda x: mpmath.besselk(1, x) * mpmath.exp(x),
}
SPELLED = {"gammaln": "gammaln", "digamma": "psi"}


def reference(name: str, x: Any) -> Any:
    if name == "digamma":  # SciPy's loses digits near the negative poles, not above 0
        left = (x < 0) & (x != np.round(x))
        turned = scipy.psi(1 - x) - np.pi / np.tan(np.pi * np.where(left, x - np.round(x), 0.25))
        return np.where(left, turned, scipy.psi(x))
    if "bessel" in name or name in ("i0e", "i1e"):
        return np.array([float(BESSEL[name](mpmath.mpf(float(value)))) for value in x])
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


_ENDS = [0.0, -1.5, np.inf, np.nan]
EDGES: dict[str, Any] = {
    "i0": ([0.0, -0.0, np.inf, -np.inf, np.nan], [1.0, 1.0, np.inf, np.inf, np.nan]),
    "i0e": ([0.0, np.inf, -np.inf], [1.0, 0.0, 0.0]),
    "i1": ([0.0, np.inf, -np.inf, np.nan], [0.0, np.inf, -np.inf, np.nan]),
    "bessel_j0": ([0.0, np.inf, -np.inf, np.nan], [1.0, 0.0, 0.0, np.nan]),
    "bessel_y0": (_ENDS, [-np.inf, np.nan, 0.0, np.nan]),
    "bessel_y1": (_ENDS, [-np.inf, np.nan, 0.0, np.nan]),
    "modified_bessel_k0": (_ENDS, [np.inf, np.nan, 0.0, np.nan]),
    "scaled_modified_bessel_k1": (_ENDS, [np.inf, np.nan, 0.0, np.nan]),
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


def test_zeta() -> None:
    s = [1.1, 1.5, 2.0, 3.0, 7.5, 30.0, 2.0, 2.0, 3.0, 4.0]
    q = [0.3, 1.0, 2.0, 50.0, 3.0, 0.9, 1e6, 1e-3, -1.5, -8.25]
    want = [float(mpmath.zeta(a, b)) for a, b in zip(s, q, strict=True)]
    x, y = (weft.tensor(values, dtype=weft.float64) for values in (s, q))
    np.testing.assert_allclose(weft.special.zeta(x, y).numpy(), want, rtol=1e-13)
    ends = weft.special.zeta(
        weft.tensor([1.0, 0.5, 2.0, 2.0, 2.5]), weft.tensor([2.0, 2.0, 0.0, -3.0, -1.5])
    )
    np.testing.assert_array_equal(ends.numpy(), [np.inf, np.nan, np.inf, np.inf, np.nan])
    pair = (x[:5].clone().requires_grad_(), y[:5].clone().requires_grad_())
    assert weft.autograd.gradcheck(
        weft.special.zeta, pair
    )  # also by the first, which PyTorch lacks
    with pytest.raises(TypeError, match="must be Tensor"):
        weft.special.zeta(2, 3)


def test_frexp_and_gcd_refuse_as_pytorch_does() -> None:
    whole = weft.tensor([4, 6])
    compare(lambda lib, x: lib.frexp(x.long()), make(3))
    compare(lambda lib, x: lib.gcd(x, x), make(3))
    compare(lambda lib, x: lib.gcd(x > 0, x > 0), make(3))
    compare(lambda lib, x: lib.nextafter(x.long(), x.long()), make(3))
    with pytest.raises(
        TypeError, match="argument 'other' \\(position 2\\) must be Tensor, not int"
    ):
        weft.gcd(whole, 2)
    assert whole.lcm_(weft.tensor([6, 4])) is whole and whole.tolist() == [12, 12]
    assert "mantissa=tensor" in repr(weft.frexp(weft.ones(1)))


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


def _divided(lib: Any, a: Any, b: Any) -> Any:
    return (lib.gcd(a, b) + 100 * lib.lcm(a, b)).reshape(4, 3)


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
    "gcd lcm": lambda lib, x, y: _divided(lib, lib.arange(-4, 8), lib.arange(12) * 9) + x[0, 0] + y,
    "frexp": lambda lib, x, y: lib.frexp(x).mantissa * y.frexp().exponent,
    "nextafter": lambda lib, x, y: (lib.nextafter(x, y) - x.detach()) * 1e7,
    "nextafter of other types": lambda lib, x, y: lib.nextafter(x.bfloat16(), y.half()).float() + y,
    "i0": lambda lib, x, y: lib.i0(x) * y.detach().clone().i0_(),
    "zeta": lambda lib, x, y: lib.special.zeta(x.detach().abs() + 1.1, y.abs() + 0.2) + x,
    "zeta of numbers": lambda lib, x, y: (
        lib.special.zeta(3, x.abs() + 1) + lib.special.zeta(y.detach().abs() + 2, 2.5)
    ),
    "spherical": lambda lib, x, y: lib.special.spherical_bessel_j0(x.detach()) + y,
    "modified": lambda lib, x, y: lib.special.modified_bessel_i1((x - y).detach()) + x - y,
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


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_upper_incomplete_gamma_function_has_all_digits(dtype):
    """Where it is near 0, and near 1, and between: SciPy's own function is exact everywhere."""
    from scipy.special import gammaincc

    a, x = np.meshgrid(np.geomspace(1e-3, 200, 40), np.geomspace(1e-6, 400, 50))
    found = weft.special.gammaincc(weft.tensor(a.astype(dtype)), weft.tensor(x.astype(dtype)))
    wanted = gammaincc(a.astype(dtype).astype(float), x.astype(dtype).astype(float))
    limit = 1e-6 if dtype == "float32" else 1e-13
    np.testing.assert_allclose(found.numpy(), wanted, limit, float(np.finfo(dtype).tiny))


@pytest.mark.parametrize(
    "name", ["hermite_polynomial_h", "laguerre_polynomial_l", "chebyshev_polynomial_u"]
)
@pytest.mark.parametrize("degree", [-1, 0, 1, 2, 7, 24, 25])
def test_polynomials_of_one_degree_are_those_of_a_tensor_of_degrees(name, degree):
    x = weft.tensor([-1.0, -0.3, 0.0, 0.5, 1.0, float("nan"), float("inf")], dtype=weft.float64)
    function = getattr(weft.special, name)
    one, each = function(x, degree), function(x, weft.full((7,), degree))
    np.testing.assert_allclose(one.numpy(), each.numpy(), 1e-12)


@pytest.mark.parametrize("function, pole", [(weft.xlogy, 0.0), (weft.special.xlog1py, -1.0)])
def test_the_derivative_of_zero_times_a_logarithm_is_the_logarithm(
    function: Any, pole: float
) -> None:
    x = weft.zeros(4, dtype=weft.float64, requires_grad=True)
    y = weft.tensor([0.5, 3.0, -2.0, math.inf], dtype=weft.float64) + pole
    y.requires_grad_()
    values = function(x, y)
    by_x, by_y = weft.autograd.grad(values.sum(), (x, y), create_graph=True)
    (mixed,) = weft.autograd.grad(by_x[:2].sum(), y)
    assert values.tolist() == [0.0] * 4 and not values.signbit().any()
    assert function(x, pole).tolist() == [0.0] * 4
    np.testing.assert_allclose(by_x.detach().numpy(), [math.log(0.5), math.log(3), 0, 0])
    assert by_y.tolist() == [0.0] * 4
    np.testing.assert_allclose(mixed.numpy(), [2, 1 / 3, 0, 0])
