"""What sparse tensors are made of, and what happens to tables: copies, files, hostile parts, memory."""

from __future__ import annotations

import copy
import io
import math
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import weft
from oracle import both, torch
from weft.errors import CheckpointError


def sample(requires_grad: bool = False) -> Any:
    return weft.sparse_coo_tensor(
        [[0, 1, 1], [2, 0, 2]], [3.0, 4.0, 5.0], (2, 3), requires_grad=requires_grad
    )


def test_programs_without_sparse_tensors_do_not_load_them() -> None:
    program = "import sys, weft; weft.nn.Embedding(3, 2)(weft.tensor([1])).sum().backward()\n"
    program += "assert 'weft.sparse' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("layout", [weft.sparse_coo, weft.sparse_csr])
def test_copies_pickles_and_files(layout: Any) -> None:
    given = sample(True).to_sparse(layout=layout).detach().requires_grad_()
    file = io.BytesIO()
    weft.save({"a": given, "b": [weft.ones(2)]}, file)
    file.seek(0)
    loaded = weft.load(file)
    for other in (copy.deepcopy(given), pickle.loads(pickle.dumps(given)), loaded["a"]):
        assert repr(other) == repr(given)
        assert other.is_leaf and other is not given
    assert loaded["b"][0].tolist() == [1.0, 1.0]


def test_a_file_whose_parts_do_not_fit_is_refused() -> None:
    file = io.BytesIO()
    weft.save(sample(), file)
    content = file.getvalue()
    assert b"[2, 3]" in content.replace(b'\\"', b'"') or b"[2,3]" in content
    wrong = content.replace(b"[2, 3]", b"[1, 3]").replace(b"[2,3]", b"[1,3]")
    with pytest.raises(CheckpointError):
        weft.load(io.BytesIO(wrong))


@pytest.mark.parametrize(
    ("indices", "size", "fix"),
    [([[0, 5]], (3,), "larger size"), ([[0, -1]], (3,), "larger size")],
)
def test_indices_are_checked(indices: Any, size: Any, fix: str) -> None:
    with pytest.raises((RuntimeError, TypeError), match=fix):
        weft.sparse_coo_tensor(indices, weft.ones(len(indices[0])), size)


def test_indices_that_are_numbers_with_a_fraction_are_cut() -> None:
    made = weft.sparse_coo_tensor([[0.5, 2.9]], [1.0, 2.0], (3,))
    assert made._indices().dtype is weft.int64 and made.to_dense().tolist() == [1.0, 0.0, 2.0]


def test_rows_with_a_column_twice_are_summed_where_that_matters() -> None:
    given = weft.sparse_csr_tensor([0, 2, 2], [1, 1], [1.0, -2.0], (2, 2))
    assert given.values().tolist() == [1.0, -2.0]
    assert given.to_dense().tolist() == [[0.0, -1.0], [0.0, 0.0]]
    for made, wanted in ((given.abs(), 1.0), (given * given, 1.0), (given + given, -2.0)):
        assert made.layout is weft.sparse_csr
        assert made.to_dense().tolist() == [[0.0, wanted], [0.0, 0.0]]


def test_what_is_taken_over_in_place_fits() -> None:
    other = weft.sparse_coo_tensor([[0, 0], [1, 1]], [1.0, 2.0], (2, 2))
    rows = weft.eye(2).to_sparse_csr()
    rows += other
    assert rows.crow_indices().tolist() == [0, 2, 3] and rows.values().tolist() == [1.0, 3.0, 1.0]
    with pytest.raises(RuntimeError, match=r"(?s)cannot take over.*expected  shape \[2, 2\]"):
        rows.copy_(weft.eye(3).to_sparse_csr())
    assert rows.shape == (2, 2) and rows.values().tolist() == [1.0, 3.0, 1.0]


