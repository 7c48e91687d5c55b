"""Products of large sparse matrices with dense ones: bags of rows have the values and derivatives of gathered rows."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.functional.indexing import bag_products

ROWS, COLUMNS, WIDTH = 7, 5, 3


def entries(seed: int, count: int, rows: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Indices in any order, some of them several times, and values."""
    draw = np.random.default_rng(seed)
    rows = draw.integers(0, ROWS, count) if rows is None else rows
    return np.stack([rows, draw.integers(0, COLUMNS, len(rows))]), draw.standard_normal(len(rows))


CASES = {
    "any order": entries(0, 20),
    "a long row": entries(1, 0, np.array([3] * 60 + [1, 0, 6])),
    "empty rows": entries(2, 3),
    "no entries": entries(3, 0),
}


def product(
    case: str, form: str, dtype: weft.dtype, most: int, monkeypatch: pytest.MonkeyPatch
) -> list[np.ndarray]:
    """A product and its derivatives by the values and by the dense factor."""
    monkeypatch.setattr(bag_products, "GATHERED_ELEMENTS", most)
    places, numbers = CASES[case]
    values = weft.tensor(numbers, dtype=dtype, requires_grad=True)
    dense = weft.from_numpy(np.random.default_rng(9).standard_normal((COLUMNS, WIDTH))).to(dtype)
    dense.requires_grad_()
    matrix = weft.sparse_coo_tensor(weft.tensor(places), values, (ROWS, COLUMNS))
    if form != "coo":
        matrix = matrix.coalesce()
    if form == "csr":
        matrix = matrix.to_sparse_csr()
    found = dense.T @ matrix.t() if form == "transposed" else weft.sparse.mm(matrix, dense)
    again = weft.sparse.mm(matrix, dense).mT if form == "transposed" else matrix @ dense
    (found * (1 + found)).sum().backward()
    assert found.shape == again.shape
    return [part.detach().numpy() for part in (found, again, values.grad, dense.grad)]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("form", ["coo", "coalesced", "csr", "transposed"])
@pytest.mark.parametrize("dtype", [weft.float32, weft.float64], ids=lambda dtype: dtype.name)
def test_bags_have_the_values_of_gathered_rows(
    case: str, form: str, dtype: weft.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = product(case, form, dtype, 0, monkeypatch)
    small = product(case, form, dtype, 1 << 40, monkeypatch)
    for one, other in zip(large, small, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
    if case != "a long row":  # whose pieces are added apart
        assert all((one == other).all() for one, other in zip(large[:2], small[:2], strict=True))


def test_second_derivatives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bag_products, "GATHERED_ELEMENTS", 0)
    places, numbers = CASES["a long row"]

    def multiplied(values: weft.Tensor, dense: weft.Tensor) -> weft.Tensor:
        return weft.sparse.mm(weft.sparse_coo_tensor(places, values, (ROWS, COLUMNS)), dense)

    dense = weft.randn(COLUMNS, WIDTH, dtype=weft.float64, requires_grad=True)
    values = weft.tensor(numbers, dtype=weft.float64, requires_grad=True)
    assert weft.autograd.gradcheck(multiplied, (values, dense))
    assert weft.autograd.gradgradcheck(multiplied, (values, dense))


def test_other_types_are_gathered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bag_products, "GATHERED_ELEMENTS", 0)
    matrix = weft.sparse_coo_tensor([[0, 1], [1, 0]], weft.tensor([2, 3]), (2, 2))
    assert (matrix @ weft.tensor([[1, 2], [3, 4]])).tolist() == [[6, 8], [3, 6]]
