"""Kernels read and write as far as shapes say. Where operands do not fit each other's shapes, nothing is recorded: not
by a public function, and not by the primitives below, however they are called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft.engine.ir.tape import tape
from weft.ops import primitives as ops

X = weft.arange(12.0).reshape(3, 4)
V = weft.arange(3.0)


def index(*shape: int) -> Any:
    """Positions, all 0."""
    return weft.zeros(shape, dtype=weft.int64)


MISFITS: dict[str, Callable[[], Any]] = {
    "view": lambda: ops.reshape(X, (11,)),
    "view to a number": lambda: ops.reshape(V, ()),
    "view with a question": lambda: ops.reshape(X, (-1,)),
    "expand": lambda: ops.expand(X, (6, 4)),
    "expand to fewer": lambda: ops.expand(X, (4,)),
    "strided": lambda: ops.strided(X, (3, 4), 1, (4, 1)),
    "strided before": lambda: ops.strided(X, (3,), 1, (-1,)),
    "put": lambda: ops.put(X, V, 10, (1,)),
    "put wide": lambda: ops.put(V, X, 0, (4, 1)),
    "slice": lambda: ops.slice_axis(X, 1, 2, 3),
    "slice before": lambda: ops.slice_axis(X, 1, -1, 2),
    "slice by steps": lambda: ops.slice_axis(X, 0, 0, 2, 3),
    "cat": lambda: ops.concat((X, weft.ones(3, 5)), 0),
    "gather of another rank": lambda: ops.gather(X, 0, index(3)),
    "gather beside the axis": lambda: ops.gather(X, 0, index(2, 5)),
    "scatter beside the axis": lambda: ops.scatter(X, 1, index(4, 2), weft.ones(4, 2)),
    "scatter of little": lambda: ops.scatter_add(X, 0, index(2, 4), weft.ones(2, 3)),
    "take_add of little": lambda: ops.take_add(X, 0, index(2), weft.ones(1, 4)),
    "take_put of much": lambda: ops.take_put(X, 0, index(2), weft.ones(3, 4)),
    "take_put by a matrix": lambda: ops.take_put(X, 0, index(2, 2), weft.ones(2, 4)),
}


@pytest.mark.parametrize("name", MISFITS)
def test_primitives_record_nothing_that_does_not_fit(name: str) -> None:
    before = tape().count
    with pytest.raises(RuntimeError):
        MISFITS[name]()
    assert tape().count == before


CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "index_select": lambda w, i: w.tensor(1.0).index_select(0, i),
    "index_fill": lambda w, i: w.tensor(1.0).index_fill(0, i, 2.0),
    "index_fill by a tensor": lambda w, i: w.tensor(1.0).index_fill(0, i, w.tensor(2.0)),
    "index_copy": lambda w, i: w.tensor(1.0).index_copy(0, i, w.ones(i.shape)),
    "gather": lambda w, i: w.tensor(1.0).gather(0, i),
    "scatter": lambda w, i: w.tensor(1.0).scatter(0, i, w.ones(i.shape)),
    "scatter_add": lambda w, i: w.tensor(1.0).scatter_add(0, i, w.ones(i.shape)),
    "index_add of rows": lambda w, i: w.ones(2, 3).index_add(0, i, w.ones(2, 3)),
    "index_copy of rows": lambda w, i: w.ones(2, 3).index_copy(0, i, w.ones(2, 3)),
    "index_fill of rows": lambda w, i: w.ones(2, 3).index_fill(0, i, 2.0),
    "take_along_dim": lambda w, i: w.take_along_dim(w.ones(2, 0), i),
}
INDICES: tuple[Any, ...] = (0, [0], [0, 0], [], [[0]], [[0, 1]], [[0, 1], [1, 0]], [0, 1])


@pytest.mark.parametrize("name", CALLS)
def test_indices_of_any_shape_give_what_pytorch_gives(name: str) -> None:
    """Numbers have no dimension to look along; several indices of one, or a matrix of them, do not always fit it."""
    torch = pytest.importorskip("torch")

    def result(framework: Any, values: Any) -> Any:
        try:
            i = framework.tensor(values, dtype=framework.int64)
            return CALLS[name](framework, i).tolist()
        except (RuntimeError, IndexError):
            return "refused"

    for values in INDICES:
        assert result(weft, values) == result(torch, values), values
