"""Arithmetic of two numbers: the functions that PyTorch takes them in give what it gives, the others refuse them."""

from __future__ import annotations

from typing import Any

import pytest

import weft
from oracle import torch

TAKEN = [
    "add",
    "sub",
    "subtract",
    "mul",
    "multiply",
    "div",
    "divide",
    "true_divide",
    "floor_divide",
]
REFUSED = [
    *("remainder", "fmod", "pow", "rsub", "maximum", "eq", "lt", "bitwise_and", "logical_and"),
    *("atan2", "copysign", "xlogy", "gcd", "ldexp"),
]
PAIRS = [(2, 3), (True, True), (2.5, 2), (True, 3), (2, 1j), (7, -2)]


def _told(T: Any, name: str, pair: Any, **options: Any) -> Any:
    try:
        made = getattr(T, name)(*pair, **options)
    except (RuntimeError, TypeError) as error:
        return "refused" if isinstance(error, RuntimeError) else "no such call"
    return made.tolist(), tuple(made.shape), str(made.dtype).split(".")[1]


def _calls() -> list[Any]:
    without_kernel = [("floor_divide", (True, True)), ("floor_divide", (2, 1j))]  # in PyTorch
    calls = [(name, pair) for name in TAKEN + REFUSED for pair in PAIRS]
    return [call for call in calls if call not in without_kernel]


@pytest.mark.parametrize(("name", "pair"), _calls())
def test_two_numbers_are_taken_where_pytorch_takes_them(name: str, pair: Any) -> None:
    assert _told(weft, name, pair) == _told(torch, name, pair)


def test_options_of_numbers() -> None:
    for name, options in (
        ("add", {"alpha": 2}),
        ("sub", {"alpha": 3}),
        ("div", {"rounding_mode": "floor"}),
        ("div", {"rounding_mode": "trunc"}),
    ):
        assert _told(weft, name, (-7, 2), **options) == _told(torch, name, (-7, 2), **options)
    assert weft.add(2, 3, out=weft.empty(0)).dtype is weft.float32
