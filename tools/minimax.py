"""Prints the polynomial tables of `weft.engine.devices.cpu.elementary.coefficients`.

Each entry of `FITS` names a function, an interval and a number of coefficients.  A fit is the least
squares solution at Chebyshev nodes in multiple precision (within a small factor of minimax); its
lowest coefficient is rounded to the target precision and the others are fitted again to what is
left, so that rounding a coefficient is compensated by the next.
Run `python tools/minimax.py [name ...]`; the largest error of each fit is printed beside it.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mpmath import mp, mpf

mp.prec = 240
Real = Callable[[mpf], mpf]


@dataclass(frozen=True)
class Fit:
    """`function` on [low, high] as sum of c[i] x**i; leading `fixed` coefficients are given."""

    function: Real
    low: float
    high: float
    count: int
    single: bool = False
    fixed: tuple[float, ...] = ()


def to_float(value: mpf, single: bool) -> float:
    """The float64 (or float32) nearest to a multiple-precision value."""
    if not single:
        return float(value)
    return float(struct.unpack("f", struct.pack("f", float(value)))[0])


def chebyshev_nodes(low: mpf, high: mpf, count: int) -> list[mpf]:
    centre, radius = (low + high) / 2, (high - low) / 2
    return [centre + radius * mp.cos(mp.pi * (2 * i + 1) / (2 * count)) for i in range(count)]


def fit(spec: Fit) -> list[float]:
    """Coefficients, lowest first."""
    chosen = list(spec.fixed)
    nodes = chebyshev_nodes(mpf(spec.low), mpf(spec.high), 2 * spec.count + 4)
    rest = mp.matrix([spec.function(x) for x in nodes])
    rest -= mp.matrix([sum(c * x**i for i, c in enumerate(chosen)) for x in nodes])
    while len(chosen) < spec.count:
        powers = range(len(chosen), spec.count)
        basis = mp.matrix([[x**i for i in powers] for x in nodes])
        chosen.append(to_float(mp.lu_solve(basis, rest)[0], spec.single))
        rest -= mp.matrix([chosen[-1] * x ** (len(chosen) - 1) for x in nodes])
    return chosen


def largest_error(spec: Fit, coefficients: Sequence[float]) -> float:
    """Largest |polynomial - function| on a grid, relative to the function's largest value."""
    points = [mpf(spec.low) + (mpf(spec.high) - spec.low) * i / 403 for i in range(1, 403)]
    exact = [spec.function(x) for x in points]
    error = max(
        abs(mp.polyval([mpf(c) for c in reversed(coefficients)], x) - y)
        for x, y in zip(points, exact, strict=True)
    )
    return float(error / max(abs(y) for y in exact))


def series(name: str, spec: Fit) -> str:
    coefficients = fit(spec)
    error = float(mp.log(largest_error(spec, coefficients), 2))
    lines = "".join(f'    "{c.hex()}",\n' for c in coefficients)
    title = f"# {name}: [{spec.low}, {spec.high}], largest error 2**{error:.1f}"
    return f"{title}\n{name} = _floats(\n{lines})"


HALF_LN2 = 0.3470
ERFC_CENTRE = 3.75


def odd(function: Real) -> Real:
    """q with function(x) = x + x*z*q(z), z = x*x."""
    return lambda z: (function(mp.sqrt(z)) / mp.sqrt(z) - 1) / z


def scaled_erfc(t: mpf) -> mpf:
    """(1 + 2x) exp(x*x) erfc(x), which varies little, at t = (x - c)/(x + c)."""
    x = ERFC_CENTRE * (1 + t) / (1 - t)
    return (1 + 2 * x) * mp.exp(x * x) * mp.erfc(x)


ERFINV_NEAR, ERFINV_FAR = 3.0, 4.25  # centres


def inverse_of_erf(w: mpf) -> tuple[mpf, mpf]:
    """(x, erfinv(x)) at w = -log(1 - x*x)."""
    x = mp.sqrt(-mp.expm1(-w))
    return x, mp.erfinv(x)


def ratio_of_erfinv(t: mpf) -> mpf:
    x, y = inverse_of_erf(t + ERFINV_NEAR)
    return y / x


