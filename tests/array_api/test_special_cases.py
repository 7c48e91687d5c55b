"""The special cases of the standard, function by function: what nan, infinities and signed zeros give.

Each line of a table is a rule. Operands are single numbers or the letters of `SETS`, for every number of a set; `±`
stands before a result whose sign the standard leaves open. Complex rules hold for the conjugate too, and for the
negative where a function is odd or even.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import weft

xp: Any = weft.ones(1).__array_namespace__()
INF, NAN = math.inf, math.nan
SETS = {
    "p": [1.0, 0.5, 2.5, 3.0, 1e-30, 1e30],
    "n": [-1.0, -0.5, -2.5, -3.0, -1e-30, -1e30],
    "z": [0.0, -0.0],
    "f": [0.0, -0.0, 1.0, -1.0, 2.5, -1e30],
    "e": [0.0, -0.0, 1.0, -1.0, 2.5, -1e30, INF, -INF],
    "pos": [1.0, 2.5, 1e-3],
    "nz": [1.0, -1.0, 2.5],
    "small": [0.5, 0.25, -0.5],
    "big": [2.0, 3.5, -2.0],
}
WORDS = {"nan": NAN, "inf": INF, "-inf": -INF, "pi": math.pi, "-pi": -math.pi}
WORDS |= {f"{sign}{text}": (-1 if sign else 1) * value for sign in ("", "-") for text, value in (
    ("pi/2", math.pi / 2), ("pi/4", math.pi / 4), ("3pi/4", 0.75 * math.pi),
)}  # fmt: skip

ONE = """
abs acos acosh asin asinh atan atanh ceil cos cosh exp expm1 floor log log1p log2 log10 : nan -> nan
reciprocal round sign sin sinh sqrt square tan tanh trunc negative positive : nan -> nan
asin asinh atan atanh ceil expm1 floor log1p round sin sinh sqrt tan tanh trunc : 0 -> 0
asin asinh atan atanh ceil expm1 floor log1p round sin sinh sqrt tan tanh trunc : -0 -> -0
ceil floor round trunc asinh sinh negative- : inf -> inf
ceil floor round trunc asinh sinh : -inf -> -inf
exp expm1 cosh sqrt square log log2 log10 log1p acosh abs : inf -> inf
cosh square abs : -inf -> inf
abs square : -0 -> 0
acos asin atanh cos sin tan : -inf -> nan
acos asin atanh cos sin tan : inf -> nan
acos asin atanh : big -> nan
acosh : small -> nan
acosh log log2 log10 log1p sqrt : -inf -> nan
log log2 log10 sqrt : n -> nan
log log2 log10 : 0 -> -inf
log log2 log10 : -0 -> -inf
log log2 log10 acos acosh : 1 -> 0
log1p : -1 -> -inf
log1p : -2 -> nan
atan : inf -> pi/2
atan : -inf -> -pi/2
atanh : 1 -> inf
atanh : -1 -> -inf
cos cosh exp : z -> 1
exp : -inf -> 0
expm1 : -inf -> -1
tanh : inf -> 1
tanh : -inf -> -1
reciprocal : 0 -> inf
reciprocal : -0 -> -inf
reciprocal : inf -> 0
reciprocal : -inf -> -0
sign : z -> 0
sign : p -> 1
sign : n -> -1
ceil trunc round : -0.5 -> -0
round trunc floor : 0.5 -> 0
round : 2.5 -> 2
round : -1.5 -> -2
isnan : e -> 0
isnan : nan -> 1
isinf : f -> 0
isinf : nan -> 0
isfinite : f -> 1
isfinite : nan -> 0
signbit : n -> 1
signbit : -0 -> 1
signbit : p -> 0
signbit : 0 -> 0
negative : 0 -> -0
negative : inf -> -inf
"""
TWO = """
add subtract multiply divide floor_divide remainder atan2 maximum minimum nextafter logaddexp : nan e -> nan
add subtract multiply divide floor_divide remainder atan2 maximum minimum nextafter logaddexp : e nan -> nan
add : inf -inf -> nan
add : -inf inf -> nan
add : inf f -> inf
add : f -inf -> -inf
add : -0 -0 -> -0
add : -0 0 -> 0
add : 0 -0 -> 0
subtract : inf inf -> nan
multiply : z inf -> nan
multiply : -inf z -> nan
divide floor_divide remainder : inf inf -> nan
divide floor_divide remainder : -inf inf -> nan
divide floor_divide remainder : z z -> nan
divide floor_divide multiply : 0 p -> 0
divide floor_divide multiply : -0 p -> -0
divide floor_divide multiply : 0 n -> -0
divide floor_divide multiply : -0 n -> 0
divide floor_divide : p 0 -> inf
divide floor_divide : p -0 -> -inf
divide floor_divide : n 0 -> -inf
divide floor_divide : n -0 -> inf
divide floor_divide multiply : inf p -> inf
divide floor_divide multiply : inf n -> -inf
divide floor_divide multiply : -inf p -> -inf
divide floor_divide multiply : -inf n -> inf
divide : p inf -> 0
divide : n inf -> -0
floor_divide : p inf -> 0
floor_divide : p -inf -> -1
floor_divide : n inf -> -1
floor_divide : n -inf -> 0
remainder : z p -> 0
remainder : z n -> -0
remainder : p z -> nan
remainder : inf f -> nan
remainder : -inf f -> nan
remainder : 2.5 inf -> 2.5
remainder : 2.5 -inf -> -inf
remainder : -2.5 inf -> inf
remainder : -2.5 -inf -> -2.5
remainder : 3 1 -> 0
remainder : 3 -1 -> -0
remainder : -3 1 -> 0
atan2 : p z -> pi/2
atan2 : n z -> -pi/2
atan2 : 0 p -> 0
atan2 : 0 0 -> 0
atan2 : 0 -0 -> pi
atan2 : 0 n -> pi
atan2 : -0 0 -> -0
atan2 : -0 -0 -> -pi
atan2 : -0 n -> -pi
atan2 : p inf -> 0
atan2 : p -inf -> pi
atan2 : n inf -> -0
atan2 : n -inf -> -pi
atan2 : inf f -> pi/2
atan2 : -inf f -> -pi/2
atan2 : inf inf -> pi/4
atan2 : inf -inf -> 3pi/4
atan2 : -inf inf -> -pi/4
atan2 : -inf -inf -> -3pi/4
pow : e z -> 1
pow : nan z -> 1
pow : nan nz -> nan
pow : big inf -> inf
pow : big -inf -> 0
pow : small inf -> 0
pow : small -inf -> inf
pow : 1 e -> 1
pow : -1 inf -> 1
pow : inf p -> inf
pow : inf n -> 0
pow : -inf 3 -> -inf
pow : -inf 2 -> inf
pow : -inf 2.5 -> inf
pow : -inf -3 -> -0
pow : -inf -2.5 -> 0
pow : 0 p -> 0
pow : 0 n -> inf
pow : -0 3 -> -0
pow : -0 2.5 -> 0
pow : -0 -3 -> -inf
pow : -0 -2.5 -> inf
pow : -2 0.5 -> nan
hypot : inf e -> inf
hypot : -inf nan -> inf
hypot : nan inf -> inf
hypot : f nan -> nan
logaddexp : inf e -> inf
copysign : nan nan -> nan
nextafter : 0 -0 -> -0
nextafter : -0 0 -> 0
"""
# name : real, imaginary -> real, imaginary
COMPLEX = """
abs : inf e -> inf 0
abs : e -inf -> inf 0
abs : nan inf -> inf 0
abs : f nan -> nan 0
acos : z 0 -> pi/2 -0
acos : z nan -> pi/2 nan
acos : f inf -> pi/2 -inf
acos : nz nan -> nan nan
acos : -inf pos -> pi -inf
acos : inf pos -> 0 -inf
acos : -inf inf -> 3pi/4 -inf
acos : inf inf -> pi/4 -inf
acos : inf nan -> nan ±inf
acos : -inf nan -> nan ±inf
acos : nan f -> nan nan
acos : nan inf -> nan -inf
acosh : z 0 -> 0 pi/2
acosh : f inf -> inf pi/2
acosh : nz nan -> nan nan
acosh : 0 nan -> nan pi/2
acosh : -inf pos -> inf pi
acosh : inf pos -> inf 0
acosh : -inf inf -> inf 3pi/4
acosh : inf inf -> inf pi/4
acosh : inf nan -> inf nan
acosh : -inf nan -> inf nan
acosh : nan f -> nan nan
acosh : nan inf -> inf nan
asinh : 0 0 -> 0 0
asinh : pos inf -> inf pi/2
asinh : pos nan -> nan nan
asinh : inf pos -> inf 0
asinh : inf inf -> inf pi/4
asinh : inf nan -> inf nan
asinh : nan 0 -> nan 0
asinh : nan nz -> nan nan
asinh : nan inf -> ±inf nan
atanh : 0 0 -> 0 0
atanh : 0 nan -> 0 nan
atanh : 1 0 -> inf 0
atanh : pos inf -> 0 pi/2
atanh : nz nan -> nan nan
atanh : inf pos -> 0 pi/2
atanh : inf inf -> 0 pi/2
atanh : inf nan -> 0 nan
atanh : nan f -> nan nan
atanh : nan inf -> ±0 pi/2
cosh : 0 0 -> 1 0
cosh : 0 inf -> nan ±0
cosh : 0 nan -> nan ±0
cosh : nz inf -> nan nan
cosh : nz nan -> nan nan
cosh : inf 0 -> inf 0
cosh : inf 1 -> inf inf
cosh : inf inf -> ±inf nan
cosh : inf nan -> inf nan
cosh : nan 0 -> nan ±0
cosh : nan nz -> nan nan
sinh : 0 0 -> 0 0
sinh : 0 inf -> ±0 nan
sinh : 0 nan -> ±0 nan
sinh : nz inf -> nan nan
sinh : nz nan -> nan nan
sinh : inf 0 -> inf 0
sinh : inf 1 -> inf inf
sinh : inf inf -> ±inf nan
sinh : inf nan -> ±inf nan
sinh : nan 0 -> nan 0
sinh : nan nz -> nan nan
tanh : 0 0 -> 0 0
tanh : 0 inf -> 0 nan
tanh : 0 nan -> 0 nan
tanh : nz inf -> nan nan
tanh : nz nan -> nan nan
tanh : inf f -> 1 ±0
tanh : inf inf -> 1 ±0
tanh : inf nan -> 1 ±0
tanh : nan 0 -> nan 0
tanh : nan nz -> nan nan
exp : z 0 -> 1 0
exp : f inf -> nan nan
exp : f nan -> nan nan
exp : inf 0 -> inf 0
exp : -inf 1 -> 0 0
exp : inf 1 -> inf inf
exp : -inf inf -> ±0 ±0
exp : inf inf -> ±inf nan
exp : -inf nan -> ±0 ±0
exp : inf nan -> ±inf nan
exp : nan 0 -> nan 0
exp : nan nz -> nan nan
expm1 : 0 0 -> 0 0
expm1 : f inf -> nan nan
expm1 : f nan -> nan nan
expm1 : inf 0 -> inf 0
expm1 : -inf 1 -> -1 0
expm1 : inf 1 -> inf inf
expm1 : -inf inf -> -1 ±0
expm1 : inf inf -> ±inf nan
expm1 : -inf nan -> -1 ±0
expm1 : inf nan -> ±inf nan
expm1 : nan 0 -> nan 0
expm1 : nan nz -> nan nan
log : -0 0 -> -inf pi
log : 0 0 -> -inf 0
log log1p : f inf -> inf pi/2
log log1p log2 log10 : f nan -> nan nan
log log1p log2 log10 : nan f -> nan nan
log log1p : -inf pos -> inf pi
log log1p log2 log10 : inf pos -> inf 0
log log1p : -inf inf -> inf 3pi/4
log log1p : inf inf -> inf pi/4
log log1p log2 log10 : inf nan -> inf nan
log log1p log2 log10 : -inf nan -> inf nan
log log1p log2 log10 : nan inf -> inf nan
log1p : -1 0 -> -inf 0
sqrt : z 0 -> 0 0
sqrt : e inf -> inf inf
sqrt : nan inf -> inf inf
sqrt : f nan -> nan nan
sqrt : nan f -> nan nan
sqrt : -inf pos -> 0 inf
sqrt : inf pos -> inf 0
sqrt : -inf nan -> nan ±inf
sqrt : inf nan -> inf nan
sign : z 0 -> 0 0
sign : nan e -> nan nan
sign : e nan -> nan nan
sign : big 0 -> ±1 0
"""  # both parts nan: nan in both, of all of these
ODD, EVEN, EXTENDED = {"asinh", "atanh", "sinh", "tanh"}, {"cosh"}, "sign"


def numbers(word: str) -> list[float]:
    return SETS.get(word) or [WORDS[word] if word in WORDS else float(word)]


def rules(table: str) -> list[tuple[str, tuple[float, ...], list[str]]]:
    found = []
    for line in table.strip().splitlines():
        names, _, rule = line.partition(" : ")
        given, _, wanted = rule.partition(" -> ")
        for name in names.split():
            for operands in itertools.product(*map(numbers, given.split())):
                found.append((name, operands, wanted.split()))
    return [rule for rule in found if not rule[0].endswith("-")]


def agrees(found: float, wanted: str, dtype: str) -> bool:
    """nan with nan; zeros and infinities with their signs, unless these are open; others within a few units."""
    value = numbers(wanted.removeprefix("±"))[0]
    if math.isnan(value):
        return math.isnan(found)
    if wanted.startswith("±"):
        found, value = abs(found), abs(value)
    if value == 0 or math.isinf(value):
        return found == value and math.copysign(1, found) == math.copysign(1, value)
    return abs(found - value) <= (3e-7 if dtype in ("float32", "complex64") else 1e-15) * abs(value)


def by_name(table: str) -> list[str]:
    return sorted({name for name, _, _ in rules(table)})


def opposite(word: str) -> str:
    if word.startswith("±") or word == "nan":
        return word
    return word[1:] if word.startswith("-") else f"-{word}"


def check(name: str, cases: list[Any], dtype: str) -> None:
    """The rules of a function, all elements at once and one by one."""
    columns = [np.array(column, dtype) for column in zip(*[case[0] for case in cases], strict=True)]
    found = getattr(xp, name)(*map(weft.tensor, columns))
    whole = np.asarray(found.resolve_conj().numpy())
    for place, (operands, wanted) in enumerate(cases):
        single = getattr(xp, name)(*[weft.tensor(column[place]) for column in columns])
        for value in (whole[place], single.resolve_conj().numpy()[()]):
            parts = [value.real, value.imag] if len(wanted) == 2 else [value]
            same = [agrees(float(p), w, dtype) for p, w in zip(parts, wanted, strict=True)]
            assert all(same), f"{name}{operands} = {value}, not {' '.join(wanted)}"


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", by_name(ONE + TWO))
def test_real_numbers(name: str, dtype: str) -> None:
    cases = [(given, wanted) for rule, given, wanted in rules(ONE + TWO) if rule == name]
    check(name, cases, dtype)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", by_name(COMPLEX))
def test_complex_numbers(name: str, dtype: str) -> None:
    cases = []
    for rule, (re, im), (real, imag) in rules(f"{COMPLEX}\n{name} : nan nan -> nan nan"):
        if rule != name:
            continue
        cases.append((complex(re, im), real, imag))
        if name not in ("abs", EXTENDED):
            cases.append((complex(re, -im), real, opposite(imag)))
        if name in EVEN:
            cases.append((complex(-re, -im), real, imag))
        if name in ODD:
            cases.append((complex(-re, -im), opposite(real), opposite(imag)))
            cases.append((complex(-re, im), opposite(real), imag))
    if name == "abs":
        check(name, [((z,), [real]) for z, real, _ in cases], dtype)
    else:
        check(name, [((z,), [real, imag]) for z, real, imag in cases], dtype)


@pytest.mark.parametrize(
    "name, other",
    [("sin", "sinh"), ("cos", "cosh"), ("tan", "tanh"), ("asin", "asinh"), ("atan", "atanh")],
)
def test_circular_functions_are_hyperbolic_ones_turned(name: str, other: str) -> None:
    axis = [0.0, -0.0, 1.0, -2.5, INF, -INF, NAN]
    z = np.array([complex(a, b) for a in axis for b in axis])
    turned = np.array([complex(-w.imag, w.real) for w in z])
    found, wanted = (
        getattr(xp, n)(weft.tensor(w)).numpy() for n, w in ((name, z), (other, turned))
    )
    if name != "cos":
        wanted = np.array([complex(w.imag, -w.real) for w in wanted])
    for part in ("real", "imag"):
        np.testing.assert_allclose(getattr(found, part), getattr(wanted, part), 1e-14)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_nan_has_the_sign_of_its_bit(dtype: str) -> None:
    x = weft.tensor(np.array([NAN, math.copysign(NAN, -1)] * 9, dtype))
    assert xp.signbit(x).tolist() == [False, True] * 9
    assert xp.copysign(xp.ones_like(x), x).tolist() == [1.0, -1.0] * 9
