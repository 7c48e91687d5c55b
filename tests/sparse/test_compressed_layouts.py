"""Compressed sparse matrices: by rows and columns, of elements and of blocks, beside PyTorch and beside dense ones."""

from __future__ import annotations

import copy
import io
import pickle
from typing import Any

import pytest

import weft
from oracle import torch
from weft.errors import ArgumentError, ShapeError

pytestmark = pytest.mark.filterwarnings("ignore")
LAYOUTS = ("csr", "csc", "bsr", "bsc")
BLOCK = (2, 3)
ROWS = [
    [1.0, 0.0, 2.0, 0.0, 0.0, 0.0],
    [0.0, 0.0, 3.0, 0.0, 0.0, 0.0],
    [0.0, 4.0, 0.0, 0.0, 0.0, 0.0],
    [5.0, 0.0, 0.0, 6.0, 0.0, 0.0],
]


def made(lib: Any, layout: str, rows: Any = ROWS, **options: Any) -> Any:
    """A matrix of a layout."""
    dense = lib.tensor(rows, **options)
    if layout in ("bsr", "bsc"):
        return getattr(dense, f"to_sparse_{layout}")(BLOCK)
    return getattr(dense, f"to_sparse_{layout}")()


def parts_of(sparse: Any) -> list[Any]:
    """Starts, positions and values as lists."""
    by_rows = sparse.layout in (weft.sparse_csr, weft.sparse_bsr) or str(sparse.layout).endswith(
        "r"
    )
    starts = sparse.crow_indices() if by_rows else sparse.ccol_indices()
    positions = sparse.col_indices() if by_rows else sparse.row_indices()
    return [starts.tolist(), positions.tolist(), sparse.values().tolist()]


@pytest.mark.parametrize("layout", LAYOUTS)
class TestBesidePyTorch:
    def test_parts(self, layout: str) -> None:
        mine, theirs = made(weft, layout), made(torch, layout)
        assert parts_of(mine) == parts_of(theirs)
        for fact in ("sparse_dim", "dense_dim", "_nnz"):
            assert getattr(mine, fact)() == getattr(theirs, fact)()
        assert (mine.is_sparse, mine.is_sparse_csr) == (theirs.is_sparse, theirs.is_sparse_csr)
        assert str(mine.layout).removeprefix("weft") == str(theirs.layout).removeprefix("torch")

    def test_text(self, layout: str) -> None:
        words = [repr(made(lib, layout)).replace("weft", "torch").split() for lib in (weft, torch)]
        assert words[0] == words[1]

    def test_constructors(self, layout: str, lib: Any) -> None:
        sparse = made(lib, layout)
        starts, positions, values = parts_of(sparse)
        for again in (
            getattr(lib, f"sparse_{layout}_tensor")(starts, positions, values, (4, 6)),
            lib.sparse_compressed_tensor(starts, positions, values, (4, 6), layout=sparse.layout),
        ):
            assert again.layout is sparse.layout and again.to_dense().tolist() == ROWS

    @pytest.mark.parametrize("name", ["neg", "sin", "relu", "abs", "double", "clone", "detach"])
    def test_functions_of_entries(self, layout: str, name: str, lib: Any) -> None:
        sparse = made(lib, layout)
        found = getattr(sparse, name)()
        assert found.layout is sparse.layout
        lib.testing.assert_close(found.to_dense(), getattr(lib.tensor(ROWS), name)())

    def test_arithmetic(self, layout: str, lib: Any) -> None:
        sparse, dense = made(lib, layout), lib.tensor(ROWS)
        for found, wanted in ((sparse * 2, dense * 2), (sparse + sparse, dense + dense)):
            assert found.layout is sparse.layout
            lib.testing.assert_close(found.to_dense(), wanted)

    def test_transposes(self, layout: str, lib: Any) -> None:
        sparse = made(lib, layout)
        found = sparse.transpose(0, 1)
        assert (
            str(found.layout)[-3:]
            == {"csr": "csc", "csc": "csr", "bsr": "bsc", "bsc": "bsr"}[layout]
        )
        assert found.to_dense().tolist() == lib.tensor(ROWS).T.tolist()
        assert found.transpose(0, 1).layout is sparse.layout

    def test_pytorchs_files(self, layout: str) -> None:
        file = io.BytesIO()
        torch.save({"matrix": made(torch, layout)}, file)
        file.seek(0)
        assert parts_of(weft.load(file)["matrix"]) == parts_of(made(torch, layout))