FITS: dict[str, Fit] = {
    "EXP_32": Fit(mp.exp, -HALF_LN2, HALF_LN2, 7, True, (1.0,)),
    "EXP_64": Fit(mp.exp, -HALF_LN2, HALF_LN2, 12, False, (1.0, 1.0)),
    "EXP2_32": Fit(lambda x: mpf(2) ** x, -0.501, 0.501, 7, True, (1.0,)),
    "EXP2_64": Fit(lambda x: mpf(2) ** x, -0.501, 0.501, 13, False, (1.0,)),
    # expm1(r) = r + r*r*q(r)
    "EXPM1_32": Fit(lambda x: (mp.expm1(x) - x) / x**2, -HALF_LN2, HALF_LN2, 6, True),
    "EXPM1_64": Fit(lambda x: (mp.expm1(x) - x) / x**2, -HALF_LN2, HALF_LN2, 11),
    # expm1(2r)/2 = r + r*r*q(r)
    "TANH_32": Fit(lambda x: (mp.expm1(2 * x) / 2 - x) / x**2, -1e-5, HALF_LN2, 6, True),
    "TANH_64": Fit(lambda x: (mp.expm1(2 * x) / 2 - x) / x**2, -1e-5, HALF_LN2, 12),
    # log(1 + f) = f + f*f*q(f)
    "LOG_32": Fit(lambda x: (mp.log1p(x) - x) / x**2, -0.2930, 0.4145, 9, True, (-0.5,)),
    # log(1 + f) = f - (h - s*(h + z*q(z))), h = f*f/2, s = f/(2 + f), z = s*s
    "LOG_64": Fit(lambda z: (2 * mp.atanh(mp.sqrt(z)) / mp.sqrt(z) - 2) / z, 1e-9, 0.02945, 8),
    # atanh(s) = s + s*z*(1/3 + z*q(z))
    "ATANH_64": Fit(
        lambda z: ((mp.atanh(mp.sqrt(z)) / mp.sqrt(z) - 1) / z - mpf(1) / 3) / z, 1e-9, 0.02945, 8
    ),
    # Odd functions f(x) = x + x*z*q(z), z = x*x; cos(x) = 1 - z/2 + z*z*q(z)
    "SIN_64": Fit(odd(mp.sin), 1e-9, 0.6175, 7),
    "COS_64": Fit(lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2, 1e-9, 0.6175, 7),
    "SIN_32": Fit(odd(mp.sin), 1e-9, 0.6175, 4),
    "COS_32": Fit(lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2, 1e-9, 0.6175, 4),
    "ATAN_64": Fit(odd(mp.atan), 1e-9, 1.0, 21),
    "ASIN_64": Fit(odd(mp.asin), 1e-9, 0.25, 13),
    "SINH_64": Fit(odd(mp.sinh), 1e-9, 1.0, 8),
    # erf(x) = x + x*q(x*x) below 1
    "ERF_64": Fit(lambda z: mp.erf(mp.sqrt(z)) / mp.sqrt(z) - 1, 1e-9, 1.0, 13),
    # erfc(x) = exp(-x*x) q(t)/(1 + 2x), t = (x - c)/(x + c)
    "ERFC_64": Fit(scaled_erfc, -1.0, 0.76, 25),
    # erf(x) = x + x*q(x*x) below 1.25; 1 - q(x - 2.59375) up to 3.9375, where it is 1.
    "ERF_SMALL_32": Fit(lambda z: mp.erf(mp.sqrt(z)) / mp.sqrt(z) - 1, 1e-9, 1.5625, 8, True),
    "ERF_LARGE_32": Fit(lambda x: mp.erfc(x + 2.59375), -1.34375, 1.34375, 14, True),
    # erfinv(x) = x*q(w - 3) up to w = 6, q(sqrt(w) - 4.25) beyond, w = -log(1 - x*x)
    "ERFINV_NEAR_64": Fit(ratio_of_erfinv, -3.0 + 1e-9, 3.0, 24),
    "ERFINV_FAR_64": Fit(lambda t: inverse_of_erf((t + ERFINV_FAR) ** 2)[1], -1.85, 1.85, 28),
}


def main() -> None:
    for name in sys.argv[1:] or FITS:
        print(series(name, FITS[name]))


if __name__ == "__main__":
    main()
