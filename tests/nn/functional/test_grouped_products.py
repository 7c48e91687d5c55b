"""Products of groups: all four forms, their derivatives and refusals, as in PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from oracle import torch

FORMS: dict[str, tuple[Any, Any, Any]] = {
    "groups of rows": ((6, 8), (3, 8, 16), [2, 2, 6]),
    "groups of columns": ((3, 4, 8), (8, 16), [8, 8, 16]),
    "groups of terms": ((4, 16), (16, 16), [8, 8, 16]),
    "a batch": ((3, 4, 8), (3, 8, 16), None),
}
REFUSED: dict[str, tuple[Any, Any, Any]] = {
    "no ends": ((6, 8), (3, 8, 16), None),
    "ends of a batch": ((3, 4, 8), (3, 8, 16), [1, 2, 3]),
    "a vector": ((8,), (3, 8, 16), [1, 2, 3]),
    "other terms": ((6, 7), (3, 8, 16), [1, 2, 3]),
}


def ends(T: Any, offs: Any) -> Any:
    return None if offs is None else T.tensor(offs, dtype=T.int32)


@pytest.mark.parametrize("name", FORMS)
def test_values_are_pytorchs_and_derivatives_exact(name: str) -> None:
    a, b, offs = FORMS[name]
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in (a, b)]
    made = [
        T.nn.functional.grouped_mm(*map(T.tensor, arrays), offs=ends(T, offs)).numpy()
        for T in (weft, torch)
    ]
    np.testing.assert_allclose(*made, rtol=1e-4, atol=1e-5)
    inputs = tuple(weft.tensor(x, dtype=weft.float64, requires_grad=True) for x in arrays)
    assert weft.autograd.gradcheck(
        lambda x, y: weft.nn.functional.grouped_mm(x, y, offs=ends(weft, offs)), inputs
    )


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_in_pytorchs_words(name: str) -> None:
    a, b, offs = REFUSED[name]

    def told(T: Any) -> str:
        with pytest.raises(RuntimeError) as caught:
            T.nn.functional.grouped_mm(T.ones(a), T.ones(b), offs=ends(T, offs))
        return str(caught.value).split("\n")[0].split(", called at")[0]

    assert told(weft) == told(torch)


def test_rows_in_no_group_are_zero() -> None:
    made = weft.nn.functional.grouped_mm(
        weft.ones(4, 2), weft.ones(2, 2, 3), offs=ends(weft, [1, 2])
    )
    assert made.tolist() == [[2.0] * 3] * 2 + [[0.0] * 3] * 2