@pytest.mark.parametrize("layout", LAYOUTS)
class TestBesideDense:
    def test_products(self, layout: str) -> None:
        sparse, dense = made(weft, layout), weft.tensor(ROWS)
        right, vector = weft.randn(6, 3), weft.randn(6)
        weft.testing.assert_close(sparse @ right, dense @ right)
        weft.testing.assert_close(right.T @ sparse.t(), right.T @ dense.T)
        weft.testing.assert_close(sparse @ vector, dense @ vector)
        weft.testing.assert_close(weft.sparse.mm(sparse, right), dense @ right)
        weft.testing.assert_close((sparse @ sparse.t()).to_dense(), dense @ dense.T)
        weft.testing.assert_close(
            weft.nn.functional.linear(right.T, sparse), weft.nn.functional.linear(right.T, dense)
        )

    @pytest.mark.parametrize("other", ["coo", *LAYOUTS])
    def test_every_layout_into_every_other(self, layout: str, other: str) -> None:
        blocks = {"blocksize": BLOCK} if other in ("bsr", "bsc") else {}
        found = made(weft, layout).to_sparse(layout=getattr(weft, f"sparse_{other}"), **blocks)
        assert str(found.layout).endswith(other)
        assert found.to_dense().tolist() == ROWS

    def test_gradients(self, layout: str) -> None:
        dense = weft.tensor(ROWS, requires_grad=True)
        right = weft.randn(6, 3)
        sparse = made_of(dense, layout)
        (sparse @ right).square().sum().backward()
        leaf = weft.tensor(ROWS, requires_grad=True)
        (leaf @ right).square().sum().backward()
        kept = weft.ones(4, 6).sparse_mask(sparse.detach()).to_dense()
        assert dense.grad is not None and leaf.grad is not None
        weft.testing.assert_close(dense.grad, leaf.grad * kept)

    def test_gradients_of_its_values(self, layout: str) -> None:
        sparse = made(weft, layout).requires_grad_()
        right = weft.randn(6, 3)
        (sparse @ right).sum().backward()
        wanted = weft.ones(4, 3) @ right.T
        assert sparse.grad is not None and sparse.grad.layout is sparse.layout
        weft.testing.assert_close(sparse.grad.to_dense(), wanted.sparse_mask(sparse).to_dense())

    def test_sums(self, layout: str) -> None:
        assert weft.sparse.sum(made(weft, layout)).item() == 21
        weft.testing.assert_close(
            weft.sparse.sum(made(weft, layout), 0).to_dense(), weft.tensor(ROWS).sum(0)
        )

    def test_copies_and_files(self, layout: str) -> None:
        sparse, file = made(weft, layout), io.BytesIO()
        weft.save(sparse, file)
        file.seek(0)
        for again in (copy.deepcopy(sparse), pickle.loads(pickle.dumps(sparse)), weft.load(file)):
            assert again.layout is sparse.layout
            assert parts_of(again) == parts_of(sparse)

    def test_empty(self, layout: str) -> None:
        sparse = made(weft, layout, [[0.0] * 6] * 4)
        assert sparse._nnz() == 0 and not sparse.to_dense().any()
        assert sparse.t().to_dense().shape == (6, 4)
        assert weft.zeros_like(made(weft, layout)).layout is sparse.layout

    def test_truth_values(self, layout: str) -> None:
        rows = [[value != 0 for value in row] for row in ROWS]
        assert made(weft, layout, rows).to_dense().tolist() == rows

    def test_parts_of_other_layouts_are_refused(self, layout: str) -> None:
        wrong = "ccol_indices" if layout.endswith("r") else "crow_indices"
        with pytest.raises(ArgumentError, match=f"{wrong} expected sparse"):
            getattr(made(weft, layout), wrong)()


def made_of(dense: Any, layout: str) -> Any:
    """A matrix of a layout, of one that exists."""
    blocks = (BLOCK,) if layout in ("bsr", "bsc") else ()
    return getattr(dense, f"to_sparse_{layout}")(*blocks)


def test_blocks_have_to_fill_the_matrix() -> None:
    with pytest.raises(ShapeError, match="must be divisible by given blocksize"):
        weft.ones(4, 5).to_sparse_bsr((2, 2))
    with pytest.raises(ArgumentError, match="blocksize"):
        weft.ones(4, 4).to_sparse(layout=weft.sparse_bsr)
    with pytest.raises(ArgumentError, match="does not use specified blocksize"):
        weft.ones(4, 4).to_sparse(layout=weft.sparse_csr, blocksize=(2, 2))


def test_entries_out_of_order_and_twice() -> None:
    sparse = weft.sparse_csc_tensor([0, 3, 3], [2, 0, 2], [1.0, 2.0, 3.0], (3, 2))
    assert parts_of(sparse) == [[0, 2, 2], [0, 2], [2.0, 4.0]]
    blocks = weft.sparse_bsr_tensor([0, 2], [1, 0], [[[1.0]], [[2.0]]], (1, 2))
    assert blocks.to_dense().tolist() == [[2.0, 1.0]]


@pytest.mark.parametrize(
    "given",
    [
        ([1, 2], [0], [1.0]),
        ([0, 2], [0], [1.0]),
        ([0, 1], [5], [1.0]),
        ([0, 1], [-1], [1.0]),
        ([0, 1], [0], [1.0, 2.0]),
    ],
)
def test_parts_that_do_not_fit(given: Any) -> None:
    for name in ("csr", "csc"):
        with pytest.raises(RuntimeError):
            getattr(weft, f"sparse_{name}_tensor")(*given, (1, 1))


def test_parts_of_sparse_tensors_are_checked(lib):
    square = lib.tensor([[1.0, 0.0], [0.0, 2.0]])
    made = square.to_sparse_csr()
    parts = (made.crow_indices(), made.col_indices(), made.values())
    assert lib._validate_sparse_compressed_tensor_args(*parts, made.shape, made.layout) is None
    pairs = square.to_sparse()
    assert lib._validate_sparse_coo_tensor_args(pairs.indices(), pairs.values(), (2, 2)) is None
    with pytest.raises(RuntimeError):
        lib._validate_sparse_compressed_tensor_args(*parts, (2, 1), made.layout)
    with pytest.raises(RuntimeError):
        lib._validate_sparse_coo_tensor_args(pairs.indices(), pairs.values(), (1, 2))
