"""Batches of compressed matrices, elements with dense dimensions, and the type of indices: beside PyTorch."""

from __future__ import annotations

import copy
import io
import pickle
from typing import Any

import numpy as np
import pytest

import weft
from oracle import torch

pytestmark = pytest.mark.filterwarnings("ignore")
LAYOUTS = ("csr", "csc", "bsr", "bsc")
BLOCK = (2, 3)
SHAPES = {"plain": ((4, 6), 0), "batch": ((3, 4, 6), 0), "batches": ((2, 3, 4, 6), 0), "dense": ((4, 6, 2), 1),
          "both": ((2, 4, 6, 3, 2), 2), "no entries": ((2, 4, 6), 0)}  # fmt: skip


def numbers(name: str) -> Any:
    """Elements of which each matrix has as many that are not zero, in as many blocks, at other places."""
    shape, dense = SHAPES[name]
    batch = shape[: len(shape) - 2 - dense]
    random = np.random.default_rng(len(shape))
    found = np.zeros((*batch, *shape[len(batch) :]), np.float32)
    for at in np.ndindex(*batch):
        for row, column in (
            [] if name == "no entries" else [[(0, 1), (3, 5)], [(1, 4), (2, 0)]][sum(at) % 2]
        ):
            found[(*at, row, column)] = random.integers(1, 9, shape[len(batch) + 2 :])
    return found


def made(lib: Any, layout: str, name: str, **options: Any) -> Any:
    """A tensor of a layout, made of a dense one."""
    dense = lib.tensor(numbers(name), **options)
    dims = {"dense_dim": SHAPES[name][1]}
    if layout in ("bsr", "bsc"):
        return getattr(dense, f"to_sparse_{layout}")(BLOCK, **dims)
    return getattr(dense, f"to_sparse_{layout}")(**dims)


def parts_of(sparse: Any) -> tuple[Any, Any, Any]:
    """Starts, positions and values."""
    by_rows = str(sparse.layout).endswith("r")
    starts = sparse.crow_indices() if by_rows else sparse.ccol_indices()
    return starts, sparse.col_indices() if by_rows else sparse.row_indices(), sparse.values()


