"""Calls that are taken to their row, and calls that open no scope, record what the functions say of themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft.engine.ir.tape import last_sequence, tape
from weft.nn import functional as F

SPACES = {"weft": weft, "F": F, "Tensor": weft.Tensor}
DIRECT = {
    f"{space}.{name}": function
    for space, holder in SPACES.items()
    for name in dir(holder)
    if callable(function := getattr(holder, name)) and hasattr(function, "unary")
}
SINGLE: dict[str, Callable[..., Any]] = {
    "linear": lambda x, w, b: F.linear(x, w),
    "linear with a bias": lambda x, w, b: F.linear(x, w, b),
    "dim": lambda x, w, b: x.dim(),
    "numel": lambda x, w, b: x.numel(),
    "stride": lambda x, w, b: x.stride(),
    "is_contiguous": lambda x, w, b: x.is_contiguous(),
}


def recorded(call: Callable[[], Any]) -> tuple[list[str], Any]:
    """The names of the operations that a call records, and its result."""
    before = last_sequence()
    result = call()
    return [node.op.name for node in tape().since(before)], result


@pytest.mark.parametrize("name", DIRECT)
def test_a_call_that_is_taken_to_its_row_is_as_the_function(name: str) -> None:
    x = weft.tensor([-1.5, 0.25, 2.5], requires_grad=True)
    function = DIRECT[name]
    direct, result = recorded(lambda: function(x))
    whole, expected = recorded(lambda: function.__wrapped__(x))
    assert direct == whole and len(direct) == 1
    assert result.grad_fn.name() == expected.grad_fn.name()
    assert result.dtype is expected.dtype and result.tolist() == pytest.approx(
        expected.tolist(), rel=0, abs=0, nan_ok=True
    )


def test_functions_of_rows_are_taken_to_them() -> None:
    assert {"weft.exp", "weft.relu", "weft.floor", "F.relu", "F.tanh", "Tensor.neg"} <= {*DIRECT}


@pytest.mark.parametrize("name", SINGLE)
def test_a_call_that_opens_no_scope_records_one_operation_at_most(name: str) -> None:
    x, w, b = weft.randn(2, 3), weft.randn(3, 3), weft.randn(3)
    weft.realize(x, w, b)
    made, _ = recorded(lambda: SINGLE[name](x, w, b))
    assert len(made) <= 1