def test_a_sparse_tensor_has_no_memory_of_its_own() -> None:
    with pytest.raises(TypeError, match="Cannot assign to a sparse tensor"):
        sample()[0] = 1.0


def test_no_gradient_is_lost_without_a_word() -> None:
    dense = weft.zeros(2, 3)
    with pytest.raises(NotImplementedError, match="not differentiable"):
        dense += sample(True)


def test_sums_have_the_order_of_the_entries() -> None:
    """Coalescing adds what has one place in the order in which it stands, as a loop does."""
    draw = np.random.default_rng(0)
    places, values = draw.integers(0, 5, 1000), draw.standard_normal(1000).astype(np.float32)
    wanted = np.zeros(5, np.float32)
    for place, value in zip(places, values, strict=True):
        wanted[place] += value
    given = weft.sparse_coo_tensor(places[None], weft.from_numpy(values), (5,))
    assert given.coalesce().values().numpy().tobytes() == wanted.tobytes()
    assert given.to_dense().numpy().tobytes() == wanted.tobytes()


def test_a_large_table_is_written_to_in_place() -> None:
    layer = weft.nn.Embedding(200_000, 8, sparse=True)
    optimizer = weft.optim.SGD(layer.parameters(), lr=1.0)
    weft.realize()
    addresses, before = [], layer.weight.detach().numpy().copy()
    for _ in range(3):
        optimizer.zero_grad()
        layer(weft.tensor([7, 7, 199_999])).sum().backward()
        assert layer.weight.grad._nnz() == 3
        optimizer.step()
        addresses.append(layer.weight.data_ptr())
    assert len({*addresses[1:]}) == 1
    before[7] -= 6
    before[199_999] -= 3
    np.testing.assert_allclose(layer.weight.detach().numpy(), before, atol=1e-6)


@pytest.mark.parametrize("accumulate", [False, True])
def test_a_scatter_in_place_is_seen_by_nobody_else(accumulate: bool) -> None:
    """Copies, saved values and pending readers keep what was there."""
    base = weft.ones(1 << 20, 2)
    weft.realize()
    twin, factor = base.clone(), weft.tensor(2.0, requires_grad=True)
    product = base * factor
    index = weft.tensor([3, 5, 3])
    base.index_put_((index,), weft.full((3, 2), 4.0), accumulate=accumulate)
    product.sum().backward()
    assert base[3].tolist() == ([9.0] * 2 if accumulate else [4.0] * 2)
    assert twin.min().item() == twin.max().item() == 1.0
    assert factor.grad.item() == 2 << 20


def test_a_failed_step_changes_nothing() -> None:
    """The gradients are computed before a table is written to."""
    layer, other = weft.nn.Embedding(5, 2, sparse=True), weft.nn.Parameter(weft.ones(3, 2))
    optimizer = weft.optim.SGD([layer.weight, other], lr=1.0)
    before = layer.weight.detach().clone()
    layer(weft.tensor([1])).sum().backward()
    index = weft.tensor([1.0, 7.0]).long()
    other.grad = weft.ones(3, 2)[index * 1].sum(0).expand(3, 2)
    with pytest.raises(IndexError):
        optimizer.step()
    assert weft.equal(layer.weight, before)
    assert weft.equal(other, weft.ones(3, 2))


def test_many_gradients_of_a_table_that_nobody_densifies() -> None:
    """A table of 2 GB (never touched) gets sparse gradients of a few rows."""
    table = weft.zeros(1).expand(1 << 25, 16).requires_grad_()
    for _ in range(3):
        weft.nn.functional.embedding(weft.tensor([3, 1 << 20]), table, sparse=True).sum().backward()
    assert table.grad._nnz() == 6
    assert table.grad.coalesce().values().tolist() == [[3.0] * 16] * 2