def facts(sparse: Any) -> list[Any]:
    """All that is to be seen of a compressed tensor."""
    parts = [(p.tolist(), tuple(p.shape), str(p.dtype).split(".")[1]) for p in parts_of(sparse)]
    counts = sparse.sparse_dim(), sparse.dense_dim(), sparse._nnz()
    return [*parts, *counts, tuple(sparse.shape), str(sparse.layout).split(".")[1]]


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("layout", LAYOUTS)
class TestBesidePyTorch:
    def test_facts(self, layout: str, name: str) -> None:
        assert facts(made(weft, layout, name)) == facts(made(torch, layout, name))

    def test_values_and_elements(self, layout: str, name: str, lib: Any) -> None:
        sparse = made(lib, layout, name)
        assert sparse.to_dense().tolist() == numbers(name).tolist()
        assert (sparse * 2).to_dense().tolist() == (numbers(name) * 2).tolist()
        assert sparse.sum().item() == numbers(name).sum()

    @pytest.mark.parametrize("dtype", ["int32", "int64"])
    def test_constructors_keep_the_type_of_indices(
        self, layout: str, name: str, dtype: str
    ) -> None:
        def again(lib: Any) -> Any:
            sparse = made(lib, layout, name)
            starts, positions, values = parts_of(sparse)
            kind = getattr(lib, dtype)
            given = starts.to(kind), positions.to(kind), values, tuple(sparse.shape)
            found = getattr(lib, f"sparse_{layout}_tensor")(*given)
            other = lib.sparse_compressed_tensor(*given, layout=sparse.layout)
            assert facts(found) == facts(other)
            for change in (
                lambda x: x * 2,
                lambda x: x.sin(),
                lambda x: x.clone(),
                lambda x: x.double(),
            ):
                assert facts(change(found))[1][2] == dtype
            assert facts(lib.zeros_like(found))[1][2] == dtype
            return facts(found)

        assert again(weft) == again(torch)

    def test_transposes(self, layout: str, name: str) -> None:
        batches = len(SHAPES[name][0]) - 2 - SHAPES[name][1]
        for first, second in [(batches, batches + 1), *([(0, 1)] if batches == 2 else [])]:
            found = made(weft, layout, name).transpose(first, second)
            assert found.to_dense().tolist() == numbers(name).swapaxes(first, second).tolist()
            if not SHAPES[name][1]:  # PyTorch has none of elements with dense dimensions
                assert facts(found) == facts(made(torch, layout, name).transpose(first, second))


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("layout", LAYOUTS)
class TestItself:
    @pytest.mark.parametrize("other", ["coo", "strided", *LAYOUTS])
    def test_every_layout_into_every_other(self, layout: str, other: str, name: str) -> None:
        block = {"blocksize": BLOCK} if other in ("bsr", "bsc") else {}
        wanted = getattr(weft, other if other == "strided" else f"sparse_{other}")
        found = made(weft, layout, name).to_sparse(layout=wanted, **block)
        assert found.layout is wanted and found.to_dense().tolist() == numbers(name).tolist()

    def test_copies_pickles_and_files(self, layout: str, name: str) -> None:
        given = made(weft, layout, name)
        starts, positions, values = parts_of(given)
        given = weft.sparse_compressed_tensor(
            starts.int(), positions.int(), values, given.shape, layout=given.layout
        )
        file = io.BytesIO()
        weft.save(given, file)
        file.seek(0)
        loaded = weft.load(file)
        for other in (copy.deepcopy(given), pickle.loads(pickle.dumps(given)), loaded):
            assert facts(other) == facts(given)

    def test_files_of_pytorch(self, layout: str, name: str) -> None:
        file = io.BytesIO()
        torch.save(made(torch, layout, name), file)
        file.seek(0)
        assert facts(weft.load(file)) == facts(made(weft, layout, name))

    def test_gradients(self, layout: str, name: str) -> None:
        array = numbers(name)
        dense = weft.tensor(array).requires_grad_()
        block = {"blocksize": BLOCK} if layout in ("bsr", "bsc") else {}
        form = {"layout": getattr(weft, f"sparse_{layout}"), "dense_dim": SHAPES[name][1], **block}
        values = dense.to_sparse(**form).values()
        (values * values).sum().backward()
        assert dense.grad.tolist() == (2 * array).tolist()
        leaf = weft.tensor(array).to_sparse(**form).detach().requires_grad_()
        (leaf.to_dense() * weft.tensor(array)).sum().backward()
        assert leaf.grad.layout is leaf.layout and leaf.grad.to_dense().tolist() == array.tolist()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_parts_of_a_batch(layout: str, lib: Any) -> None:
    sparse, array = made(lib, layout, "batches"), numbers("batches")
    for found, wanted in (
        (sparse[1], array[1]),
        (sparse.select(1, 2), array[:, 2]),
        (sparse[0, 1], array[0, 1]),
    ):
        assert found.layout is sparse.layout and found.to_dense().tolist() == wanted.tolist()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_elements_of_a_matrix(layout: str) -> None:
    sparse, array = made(weft, layout, "plain"), numbers("plain")
    for row in range(4):
        assert sparse[row].to_dense().tolist() == array[row].tolist()
        assert sparse[row, 1].tolist() == array[row, 1]
    assert sparse[1:3].to_dense().tolist() == array[1:3].tolist()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_batches_of_different_counts_are_refused(layout: str, lib: Any) -> None:
    array = numbers("batch")
    array[1] = 1.0
    arguments = [BLOCK] if layout in ("bsr", "bsc") else []
    with pytest.raises(
        RuntimeError, match="Expect the same number of specified elements per batch"
    ):
        getattr(lib.tensor(array), f"to_sparse_{layout}")(*arguments)


def test_conversions_that_do_not_fit_are_refused(lib: Any) -> None:
    with pytest.raises(RuntimeError, match="Expected product of batch dimensions to be non-zero"):
        lib.zeros(0, 2, 2).to_sparse_csr()
    nothing = lib.zeros(0, 5).long(), lib.zeros(0, 0).long(), lib.zeros(0, 0)
    assert lib.sparse_csr_tensor(*nothing, (0, 4, 6)).to_dense().shape == (0, 4, 6)
    cube = lib.eye(3).reshape(3, 3, 1)
    with pytest.raises(
        RuntimeError, match="conversion from Sparse to .*sparse_dim\\(\\)!=2 is not supported"
    ):
        cube.to_sparse().to_sparse_csr()
    with pytest.raises(
        RuntimeError, match="with sparse_dim argument !=self.sparse_dim\\(\\) is not supported"
    ):
        cube.to_sparse(2).to_sparse(1)
    with pytest.raises(
        RuntimeError, match="dense_dim argument must be in \\[0,1\\] range, but 2 is given"
    ):
        cube.to_sparse_csr(dense_dim=2)
    assert cube.to_sparse(layout=lib.strided).tolist() == cube.tolist()


def test_a_product_sees_what_was_added_in_place() -> None:
    """The rows of entries that a product keeps are those of its indices, and forgotten with these."""
    given = weft.eye(600).to_sparse()
    right = weft.arange(360_000.0).reshape(600, 600) % 7
    given @ right
    given += (weft.eye(600) * 0).index_fill(0, weft.tensor([0]), 1.0).to_sparse()
    weft.testing.assert_close(given @ right, given.to_dense() @ right)
