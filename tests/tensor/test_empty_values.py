"""Values without elements, of every origin, beside values that have some: the same as on PyTorch.

Under `WEFT_GUARD` nothing lies where their elements would be: what is read of them ends the process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from oracle import torch

ORIGINS: dict[str, Callable[[Any], Any]] = {
    "constant": lambda w: w.zeros(5, 0),
    "fresh": lambda w: w.empty(5, 0),
    "computed": lambda w: w.arange(0.0).reshape(5, 0) * 2,
    "array": lambda w: w.from_numpy(np.empty((5, 0), "float32")),
    "array expanded": lambda w: w.from_numpy(np.empty((1, 0), "float32")).expand(5, 0),
    "array at its end": lambda w: w.from_numpy(np.ones((5, 3), "float32")[:, 3:]),
    "expanded": lambda w: w.empty(1, 0).expand(5, 0),
    "expanded across": lambda w: w.empty(0)[:, None].expand(0, 5).t(),
    "one element": lambda w: w.arange(1.0).reshape(1, 1).expand(5, 1)[:, 1:],
    "end of a value": lambda w: w.arange(15.0).reshape(5, 3)[:, 3:],
    "strided": lambda w: w.arange(3.0).as_strided((5, 0), (1, 1), 3),
    "strided by nothing": lambda w: w.arange(3.0).as_strided((5, 0), (0, 0), 3),
}
BESIDE: dict[str, Callable[[Any, Any, Any], Any]] = {
    "alone": lambda x, rows, lanes: x,
    "rows": lambda x, rows, lanes: x * rows[:, None],
    "inner": lambda x, rows, lanes: x[:, :, None] * lanes,
    "inner and rows": lambda x, rows, lanes: x[:, :, None] * lanes + rows[:, None, None],
    "outer": lambda x, rows, lanes: x[:, None, :] * lanes[:, None],
}


@pytest.mark.parametrize("realized", [True, False])
@pytest.mark.parametrize("beside", BESIDE)
@pytest.mark.parametrize("origin", ORIGINS)
def test_reductions_and_reads(origin: str, beside: str, realized: bool) -> None:
    def results(w: Any) -> list[Any]:
        x, rows, lanes = ORIGINS[origin](w), w.arange(5.0), w.arange(8.0)
        if realized:
            assert [len(v.tolist()) for v in (x, rows, lanes)] == [5, 5, 8]
        y = BESIDE[beside](x, rows, lanes)
        sums = [y.sum(dim) for dim in range(y.dim())] + [y.sum((0, 1)), y.sum((0, -1)), y.sum()]
        more = [y.prod(), y.neg().prod(0), (y > 0).any(1), y.mean(0), y.cumsum(1), y.softmax(1)]
        moved = [w.cat([x, rows[:, None]], 1), x @ w.ones(0, 3), x.t() @ rows, x[[1, 2]].sum(1)]
        return [value.tolist() for value in (*sums, *more, *moved)]

    np.testing.assert_equal(results(weft), results(torch))
