"""Bags of embeddings whose rows are never in memory: values and gradients as PyTorch's, plans without rows."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import weft
import weft.nn.functional as F
from oracle import torch
from weft.debug import stages
from weft.functional.indexing import bag_products

LENGTHS = {
    "equal": [3] * 5,
    "some empty": [0, 2, 0, 7, 1],
    "one long": [0, 0, 200, 1, 0],
    "several long": [90, 1, 1, 1, 300, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1],
}


@pytest.fixture(params=["multiplied", "gathered"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every bag large, or none."""
    most = 0 if request.param == "multiplied" else 1 << 60
    monkeypatch.setattr(bag_products, "GATHERED_ELEMENTS", most)


CASES: list[dict[str, Any]] = [
    *({"mode": mode, "padding_idx": i} for mode in ("sum", "mean", "max") for i in (None, 2, -1)),
    *({"mode": "sum", "padding_idx": i, "weighted": True} for i in (None, 2)),
]


def drawn(width: int, lengths: list[int] | None) -> dict[str, Any]:
    """A table, indices and their weights; offsets with the end of the last bag, or None for bags of two dimensions."""
    source = np.random.default_rng(width)
    offsets = None if lengths is None else np.append(0, np.cumsum(lengths))
    shape = (5, 7) if offsets is None else (offsets[-1],)
    return {
        "table": source.normal(size=(11, width)),
        "index": source.integers(0, 11, shape),
        "weights": source.normal(size=shape),
        "offsets": offsets,
    }


def outcome(lib: Any, given: dict[str, Any], case: dict[str, Any], ends: bool) -> list[np.ndarray]:
    """The bags, and the gradients of the table and of the weights."""
    options = {key: value for key, value in case.items() if key != "weighted"}
    table = lib.tensor(given["table"], requires_grad=True)
    weights = lib.tensor(given["weights"], requires_grad=True)
    offsets = given["offsets"]
    bags = lib.nn.functional.embedding_bag(
        lib.tensor(given["index"]),
        table,
        None if offsets is None else lib.tensor(offsets if ends else offsets[:-1]),
        per_sample_weights=weights if case.get("weighted") else None,
        include_last_offset=ends,
        **options,
    )
    cotangent = np.arange(bags.numel()).reshape(tuple(bags.shape)) / 7
    bags.backward(lib.tensor(cotangent))
    found = [bags.detach(), table.grad] + ([weights.grad] if case.get("weighted") else [])
    return [one.numpy() for one in found]


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("lengths", [None, *LENGTHS], ids=str)
@pytest.mark.parametrize("width", (1, 3, 70, 130))
@pytest.mark.parametrize("case", CASES, ids=str)
def test_as_pytorch(case: dict[str, Any], width: int, lengths: str | None) -> None:
    torch = pytest.importorskip("torch")
    given = drawn(width, None if lengths is None else LENGTHS[lengths])
    for ends in (False,) if lengths is None else (False, True):
        for found, wanted in zip(
            outcome(weft, given, case, ends), outcome(torch, given, case, ends), strict=True
        ):
            np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("dtype", ("float16", "bfloat16", "float32"))
@pytest.mark.parametrize("mode", ("sum", "mean", "max"))
def test_halves_are_summed_in_float32(dtype: str, mode: str) -> None:
    given = drawn(40, None)
    table = weft.tensor(given["table"]).to(getattr(weft, dtype))
    found = F.embedding_bag(weft.tensor(given["index"]), table, mode=mode)
    rows = table.float().numpy()[given["index"]]
    wanted = getattr(np, mode)(rows, axis=1)
    assert found.dtype is table.dtype
    expected = weft.tensor(wanted).to(table.dtype).float().numpy()
    np.testing.assert_allclose(found.float().numpy(), expected, rtol=1e-2)


@pytest.mark.usefixtures("way")
def test_equal_rows_of_the_largest() -> None:
    """As in PyTorch: the first of equal rows gets the gradient."""
    table = weft.tensor([[1.0, 2.0], [1.0, 2.0], [0.0, 3.0]], requires_grad=True)
    bags = F.embedding_bag(weft.tensor([[2, 1, 0], [0, 0, 1]]), table, mode="max")
    bags.sum().backward()
    assert bags.tolist() == [[1.0, 3.0], [1.0, 2.0]]
    assert table.grad.tolist() == [[1.0, 1.0], [1.0, 0.0], [0.0, 1.0]]


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("pending", (False, True))
def test_an_index_out_of_range(pending: bool) -> None:
    index = weft.tensor([[1, 2], [3, 4]])
    with pytest.raises(IndexError):
        F.embedding_bag(index + 0 if pending else index, weft.ones(4, 3)).tolist()
    with pytest.raises(IndexError):
        F.embedding_bag(weft.tensor([[0, -1]]), weft.ones(4, 3)).tolist()


