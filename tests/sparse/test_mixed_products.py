"""smm, hspmm and sspaddmm: products of a sparse and a dense matrix that are sparse, with PyTorch's values and kinds."""

from __future__ import annotations

from typing import Any

import pytest

import weft
from oracle import torch

CALLS: dict[str, Any] = {
    "smm": lambda T, a, s, d: T.smm(s, d),
    "hspmm": lambda T, a, s, d: T.hspmm(s, d),
    "sspaddmm": lambda T, a, s, d: T.sspaddmm(a, s, d),
    "sspaddmm, scaled": lambda T, a, s, d: T.sspaddmm(a, s, d, beta=2, alpha=0.5),
    "Tensor.smm": lambda T, a, s, d: s.smm(d),
    "Tensor.sspaddmm": lambda T, a, s, d: a.sspaddmm(s, d, alpha=3),
    "dsmm": lambda T, a, s, d: T.dsmm(s, d).to_sparse(),
    "hsmm": lambda T, a, s, d: T.hsmm(s, d),
    "saddmm": lambda T, a, s, d: T.saddmm(a, s, d, beta=2),
}


def parts(x: Any) -> Any:
    return x._indices().tolist(), x._values().tolist(), x.shape, x.is_coalesced()


@pytest.mark.filterwarnings("ignore:Sparse invariant checks")
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize(
    "places", [[[0, 0, 2], [0, 1, 1]], [[0, 0, 0], [0, 0, 1]], [[3], [0]], [[], []]]
)
def test_entries_are_those_of_rows_that_have_some(name: str, places: Any) -> None:
    def told(T: Any) -> Any:
        s = T.sparse_coo_tensor(
            T.tensor(places, dtype=T.int64), T.tensor([2.0, -2.0, 4.0][: len(places[0])]), (4, 2)
        )
        a = T.sparse_coo_tensor(T.tensor([[0, 1], [1, 0]]), T.tensor([2.0, 3.0]), (4, 3))
        return parts(CALLS[name](T, a, s, T.tensor([[1.0, 2.0, 3.0], [1.0, 5.0, 6.0]])))

    assert told(weft) == told(torch)


@pytest.mark.filterwarnings("ignore:Sparse invariant checks")
@pytest.mark.parametrize("name", CALLS)
def test_products_stay_sparse(name: str) -> None:
    def told(T: Any) -> Any:
        s = T.sparse_coo_tensor(T.tensor([[0, 1], [1, 0]]), T.tensor([1.0, 2.0]), (2, 2))
        a = T.sparse_coo_tensor(T.tensor([[0], [1]]), T.tensor([3.0]), (2, 3))
        made = CALLS[name](T, a, s, T.tensor([[1.0, 0.0, 2.0], [3.0, 4.0, 0.0]]))
        return made.is_sparse, made.sparse_dim(), made.dense_dim(), made.to_dense().tolist()

    assert told(weft) == told(torch)


@pytest.mark.parametrize("name", ["smm", "hspmm"])
def test_a_dense_factor_is_refused(name: str) -> None:
    with pytest.raises(RuntimeError, match="sparse"):
        getattr(weft, name)(weft.ones(2, 2), weft.ones(2, 2))
