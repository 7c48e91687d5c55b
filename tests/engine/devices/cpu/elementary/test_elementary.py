"""Every elementary function is as exact as docs/accuracy.md states, with the special values of IEEE 754.

Each test prints the largest error it saw (run with -s).
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from pathlib import Path

import mpmath
import numpy as np
import pytest
from elementary_harness import Array, compiled, ulps

import weft

Reference = Callable[[mpmath.mpf], mpmath.mpf]
DTYPES = ("float32", "float64")
PAGE = Path(__file__).parents[5] / "docs" / "accuracy.md"
STATED = re.findall(r"^\| `(\w+)` \| ([\d.]+) \| ([\d.]+) \|$", PAGE.read_text(), re.MULTILINE)
BOUNDS = {
    (name, dtype): float(bound)
    for name, *bounds in STATED
    for dtype, bound in zip(DTYPES, bounds, strict=True)
}
EXTREMES = [
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, 1e-45, -1e-45, 1e-40, 5e-324, -5e-324, 1e-310, 2.0**-126,
    2.0**-1022, 88.7, 88.73, 89.4, 89.42, -87.4, -103.9, -104.0, 709.78, 709.79, 710.475, 710.48,
    -745.1, -745.2, -708.5, 17.0, 18.8, -37.5, 1.25, 3.9375, 5.9, 6.0, 26.5, 27.3, 3.4e38, 1e22,
    1e308, 2.0**20, 2.0**28, 3.0e5 * 3.141592653589793,
]  # fmt: skip


def guarded(function: Reference, low: float, high: float) -> Reference:
    """`function` inside [low, high], its limits outside taken at the ends."""
    return lambda x: function(min(max(x, mpmath.mpf(low)), mpmath.mpf(high)))


def sigmoid(x: mpmath.mpf) -> mpmath.mpf:
    return 1 / (1 + mpmath.exp(-x))


def exponential(function: Reference) -> Reference:
    return guarded(function, -3000.0, 3000.0)


# name: reference, the interval to sample densely, and the domain.
CASES: dict[str, tuple[Reference, tuple[float, float], tuple[float, float]]] = {
    "exp": (exponential(mpmath.exp), (-100, 88), (-np.inf, np.inf)),
    "exp2": (exponential(lambda x: mpmath.mpf(2) ** x), (-140, 127), (-np.inf, np.inf)),
    "expm1": (exponential(mpmath.expm1), (-20, 88), (-np.inf, np.inf)),
    "log": (mpmath.log, (0.4, 4), (0, np.inf)),
    "log2": (lambda x: mpmath.log(x, 2), (0.4, 4), (0, np.inf)),
    "log10": (mpmath.log10, (0.4, 11), (0, np.inf)),
    "log1p": (mpmath.log1p, (-0.9, 4), (-1, np.inf)),
    "sin": (mpmath.sin, (-1e5, 1e5), (-np.inf, np.inf)),
    "cos": (mpmath.cos, (-1e5, 1e5), (-np.inf, np.inf)),
    "tan": (mpmath.tan, (-1e5, 1e5), (-np.inf, np.inf)),
    "asin": (mpmath.asin, (-1, 1), (-1, 1)),
    "acos": (mpmath.acos, (-1, 1), (-1, 1)),
    "atan": (mpmath.atan, (-6, 6), (-np.inf, np.inf)),
    "sinh": (exponential(mpmath.sinh), (-80, 80), (-np.inf, np.inf)),
    "cosh": (exponential(mpmath.cosh), (-80, 80), (-np.inf, np.inf)),
    "tanh": (guarded(mpmath.tanh, -100, 100), (-10, 10), (-np.inf, np.inf)),
    "asinh": (mpmath.asinh, (-5, 5), (-np.inf, np.inf)),
    "acosh": (mpmath.acosh, (1, 3), (1, np.inf)),
    "atanh": (mpmath.atanh, (-1, 1), (-1, 1)),
    "sigmoid": (exponential(sigmoid), (-90, 20), (-np.inf, np.inf)),
    "erf": (guarded(mpmath.erf, -30, 30), (-4, 4), (-np.inf, np.inf)),
    "erfc": (guarded(mpmath.erfc, -30, 30), (-3, 10), (-np.inf, np.inf)),
    "erfinv": (mpmath.erfinv, (-1, 1), (-1, 1)),
}
LONG_DOUBLE: dict[str, Callable[[Array], Array]] = {
    name: getattr(np, {"asin": "arcsin", "acos": "arccos", "atan": "arctan"}.get(name, name))
    for name in ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan")
} | {
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh,
    "atanh": np.arctanh, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
}  # fmt: skip


def to_long_double(value: mpmath.mpf) -> np.longdouble:
    """The nearest 80-bit number, through two float64 parts scaled into range."""
    if not mpmath.isfinite(value) or value == 0:
        return np.longdouble(float(value))
    fraction, exponent = mpmath.frexp(value)
    high = float(fraction)
    return np.ldexp(np.longdouble(high) + np.longdouble(float(fraction - high)), int(exponent))


def exact(reference: Reference, x: float) -> np.longdouble:
    # Odd functions keep the sign of zero, and are x to this precision very near it.
    with mpmath.workprec(1300 if abs(x) > 1e15 else 420):
        return to_long_double(reference(mpmath.mpf(x)))


def test_every_function_has_a_bound() -> None:
    assert {name for name, _ in BOUNDS} == {*CASES, "pow", "atan2"}
    assert max(BOUNDS.values()) <= 2.0


@pytest.mark.parametrize("dtype", DTYPES)
def test_roots_round_once_and_inverse_roots_twice(dtype: str) -> None:
    x = np.abs(random_bits(np.random.default_rng(5), dtype, 20_000))
    x = x[np.isfinite(x) & (x > 0)]
    root = np.sqrt(x.astype(np.longdouble))
    made = weft.tensor(x)
    assert ulps(made.sqrt().numpy(), root).max() <= 0.5 + 1e-3
    assert ulps(made.rsqrt().numpy(), 1 / root).max() <= 1.5


def random_bits(rng: np.random.Generator, dtype: str, count: int) -> Array:
    width = np.dtype(dtype).itemsize
    return rng.integers(0, 256, count * width, dtype=np.uint8).view(dtype)


def samples(name: str, dtype: str, count: int, seed: int) -> Array:
    """Uniform on the dense interval, of every magnitude, and the extremes, inside the domain."""
    (low, high), (first, last) = CASES[name][1:]
    rng = np.random.default_rng(seed)
    with np.errstate(all="ignore"):
        parts = [
            rng.uniform(low, high, count),
            rng.uniform(max(low, -1), min(high, 1.5), count),
            rng.normal(size=count) * np.exp(rng.uniform(-40, 3, count)),
            random_bits(rng, dtype, count).astype(np.float64),
            np.array(EXTREMES),
        ]
        x = np.concatenate(parts).astype(dtype)
        return x[(x >= first) & (x <= last) & np.isfinite(x)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CASES)
def test_as_exact_as_stated(name: str, dtype: str) -> None:
    x = samples(name, dtype, 250, seed=1)
    x = x[~np.isin(np.abs(x), [0.0])] if name.startswith("log") else x
    if name in ("log1p", "atanh"):
        x = x[np.abs(x) != 1]
    reference = np.array([exact(CASES[name][0], float(v)) for v in x])
    reference = np.where((x == 0) & (reference == 0), x, reference)
    errors = ulps(compiled(name, dtype)(x), reference)
    worst = int(errors.argmax())
    print(f"{name} {dtype}: {errors[worst]:.3f} ulp at {x[worst]!r}, {len(x)} points")
    assert errors[worst] <= BOUNDS[name, dtype]


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="needs an 80-bit long double")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", LONG_DOUBLE)
def test_as_exact_as_stated_densely(name: str, dtype: str) -> None:
    x = samples(name, dtype, 40_000, seed=2)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        reference = LONG_DOUBLE[name](x.astype(np.longdouble))
    if name in ("sin", "cos", "tan"):  # the x87 instructions lose bits beyond 2**63
        x, reference = x[abs(x) < 2.0**62], reference[abs(x) < 2.0**62]
    errors = ulps(compiled(name, dtype)(x), reference)
    worst = int(errors.argmax())
    print(f"{name} {dtype}: {errors[worst]:.3f} ulp at {x[worst]!r}, {len(x)} points")
    assert errors[worst] <= BOUNDS[name, dtype]


INF, NAN = np.inf, np.nan
SPECIAL = {
    "exp": [(INF, INF), (-INF, 0.0), (0.0, 1.0), (-0.0, 1.0)],
    "exp2": [(INF, INF), (-INF, 0.0), (3.0, 8.0), (-1.0, 0.5)],
    "expm1": [(INF, INF), (-INF, -1.0), (-0.0, -0.0)],
    "log": [(INF, INF), (0.0, -INF), (-0.0, -INF), (-1.0, NAN), (-INF, NAN), (1.0, 0.0)],
    "log2": [(INF, INF), (0.0, -INF), (-1.0, NAN), (8.0, 3.0), (2.0**-126, -126.0)],
    "log10": [(INF, INF), (0.0, -INF), (-1.0, NAN), (1000.0, 3.0), (1e10, 10.0)],
    "log1p": [(INF, INF), (-1.0, -INF), (-1.5, NAN), (-INF, NAN), (-0.0, -0.0)],
    "sin": [(INF, NAN), (-INF, NAN), (-0.0, -0.0)],
    "cos": [(INF, NAN), (-INF, NAN), (-0.0, 1.0)],
    "tan": [(INF, NAN), (-INF, NAN), (-0.0, -0.0)],
    "asin": [(1.5, NAN), (INF, NAN), (-INF, NAN), (-0.0, -0.0)],
    "acos": [(1.5, NAN), (INF, NAN), (-INF, NAN), (1.0, 0.0)],
    "atan": [(INF, np.pi / 2), (-INF, -np.pi / 2), (-0.0, -0.0)],
    "sinh": [(INF, INF), (-INF, -INF), (-0.0, -0.0)],
    "cosh": [(INF, INF), (-INF, INF), (0.0, 1.0)],
    "tanh": [(INF, 1.0), (-INF, -1.0), (-0.0, -0.0)],
    "asinh": [(INF, INF), (-INF, -INF), (-0.0, -0.0)],
    "acosh": [(INF, INF), (0.5, NAN), (-INF, NAN), (1.0, 0.0)],
    "atanh": [(1.0, INF), (-1.0, -INF), (1.5, NAN), (INF, NAN), (-0.0, -0.0)],
    "sigmoid": [(INF, 1.0), (-INF, 0.0), (0.0, 0.5)],
    "erf": [(INF, 1.0), (-INF, -1.0), (-0.0, -0.0)],
    "erfc": [(INF, 0.0), (-INF, 2.0), (0.0, 1.0)],
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", SPECIAL)
def test_special_values(name: str, dtype: str) -> None:
    rows = [*SPECIAL[name], (NAN, NAN)]
    x, expected = (np.array(column).astype(dtype) for column in zip(*rows, strict=True))
    got = compiled(name, dtype)(x)
    np.testing.assert_array_equal(got, expected)
    whole = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(got[whole]), np.signbit(expected[whole]))


PAIR_VALUES = [
    0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 0.5, -0.5, 1.5, INF, -INF, NAN, 1e-30, 1e30, -1e30,
    1e-44, 7.0, 2.0**52 + 1, -(2.0**53),
]  # fmt: skip


def pairs(dtype: str) -> tuple[Array, Array]:
    values = np.array(PAIR_VALUES).astype(dtype)
    grid = np.meshgrid(values, values)
    rng = np.random.default_rng(3)
    sizes = np.exp(rng.uniform(-8, 8, 1200))
    exponents = rng.uniform(-700, 700, 1200) * rng.uniform(0, 1, 1200) ** 3 / np.log(sizes)
    x = np.concatenate([grid[0].ravel(), sizes, -sizes[:99]])
    y = np.concatenate([grid[1].ravel(), exponents, np.round(exponents[:99])])
    return x.astype(dtype), y.astype(dtype)


def assert_pairs(name: str, dtype: str, x: Array, y: Array, reference: Array) -> None:
    got = compiled(name, dtype, arity=2)(x, y)
    errors = ulps(got, reference)
    worst = int(errors.argmax())
    print(f"{name} {dtype}: {errors[worst]:.3f} ulp at {x[worst]!r}, {y[worst]!r}")
    assert errors[worst] <= BOUNDS[name, dtype]


@pytest.mark.parametrize("dtype", DTYPES)
def test_pow(dtype: str) -> None:
    """NumPy has the special cases of C; mpmath the values between."""
    x, y = pairs(dtype)
    with np.errstate(all="ignore"):
        reference = np.power(x.astype(np.longdouble), y.astype(np.longdouble))
    mpmath.mp.prec = 200
    for i in np.flatnonzero(np.isfinite(reference) & (x > 0) & (abs(y) < 1e4) & np.isfinite(x)):
        reference[i] = to_long_double(mpmath.mpf(float(x[i])) ** mpmath.mpf(float(y[i])))
    assert_pairs("pow", dtype, x, y, reference)


@pytest.mark.parametrize("dtype", DTYPES)
def test_atan2(dtype: str) -> None:
    """NumPy has the special cases of C; mpmath the values between."""
    y, x = pairs(dtype)
    reference = np.arctan2(y.astype(np.longdouble), x.astype(np.longdouble))
    mpmath.mp.prec = 200
    for i in np.flatnonzero(np.isfinite(x) & np.isfinite(y) & (x != 0) & (y != 0)):
        reference[i] = to_long_double(mpmath.atan2(float(y[i]), float(x[i])))
    assert_pairs("atan2", dtype, y, x, reference)


# Near these the distance to a multiple of pi/2 is small beyond chance.
HARD_ANGLES = [6381956970095103.0 * 2.0**797, 5.319372648326541e255, 3.0e5 * np.pi, 1e16, 1.7e308]


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_angles_next_to_multiples_of_half_pi(name: str) -> None:
    whole = np.arange(1, 400)
    x = np.concatenate([whole * (np.pi / 2), whole * 1e6 * (np.pi / 2), HARD_ANGLES])
    reference = np.array([exact(CASES[name][0], float(v)) for v in x])
    errors = ulps(compiled(name, "float64")(x), reference)
    print(f"{name}: {errors.max():.3f} ulp at {x[int(errors.argmax())]!r}")
    assert errors.max() <= BOUNDS[name, "float64"]


def test_powers_have_whole_logarithms() -> None:
    two = np.ldexp(1.0, np.arange(-1074, 1024))
    np.testing.assert_array_equal(compiled("log2", "float64")(two), np.arange(-1074, 1024))
    ten = np.array([float(f"1e{i}") for i in range(23)])
    np.testing.assert_array_equal(compiled("log10", "float64")(ten), np.arange(23))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CASES)
def test_same_bits_on_any_width_and_instruction_set(name: str, dtype: str) -> None:
    """Scalars, vectors and, on x86, code for AVX2 only, agree bit for bit."""
    x = samples(name, dtype, 500, seed=4)
    expected = compiled(name, dtype)(x)
    others = [compiled(name, dtype, lanes=lanes) for lanes in (0, 2)]
    if host_is_x86():
        others.append(compiled(name, dtype, features="-avx512f,+avx2,+fma"))
    for other in others:
        np.testing.assert_array_equal(other(x).view(np.uint8), expected.view(np.uint8))


def host_is_x86() -> bool:
    import llvmlite.binding as llvm

    return llvm.get_default_triple().startswith("x86_64")
