"""Sizes that depend on the dimensions that may change.

Each call gives numbers: shapes, bounds, counts. What is the same in all calls is a constant; what differs is a
`Varied`, its numbers by call, and has to be found again as an expression of sizes that are known: the dynamic
dimensions, and what windows and joins make of sizes before. `explained` looks among sums, multiples, products and
quotients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from math import gcd
from random import Random

MOST_DIVISOR = 64
MOST_SCALE, MOST_SCALED_DIVISOR = 8, 8  # of quotients of multiples, as 3*n//2
MOST_FACTORS = 3
TRIALS = 200


@dataclass(frozen=True)
class Varied:
    """An integer that is another one in each call."""

    values: tuple[int, ...]

    def __repr__(self) -> str:
        return "/".join(map(str, self.values))


Size = int | Varied


@dataclass(frozen=True)
class Formula:
    """(scale * product of known sizes + offset) // divisor; the sizes by their place among those known."""

    factors: tuple[int, ...]
    scale: int = 1
    offset: int = 0
    divisor: int = 1


@dataclass(frozen=True)
class NamedSize:
    """A size that has a name in the graph; `value` computes it from sizes of the dynamic dimensions."""

    size: Varied
    name: str
    text: str
    value: Callable[[Mapping[str, int]], int]

    def is_same(self, other: NamedSize, dimensions: Sequence[str]) -> bool:
        """True if both are one number, for all of some hundred sizes of the dimensions."""
        numbers = Random(0)
        for _ in range(TRIALS):
            sizes = {name: numbers.randrange(64, 1024) for name in dimensions}
            if self.value(sizes) != other.value(sizes):
                return False
        return True


class Disagreement(Exception):
    """Calls differ in something else than integers."""


def merged(values: Sequence[object]) -> object:
    """One value for several calls in a place: that of all, or a `Varied` where integers differ; tuples by parts.

    Errors: Disagreement.
    """
    first = values[0]
    if all(_same(value, first) for value in values[1:]):
        return first
    if all(type(value) is int for value in values):
        return Varied(tuple(values))  # type: ignore[arg-type]
    if all(isinstance(value, tuple | list) for value in values):
        lengths = {len(value) for value in values}  # type: ignore[arg-type]
        if len(lengths) == 1:
            return tuple(merged(parts) for parts in zip(*values, strict=True))  # type: ignore[call-overload]
    raise Disagreement


def _same(value: object, other: object) -> bool:
    """Equal, of one type; nan equals itself."""
    if type(value) is not type(other):
        return False
    return bool(value == other) or (value != value and other != other)  # noqa: PLR0124


def explained(target: Varied, known: Sequence[Varied]) -> Formula | None:
    """The simplest formula that gives a size in all calls; None where none does."""
    values = target.values
    for place, size in enumerate(known):
        if size.values == values:
            return Formula((place,))
    for candidates in (_affine, _divided):
        for factors, product in _products(known):
            formula = candidates(values, product, factors)
            if formula is not None:
                return formula
    return None


def _products(known: Sequence[Varied]) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Products of up to `MOST_FACTORS` known sizes, fewest factors first."""
    for count in range(1, MOST_FACTORS + 1):
        for factors in combinations_with_replacement(range(len(known)), count):
            rows = zip(*[known[place].values for place in factors], strict=True)
            yield factors, tuple(_product(row) for row in rows)


def _product(row: Sequence[int]) -> int:
    result = 1
    for value in row:
        result *= value
    return result


def _affine(
    values: tuple[int, ...], product: tuple[int, ...], factors: tuple[int, ...]
) -> Formula | None:
    """scale * product + offset; products of several sizes only without an offset."""
    if values == product:
        return Formula(factors)
    steps = [b - a for a, b in zip(product, product[1:], strict=False)]
    rises = [b - a for a, b in zip(values, values[1:], strict=False)]
    if 0 in steps or rises[0] % steps[0]:
        return None
    scale = rises[0] // steps[0]
    offset = values[0] - scale * product[0]
    if offset and len(factors) > 1:
        return None
    pairs = zip(values, product, strict=True)
    return (
        Formula(factors, scale, offset) if all(v == scale * p + offset for v, p in pairs) else None
    )


def _divided(
    values: tuple[int, ...], product: tuple[int, ...], factors: tuple[int, ...]
) -> Formula | None:
    """(scale * product + offset) // divisor with the least offset; multiples come last."""
    if len(factors) > 1:
        return None
    for scale, divisor in _QUOTIENTS:
        pairs = [(v, scale * p) for v, p in zip(values, product, strict=True)]
        low = max(v * divisor - p for v, p in pairs)
        high = min(v * divisor - p + divisor - 1 for v, p in pairs)
        if low <= high:
            return Formula(factors, scale, max(low, min(high, 0)), divisor)
    return None


_QUOTIENTS = [(1, divisor) for divisor in range(2, MOST_DIVISOR + 1)] + [
    (scale, divisor)
    for scale in range(2, MOST_SCALE + 1)
    for divisor in range(2, MOST_SCALED_DIVISOR + 1)
    if gcd(scale, divisor) == 1
]


def combined(formula: Formula, known: Sequence[NamedSize], size: Varied, name: str) -> NamedSize:
    """A size that a formula gives, with its name."""
    parts = [known[place] for place in formula.factors]

    def value(sizes: Mapping[str, int]) -> int:
        product = _product([part.value(sizes) for part in parts])
        return (formula.scale * product + formula.offset) // formula.divisor

    return NamedSize(size, name, text_of(formula, known), value)


def text_of(formula: Formula, known: Sequence[NamedSize]) -> str:
    """`2*batch + 1`."""
    product = "*".join(_bracketed(known[place].text) for place in formula.factors)
    if formula == Formula(formula.factors) and len(formula.factors) == 1:
        return known[formula.factors[0]].text
    text = product if formula.scale == 1 else f"{formula.scale}*{product}"
    if formula.offset:
        text += f" {'+' if formula.offset > 0 else '-'} {abs(formula.offset)}"
    if formula.divisor == 1:
        return text
    return f"({text})//{formula.divisor}" if formula.offset else f"{text}//{formula.divisor}"


def _bracketed(text: str) -> str:
    return f"({text})" if " " in text else text
