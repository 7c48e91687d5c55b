"""The verifier of the recorded graph: what the recorder makes is accepted, and what it would never make is refused,
with the reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft.engine.frontend.node_factory import make_node
from weft.engine.frontend.resolve import value_of
from weft.engine.ir import dtype as dtypes
from weft.engine.ir.tape import finish, tape
from weft.engine.pipeline import driver
from weft.engine.pipeline.record_text import verify
from weft.errors import VerificationError
from weft.ops import OPS

X = weft.ones(3, 4)
W = weft.ones(4, 2, requires_grad=True)


def node(name: str, *operands: Any, params: Any = None, shape: Any, dtype: Any, edges: Any) -> Any:
    """A node that nobody has checked, and that will not run."""
    made = make_node(
        OPS[name], tuple(map(value_of, operands)), params, shape, dtypes.by_name(dtype), edges
    )
    finish(made)
    return made


def plain(name: str, *operands: Any, shape: Any, dtype: str = "float32", **more: Any) -> Any:
    return node(name, *operands, shape=shape, dtype=dtype, edges=None, **more)


def with_edges(count: int, shift: int = 0) -> Any:
    """A product whose edges are a recorded product's, cut off or turned."""
    edges = value_of(X @ W).edges
    return node("matmul", X, W, shape=(3, 2), dtype="float32", edges=(edges * 2)[shift:][:count])


def without_residuals() -> Any:
    made = with_edges(2)
    made.residual_mask = 0
    return made


WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "a shape that operands do not broadcast to": (
        lambda: plain("add", X, X, shape=(4, 4)),
        r"shape \(3, 4\), as its op says",
    ),
    "a shape that a product does not have": (
        lambda: plain("matmul", X, W, shape=(4, 2)),
        r"shape \(3, 2\)",
    ),
    "a reduction that keeps its dimension": (
        lambda: plain("sum", X, params=((1,), False), shape=(3, 1)),
        r"shape \(3,\)",
    ),
    "a comparison of numbers that is a number": (
        lambda: plain("gt", X, X, shape=(3, 4)),
        "dtype weft.bool",
    ),
    "another dtype than the operands'": (
        lambda: plain("mul", X, X, shape=(3, 4), dtype="float64"),
        "dtype weft.float32",
    ),
    "a view of another dtype": (
        lambda: plain("view", X, params=(12,), shape=(12,), dtype="int64"),
        "dtype weft.float32",
    ),
    "fewer edges than inputs": (lambda: with_edges(1), "2 gradient edges, one for each input"),
    "edges of each other's inputs": (
        lambda: with_edges(2, 1),
        r"an edge to a gradient of shape \(3, 4\)",
    ),
    "edges of what has no derivative": (
        lambda: node("gt", X, X, shape=(3, 4), dtype="bool", edges=(None, None)),
        "no gradient edges",
    ),
    "residuals that nobody has kept": (without_residuals, "residuals 0x1"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_the_op_table_does_not_say_is_refused(name: str) -> None:
    make, words = WRONG[name]
    with pytest.raises(VerificationError, match=words):
        verify([make()])


def test_an_input_is_recorded_before_its_reader() -> None:
    later = X.exp()
    made = plain("neg", X, shape=(3, 4))
    made.inputs = (value_of(X.sin()),)
    with pytest.raises(VerificationError, match="recorded before"):
        verify([made])
    del later


def test_what_is_recorded_is_accepted() -> None:
    driver.flush()
    rows = [weft.rand(4, requires_grad=True) for _ in range(3)]
    losses = [((row @ W).softmax(0)[0] > 0.2).float() * row.sum() for row in rows]
    weft.stack(losses).sum().backward()
    verify(tape().pending())
    assert [row.grad is not None for row in rows] == [True] * 3
