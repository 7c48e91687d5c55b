"""How `tools/conformance examples` reads PyTorch's documentation and compares what comes of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from oracle import conformance

TEXTS = {
    ">>> x = 1\n>>> for _ in x:\n...     print(_)\n1\n": ["x = 1\n", "for _ in x:\n    print(_)\n"],
    "Example::\n\n    >>> x\n    1": ["x\n"],
    ">>> a\n  >>> b\n>>>c\n": ["a\n", "b\n"],  # which doctest refuses
    "nothing": [],
}


@pytest.fixture(scope="module")
def examples() -> Any:
    return conformance("examples")


@pytest.mark.parametrize("text", TEXTS)
def test_statements_are_found(examples: Any, text: str) -> None:
    assert examples._statements(text) == TEXTS[text]


@pytest.mark.parametrize(
    ("theirs", "ours", "kind"),
    [
        (["ok", "tensor([1.0001,  nan])"], ["ok", "tensor([1.0002, nan])"], "the same"),
        (["ok", "dtype=torch.int32"], ["ok", "dtype=weft.int32"], "the same"),
        (["ok", "tensor([1., 2.])"], ["ok", "tensor([1., 2.1])"], "other values or texts"),
        (["ok", "tensor([1.])"], ["ok", "tensor(1.)"], "other values or texts"),
        (["ok", ""], ["TypeError", "no"], "only Weft raises"),
        (["TypeError", "no"], ["ok", ""], "only PyTorch raises"),
        (["TypeError", "no"], ["ValueError", "neither"], "both raise"),
    ],
)
def test_outcomes_compare(examples: Any, theirs: list[str], ours: list[str], kind: str) -> None:
    assert examples.kind_of(theirs, ours) == kind


def test_an_outcome_is_what_was_printed_or_raised(examples: Any) -> None:
    names: dict[str, Any] = {"x": 3}
    assert examples.outcome("x + 1\n", names) == ["ok", "4\n"]
    assert examples.outcome("y = x\n", names) == ["ok", ""] and names["y"] == 3
    assert examples.outcome("y.z\n", names)[0] == "AttributeError"
    assert examples.outcome("x +\n", names)[0] == "SyntaxError"


def test_random_numbers_are_numpys(examples: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("randn", "rand", "randn_like", "rand_like", "randint", "randperm"):
        monkeypatch.setattr(weft, name, getattr(weft, name))  # put back afterwards
    examples.Draws(weft)
    source = np.random.RandomState(0)
    np.testing.assert_array_equal(weft.randn(2, 3).numpy(), source.randn(2, 3).astype("float32"))
    np.testing.assert_array_equal(weft.rand((4,), dtype=weft.float64).numpy(), source.rand(4))
    assert weft.randint(3, 9, (5,)).tolist() == source.randint(3, 9, 5).tolist()
    assert weft.randint(high=2, size=(2, 2)).tolist() == source.randint(0, 2, (2, 2)).tolist()
    assert weft.randn(2, requires_grad=True).requires_grad