@pytest.mark.usefixtures("way")
def test_second_derivatives() -> None:
    """The three products are each other's derivatives."""
    given = drawn(3, LENGTHS["some empty"])
    index, offsets = weft.tensor(given["index"]), weft.tensor(given["offsets"][:-1])

    def bags(table: Any, weights: Any) -> Any:
        return F.embedding_bag(index, table, offsets, mode="sum", per_sample_weights=weights)

    inputs = [weft.tensor(given[name], requires_grad=True) for name in ("table", "weights")]
    assert weft.autograd.gradcheck(bags, inputs)
    assert weft.autograd.gradgradcheck(bags, inputs)


def bytes_of(plan: str) -> int:
    found = re.search(r"slots of (\d+) bytes", plan)
    assert found is not None
    return int(found[1])


@pytest.mark.parametrize("mode", ("sum", "mean", "max"))
@pytest.mark.parametrize("offsets", (False, True))
def test_no_rows_in_memory(mode: str, offsets: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forward and backward, what is kept between kernels is less than a quarter of the rows of all bags."""
    monkeypatch.setattr(bag_products, "GATHERED_ELEMENTS", 0)
    table = weft.randn(20, 64, requires_grad=True)
    index = weft.randint(20, (16, 100))
    starts = weft.arange(16) * 100 - (weft.arange(16) % 5 if offsets else 0)

    def step() -> Any:
        given = (index.flatten(), table, starts) if offsets else (index, table)
        F.embedding_bag(*given, mode=mode).square().sum().backward()
        return table.grad

    assert bytes_of(stages(step)["plan"]) < 16 * 100 * 64 * 4 / 4


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("padding_idx", [None, 1])
@pytest.mark.parametrize("offsets", [[0, 2, 2], [0, 1, 1], [0, 2, 3], [0, 3]])
def test_the_end_of_the_last_bag(offsets: list[int], padding_idx: int | None, mode: str) -> None:
    """The last offset counts only where PyTorch reads it: of sums without padding."""
    given = {"mode": mode, "padding_idx": padding_idx, "include_last_offset": True}
    mine, theirs = (
        lib.nn.functional.embedding_bag(
            lib.tensor([0, 1, 2]), lib.arange(6.0).reshape(3, 2), lib.tensor(offsets), **given
        ).tolist()
        for lib in (weft, torch)
    )
    assert mine == theirs


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("padding_idx", [None, 0])
@pytest.mark.parametrize("wrong", [-1, 11])
def test_rows_that_are_not_there_are_refused_at_the_call(
    wrong: int, padding_idx: int | None, mode: str
) -> None:
    with pytest.raises(RuntimeError, match="Expected idx >= 0 && idx < num_embeddings"):
        F.embedding_bag(
            weft.tensor([[wrong, 1]]), weft.ones(10, 2), padding_idx=padding_idx, mode=mode
        )


@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_sparse_gradients_have_no_rows_of_padding(mode: str) -> None:
    def gradient(lib: Any) -> Any:
        table = lib.ones(4, 2, requires_grad=True)
        index = lib.tensor([[0, 0, 3], [1, 2, 0]])
        lib.nn.functional.embedding_bag(
            index, table, padding_idx=0, sparse=True, mode=mode
        ).sum().backward()
        return table.grad._nnz(), table.grad.to_dense().tolist()

    assert gradient(weft) == gradient(torch)


def test_weights_of_no_indices_have_a_gradient() -> None:
    weights = weft.zeros(0, requires_grad=True)
    nothing, starts = weft.tensor([], dtype=weft.int64), weft.tensor([0, 0])
    F.embedding_bag(
        nothing, weft.ones(3, 2), starts, mode="sum", per_sample_weights=weights
    ).sum().backward()
    assert weights.grad is not None and weights.grad.shape == (0,)
