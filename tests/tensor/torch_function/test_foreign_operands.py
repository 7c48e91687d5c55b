"""Operators with what is no tensor and has `__torch_function__`; tensors that may not become views of themselves."""

from __future__ import annotations

from typing import Any

import pytest

import weft
from oracle import torch


class Answers:
    """Says which function it was asked about, and which operands came."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func.__name__, [type(value).__name__ for value in args]


OPERATORS = [
    "+",
    "-",
    "*",
    "/",
    "//",
    "%",
    "&",
    "|",
    "^",
    "<<",
    ">>",
    "==",
    "!=",
    "<",
    "<=",
    ">",
    ">=",
]


@pytest.mark.parametrize("operator", OPERATORS)
def test_operands_that_answer_are_asked(operator: str) -> None:
    found = []
    for T in (weft, torch):
        names = {"x": T.arange(4), "h": Answers()}
        found.append(eval(f"x {operator} h", names))
    assert found[0] == found[1]


@pytest.mark.parametrize("operator", ["+", "-", "*", "/", "//", "%"])
def test_operands_on_the_left_are_asked(operator: str) -> None:
    ours, theirs = (
        eval(f"h {operator} x", {"x": T.ones(4), "h": Answers()}) for T in (weft, torch)
    )
    assert ours[1] == theirs[1]
    if operator not in "-/":  # whose reflected forms have Python's names here, and PyTorch's there
        assert ours == theirs


def test_others_are_refused_as_before() -> None:
    with pytest.raises(TypeError, match="unsupported operand"):
        weft.ones(2) + object()  # type: ignore[operator]


def _views(T: Any, kind: str) -> Any:
    leaf = T.ones(4, 2, requires_grad=True)
    whole = leaf * 1
    if kind == "no_grad":
        with T.no_grad():
            return whole.view(2, 4)
    return {
        "several": lambda: whole.split(2)[0],
        "of a leaf": lambda: leaf.view(2, 4),
        "leaf": lambda: leaf,
        "view": lambda: whole.view(2, 4),
        "result": lambda: whole,
    }[kind]()


BECOMING = {
    "squeeze_": (),
    "t_": (),
    "transpose_": (0, 1),
    "unsqueeze_": (0,),
    "swapaxes_": (0, 1),
    "swapdims_": (0, 1),
    "as_strided_": ((2,), (1,)),
}


@pytest.mark.parametrize("kind", ["several", "no_grad", "of a leaf", "leaf", "view", "result"])
@pytest.mark.parametrize("name", BECOMING)
def test_views_of_themselves_follow_the_rules_of_writes(name: str, kind: str) -> None:
    told = []
    for T in (weft, torch):
        view = _views(T, kind)
        try:
            told.append(tuple(getattr(view, name)(*BECOMING[name]).shape))
        except RuntimeError as error:
            told.append(str(error)[:40])
    assert told[0] == told[1]