@pytest.mark.parametrize("factor", [2.0, float("inf")])
def test_scaled_losses_of_tables(factor: float) -> None:
    """A step with gradients that are not finite is left out."""
    layer = weft.nn.Embedding(4, 2, sparse=True)
    before = layer.weight.detach().numpy().copy()
    optimizer = weft.optim.SGD(layer.parameters(), lr=0.5)
    scaler = weft.amp.GradScaler("cpu")
    (scaler.scale(layer(weft.tensor([1, 1])).sum()) * factor).backward()
    scaler.step(optimizer)
    if factor == 2.0:
        before[1] -= 2.0
    np.testing.assert_allclose(layer.weight.detach().numpy(), before, rtol=1e-6)


@pytest.mark.parametrize(
    "asked", [{"blocksize": (1, 1)}, {"layout": weft.jagged}, {"layout": weft.sparse_bsr}]
)
def test_layouts_that_do_not_fit_are_refused(asked: Any) -> None:
    with pytest.raises(RuntimeError, match="to_sparse.*(layout|blocksize)"):
        weft.eye(2).to_sparse(**asked)


@both
@pytest.mark.filterwarnings("ignore:torch.sparse.SparseTensor:UserWarning")
def test_old_constructors_are_types_and_take_sizes_or_parts(lib: Any) -> None:
    made = lib.sparse.DoubleTensor(lib.tensor([[0, 2]]), lib.tensor([1.0, 2.0]).double())
    assert made.to_dense().tolist() == [1.0, 0.0, 2.0]
    assert isinstance(made, lib.sparse.DoubleTensor) and made.type().endswith(
        ".sparse.DoubleTensor"
    )
    assert not isinstance(made, (lib.sparse.FloatTensor, lib.DoubleTensor))
    assert not isinstance(made.to_dense(), lib.sparse.DoubleTensor)
    for sizes, shape in (((), (0,)), ((2, 3), (2, 3)), ((lib.Size([4]),), (4,))):
        assert lib.sparse.FloatTensor(*sizes).shape == shape
    with pytest.raises(TypeError, match=r"sparse.SparseTensor\(sequence\) only accepts sizes"):
        lib.sparse.FloatTensor([1, 2])


