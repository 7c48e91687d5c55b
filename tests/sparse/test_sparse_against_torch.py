"""Sparse tensors are PyTorch's: the same program says the same, to the letter, in both libraries."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import weft
from oracle import torch

pytestmark = pytest.mark.filterwarnings("ignore")

SAME = """
s | u | h | sc + uc | u.coalesce() | h.coalesce() | d + s | d - u | s * d | u * d | uc * 2 | u / 2 | 2 * u
u.sum() | u.sum(0) | u.sum(1) | h.sum(0) | h.sum(1) | t.sparse.sum(u, [0, 1]) | t.sparse.sum(h, 1)
u.T | u.t().coalesce() | u[0] | u[1, 2] | h[1] | h[1, 0] | h[1, 0:1] | list(u) | u.permute(1, 0)
u.abs() | -u | u.sqrt() | u.relu() | u.norm() | u ** 2 | t.tanh(u) | t.isnan(u) | t.any(u) | u.bool()
t.cat([s, u]) | t.cat([s, u], 1) | t.stack([s, u]) | u.unsqueeze(0) | u.unsqueeze(2)
u @ d.t() | d.t() @ u | u @ u.t() | u @ t.ones(3) | t.mm(u, d.t()) | t.mv(u, t.ones(3)) | csr @ d.t()
t.sparse.mm(u, d.t()) | t.sparse.mm(u, u.t()) | t.sparse.addmm(t.ones(2, 2), u, d.t(), beta=2, alpha=3)
t.bmm(t.stack([s, u]), t.ones(2, 3, 2)) | t.nn.functional.linear(d, u) | t.sparse.mm(csr, d.t(), 'mean')
u.double() | u.float() is u | u.numel() | u.stride() | u.layout | u.is_sparse | u.type() | t.zeros_like(u)
u.clone() | u.detach() | u.is_coalesced() | uc.indices() | uc.values() | u._nnz() | h.dense_dim() | h.to_dense()
d.to_sparse() | d.to_sparse(1) | (d - 3).to_sparse() | d.sparse_mask(s) | d.sparse_dim() | d.to_dense() is d
t.sparse.softmax(u, 1) | t.sparse.softmax(u, 0) | t.sparse.log_softmax(u, 1) | t.sparse.softmax(h, 1)
u.index_select(0, t.tensor([1, 0, 1])) | u.index_select(1, t.tensor([2, 0])) | t.add(d, s, alpha=2)
t.sparse_coo_tensor((2, 3)) | t.sparse_coo_tensor([[0, 1]], [1, 2]) | t.sparse_coo_tensor([[0, 1]], [True, False])
t.is_tensor(u) | isinstance(u, t.Tensor) | len(u) | u.mul_(2) | u.zero_() | d.clone().add_(s) | u.requires_grad_()
csr | csr.crow_indices() | csr.col_indices() | csr.to_dense() | csr.to_sparse() | csr * 2 | d.to_sparse_csr()
t.sparse_csr_tensor([0, 1, 2], [1, 0], [1., 2.], (2, 3)) | csr.is_sparse_csr | csr.is_sparse | csr.layout
t.sparse_coo_tensor(t.empty(2, 0, dtype=t.long), t.empty(0), (2, 3)).coalesce()
t.sparse_coo_tensor([[1.7, 0.]], [2., 3.])
t.sparse_coo_tensor([[1]], [2.], (3,)).indices() | (t.sparse_coo_tensor([[1]], [2.], (3,)) * 2).is_coalesced()
"""
REFUSED = """
s + d | s + 1 | s / d | d / s | s.view(6) | s.reshape(6) | s.numpy() | s.tolist() | s.indices() | s.values()
s == s | s.exp() | s.mean() | s.argmax() | d.coalesce() | d.is_coalesced() | d.values() | s.crow_indices()
csr.indices() | t.sparse_coo_tensor([[0, 1]], [1., 2., 3.], (3,)) | t.sparse_coo_tensor([[0, 1]], [1., 2.], (2, 2))
s.data_ptr() | s.nbytes | s @ d | s.transpose(0, 5) | h.transpose(0, 1) | s.clamp(0, 1) | s.fill_(1) | s + u.t()
t.cat([s, d]) | bool(s)
"""


def split(text: str) -> list[str]:
    return [part.strip() for line in text.strip().splitlines() for part in line.split(" | ")]


def names(t: Any) -> dict[str, Any]:
    s = t.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [3.0, 4.0, 5.0], (2, 3))
    u = t.sparse_coo_tensor([[1, 0, 1, 1], [2, 1, 2, 0]], [1.0, 2.0, 3.0, -1.0], (2, 3))
    h = t.sparse_coo_tensor([[0, 1, 1]], [[3.0, 4.0], [1.0, 2.0], [5.0, 6.0]], (3, 2))
    d = t.arange(6.0).reshape(2, 3) + 1
    some = {"t": t, "s": s, "u": u, "h": h, "d": d}
    return {**some, "sc": s.coalesce(), "uc": u.coalesce(), "csr": u.to_sparse_csr()}


def said(value: Any) -> str:
    return repr(value).replace("torch.", "weft.")


@pytest.mark.parametrize("expression", split(SAME))
def test_the_same_text(expression: str) -> None:
    ours, theirs = eval(expression, names(weft)), eval(expression, names(torch))
    assert said(ours) == said(theirs)


@pytest.mark.parametrize("expression", split(REFUSED))
def test_the_same_refusal(expression: str) -> None:
    with pytest.raises(Exception) as theirs:
        eval(expression, names(torch))
    kinds = (theirs.type, NotImplementedError)
    with pytest.raises(kinds, match="(?s)expected.*got.*fix"):
        eval(expression, names(weft))


GRADIENTS = (
    lambda t, s, d: (s @ d).square().sum(),
    lambda t, s, d: t.sparse.mm(s, d).square().sum(),
    lambda t, s, d: t.sparse.sum(s * s).square(),
    lambda t, s, d: s.to_dense().square().sum(),
    lambda t, s, d: t.sparse.sum(s, 0).to_dense().square().sum(),
    lambda t, s, d: t.sparse.mm(s, s.t()).to_dense().square().sum(),
    lambda t, s, d: (d.t() + s).square().sum(),
    lambda t, s, d: (t.sparse.softmax(s, 1).to_dense() * d.t()).sum(),
    lambda t, s, d: t.sparse.addmm(t.ones(2, 2), s, d).square().sum(),
)


@pytest.mark.parametrize("loss", GRADIENTS)
def test_gradients_of_values_and_of_dense_operands(loss: Any) -> None:
    found = []
    for t in (weft, torch):
        values = t.tensor([3.0, 4.0, 5.0], requires_grad=True)
        dense = (t.arange(6.0).reshape(3, 2) / 3).requires_grad_()
        s = t.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], values, (2, 3))
        loss(t, s, dense).backward()
        found.append((said(values.grad), said(dense.grad)))
    assert found[0] == found[1]


def test_the_gradient_of_a_sparse_leaf_is_sparse() -> None:
    found = []
    for t in (weft, torch):
        s = t.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3), requires_grad=True)
        t.sparse.mm(s, t.arange(6.0).reshape(3, 2)).sum().backward()
        found.append(said((s.grad, s.is_leaf, s.requires_grad)))
    assert found[0] == found[1]


def table(t: Any) -> Any:
    return t.arange(10.0).reshape(5, 2).requires_grad_()


@pytest.mark.parametrize("padding", [None, 1])
def test_gradients_of_tables(padding: int | None) -> None:
    """One use, two in one graph, one more walk, with a dense one before, behind and in the same walk."""
    found: list[list[str]] = []
    for t in (weft, torch):
        w, index, lines = table(t), t.tensor([[1, 3], [3, 0]]), []

        def look(rows: Any, t: Any = t, w: Any = w) -> Any:
            return t.nn.functional.embedding(rows, w, padding_idx=padding, sparse=True)

        look(index).square().sum().backward()
        lines += [said(w.grad), said(w.grad.coalesce())]
        look(index[0]).sum().backward()
        lines.append(said(w.grad.coalesce()))
        w.sum().backward()
        lines.append(said(w.grad))
        look(index[0]).sum().backward()
        lines.append(said(w.grad))
        w.grad = None
        (look(index[0]).sum() + look(index[1]).square().sum()).backward()
        lines.append(said(w.grad.coalesce()))
        w.grad = None
        (look(index[0]).sum() + w.square().sum()).backward()
        lines.append(said(w.grad))
        lines.append(said(t.autograd.grad(look(index[0]).sum(), w)[0]))
        found.append(lines)
    assert found[0] == found[1]


def test_a_table_that_is_computed_gets_a_dense_gradient() -> None:
    found = []
    for t in (weft, torch):
        w = table(t)
        rows = t.nn.functional.embedding(t.tensor([1, 1, 3]), w * 2, sparse=True)
        rows.square().sum().backward()
        found.append(w.grad.to_dense().tolist())
    assert found[0] == found[1]


@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_bags(mode: str) -> None:
    found = []
    for t in (weft, torch):
        w = table(t)
        index, offsets = t.tensor([1, 3, 3, 0]), t.tensor([0, 1])
        bags = t.nn.functional.embedding_bag(index, w, offsets, mode=mode, sparse=True)
        bags.square().sum().backward()
        found.append(said(w.grad.coalesce()))
    assert found[0] == found[1]


OPTIMIZERS = {
    "SGD": {"lr": 0.1},
    "SGD, momentum": {"lr": 0.1, "momentum": 0.9},
    "SGD, Nesterov": {"lr": 0.1, "momentum": 0.9, "nesterov": True},
    "Adagrad": {"lr": 0.1},
    "SparseAdam": {"lr": 0.1},
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training(name: str) -> None:
    found = []
    for t in (weft, torch):
        layer = t.nn.Embedding(5, 2, sparse=True)
        layer.weight.data.copy_(table(t).detach())
        kind = getattr(t.optim, name.partition(",")[0])
        optimizer, seen = kind(layer.parameters(), **OPTIMIZERS[name]), []
        layer.weight.register_hook(lambda g, seen=seen: seen.append(g.is_sparse))
        for step in range(4):
            optimizer.zero_grad(set_to_none=step != 2)
            layer(t.tensor([step, 3, 3])).square().sum().backward()
            optimizer.step()
        found.append((said(layer.weight.detach()), seen))
    assert found[0] == found[1]


@pytest.mark.parametrize("name", ["Adam", "AdamW", "RMSprop"])
def test_optimizers_that_need_dense_gradients_say_so(name: str) -> None:
    layer = weft.nn.Embedding(5, 2, sparse=True)
    optimizer = getattr(weft.optim, name)(layer.parameters())

    layer(weft.tensor([1, 3])).square().sum().backward()
    with pytest.raises(RuntimeError, match="does not support sparse"):
        optimizer.step()


def test_files_of_pytorch(tmp_path: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        given = names(torch)
        torch.save({name: given[name] for name in ("s", "uc", "h", "csr")}, tmp_path / "f.pt")
    loaded = weft.load(tmp_path / "f.pt")
    assert {name: said(value) for name, value in loaded.items()} == {
        name: said(given[name]) for name in loaded
    }


def twice_one_place(t: Any) -> Any:
    """An entry is there twice, and one once."""
    return t.sparse_coo_tensor([[1, 1, 0]], [1.0, 2.0, 5.0], (3,))


USES = {
    "to_dense": lambda a: a.to_dense().square(),
    "product": lambda a: (a * a).to_dense(),
    "clone": lambda a: a.clone().to_dense() * 3,
}


@pytest.mark.parametrize("use", USES)
def test_entries_of_one_place_have_one_gradient(use: str) -> None:
    found = []
    for t in (weft, torch):
        a = twice_one_place(t).requires_grad_()
        (given,) = t.autograd.grad(USES[use](a).sum(), a)
        USES[use](a).sum().backward()
        found.append([g.to_dense().tolist() for g in (given, a.grad)])
    assert found[0] == found[1]


@pytest.mark.parametrize("before", ["nothing", "dense", "sparse"])
def test_a_sparse_gradient_reaches_a_leaf_as_it_is(before: str) -> None:
    found = []
    for t in (weft, torch):
        p = t.tensor([1.5, 1.5, 2.0], requires_grad=True)
        p.grad = {"nothing": None, "dense": t.ones(3), "sparse": twice_one_place(t)}[before]
        held = p.grad
        p.backward(twice_one_place(t))
        found.append((p.grad.is_sparse, p.grad is held, p.grad.to_dense().tolist()))
    assert found[0] == found[1]


def test_a_sparse_gradient_of_what_is_computed() -> None:
    p = weft.tensor([1.5, 1.5, 2.0], requires_grad=True)
    (p * 2).backward(twice_one_place(weft))
    assert p.grad is not None and p.grad.to_dense().tolist() == [10.0, 6.0, 0.0]