@pytest.mark.filterwarnings("ignore:Sparse:UserWarning")
@pytest.mark.parametrize(
    "layout", ["sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "strided"]
)
@pytest.mark.parametrize("call", [
    "t.zeros(2, 3, layout=l)", "t.empty(2, 3, layout=l)", "t.zeros_like(x, layout=l)", "x.new_zeros(2, layout=l)",
    "x.new_empty(2, 2, layout=l)", "t.zeros((2, 3), layout=l, dtype=t.float64, requires_grad=True)",
    "t.full_like(x, 2, layout=l)", "t.empty_like(x, layout=l)", "t.rand(2, 3, layout=l)", "t.eye(3, layout=l)",
    "t.randperm(3, layout=l)", "t.linspace(0, 1, 3, layout=l)", "t.randint(3, (2,), layout=l)", "t.arange(3, layout=l)",
    "x.new_ones(2, layout=l)", "t.empty_strided((2,), (1,), layout=l)", "t.ones_like(x, layout=l)",
    "t.randint_like(x, 3, layout=l)",
])  # fmt: skip
def test_new_tensors_have_the_layout_or_are_refused(layout: str, call: str) -> None:
    """A function never makes a strided tensor in the place of a sparse one."""

    def made(t: Any) -> Any:
        one = eval(call, {"t": t, "l": getattr(t, layout), "x": t.eye(2)})
        words = [repr(value).rpartition(".")[2] for value in (one.layout, one.dtype)]
        return words, tuple(one.shape), one.requires_grad

    try:
        theirs = made(torch)
    except (RuntimeError, NotImplementedError):
        with pytest.raises(RuntimeError, match=f"not implemented for the layout weft.{layout}"):
            made(weft)
    else:
        assert made(weft) == theirs


@both
def test_results_are_written_to_out(lib: Any) -> None:
    given = lib.tensor([[0.0, 2.0], [3.0, 0.0]]).to_sparse()
    for name in ("sin", "neg", "sqrt", "sign", "round"):
        out = lib.zeros(2, 2).to_sparse()
        assert getattr(lib, name)(given, out=out) is out
        assert out.to_dense().tolist() == getattr(lib, name)(given.to_dense()).tolist()
    dense = lib.empty(0)
    assert lib.mm(given, lib.ones(2, 3), out=dense) is dense
    assert dense.tolist() == [[2.0] * 3, [3.0] * 3]
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        lib.sin(given.clone().requires_grad_(), out=lib.zeros(2, 2).to_sparse())
    for operand, out in ((given, lib.zeros(2, 2)), (lib.ones(2, 2), given)):
        with pytest.raises((RuntimeError, TypeError)):
            lib.sin(operand, out=out)


@pytest.mark.parametrize(
    "shapes", [((2, 3), (2, 1)), ((2, 1, 3), (4, 1)), ((3,), (2, 3)), ((1, 1), (2, 3))]
)
def test_products_of_elements_broadcast(shapes: Any) -> None:
    one, other = (weft.arange(math.prod(shape)).reshape(shape) % 3 + 0.0 for shape in shapes)
    wanted = (one * other).tolist()
    assert (one.to_sparse() * other.to_sparse()).to_dense().tolist() == wanted
    assert (one.to_sparse() * other).to_dense().tolist() == wanted
    with pytest.raises(RuntimeError, match="expected sizes"):
        weft.ones(2, 3).to_sparse() * weft.ones(5, 7).to_sparse()


@both
def test_nothing_is_added_to_entries_of_other_dimensions(lib: Any) -> None:
    some = lib.ones(2, 3).to_sparse(1)
    for found in (some + lib.zeros(2, 3).to_sparse(), lib.zeros(2, 3).to_sparse() + some):
        assert found.to_dense().tolist() == [[1.0] * 3] * 2
    assert lib.is_nonzero(lib.ones(1).to_sparse()) and not lib.is_nonzero(lib.zeros(1).to_sparse())
    assert some.clone().floor_divide_(2).to_dense().tolist() == [[0.0] * 3] * 2


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("layout", ["coo", "csr", "csc", "bsr", "bsc"])
def test_gradient_checks_of_sparse_functions(lib: Any, layout: str, masked: bool) -> None:
    check = lib.sparse.as_sparse_gradcheck(lib.autograd.gradcheck)
    dense = lib.tensor([[1.0, 0.0], [2.0, 0.0]], dtype=lib.float64)
    block = {"blocksize": (1, 2)} if layout in ("bsr", "bsc") else {}
    x = dense.to_sparse(layout=getattr(lib, f"sparse_{layout}"), **block).requires_grad_()
    for function in (
        lambda x: x,
        lambda x: x.to_dense(),
        lambda x: x.values(),
        lambda x: x.to_sparse_coo(),
    ):
        assert check(function, (x,), masked=masked)


def test_a_wrong_gradient_of_a_sparse_function_is_found() -> None:
    class Twice(weft.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 3

    check = weft.sparse.as_sparse_gradcheck(weft.autograd.gradcheck)
    x = weft.eye(2, dtype=weft.float64).to_sparse().requires_grad_()
    with pytest.raises(RuntimeError, match="Jacobian mismatch"):
        check(lambda x: Twice.apply(x.to_dense()), (x,))


def test_entries_without_sparse_dimensions_broadcast() -> None:
    entries = weft.arange(6.0).reshape(2, 3)
    indices = weft.zeros((0, 2), dtype=weft.int64)
    x = weft.sparse_coo_tensor(indices, entries, (3,))
    assert x.broadcast_to((3,)).to_dense().tolist() == [3.0, 5.0, 7.0]
    assert x.broadcast_to((2, 3)).to_dense().tolist() == [[3.0, 5.0, 7.0]] * 2
