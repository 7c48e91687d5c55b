"""Indexing, gathering and scattering against PyTorch: get and set with every kind of index."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from functional_oracle import compare, make, torch

ALL = slice(None)
ROWS = np.array([True, False, True, True])
GRID = np.array([[True, False, True, False, True]] * 4)
INDICES: dict[str, tuple[Any, ...]] = {
    "int": (1,),
    "negative": (-1,),
    "two": (1, 2),
    "three": (1, 2, 3),
    "too many": (1, 2, 3, 4),
    "outside": (5,),
    "outside second": (ALL, 9),
    "outside negative": (-5,),
    "slice": (slice(1, 3),),
    "steps": (slice(None, None, 2), slice(1, None)),
    "slice negative": (slice(-3, -1),),
    "slice long": (slice(0, 99),),
    "slice empty": (slice(3, 1),),
    "none": (None,),
    "none between": (ALL, None, 1),
    "ellipsis": (...,),
    "ellipsis last": (..., 1),
    "ellipsis middle": (1, ..., 2),
    "ellipsis none": (ALL, ..., None),
    "vector": ([0, 2],),
    "matrix": ([[0, 2], [1, 3]],),
    "wrapping": ([-1, 0],),
    "vector outside": ([0, 9],),
    "pair": ([0, 2], [1, 3]),
    "pair broadcast": ([[0], [2]], [1, 3]),
    "pair mismatch": ([0, 1], [1, 2, 3]),
    "triple": ([0, 2], [1, 3], [5, 0]),
    "apart": ([0, 2], ALL, [1, 3]),
    "late pair": (ALL, [1, 3], [2, 4]),
    "none inside": ([0, 1], None, [1, 2]),
    "int first": (1, [0, 2]),
    "int second": ([0, 2], 1),
    "slice first": (slice(1, 3), [0, 2]),
    "int last": (ALL, [0, 2], 2),
    "int and apart": (1, ALL, [0, 2]),
    "apart and int": ([0, 2], ALL, 1),
    "ellipsis vector": (..., [0, 2]),
    "vector ellipsis": ([0, 2], ...),
    "around ellipsis": ([0, 2], ..., [1, 3]),
    "none vector": (None, [0, 2]),
    "vector none": ([0, 2], None),
    "slice vector none": (ALL, [0, 2], None, [1, 3]),
    "true": (True,),
    "false": (False,),
    "mask": (ROWS,),
    "grid": (GRID,),
    "mask slice": (ROWS, slice(1, 3)),
    "slice mask": (ALL, GRID[0]),
    "mask short": (np.array([True, False]),),
    "mask int": (ROWS, 2),
    "mask vector": (np.array([True, False, True, False]), [0, 1]),
    "0-d": (np.array(2),),
    "0-d second": (ALL, np.array(-1)),
    "no indices": (np.zeros(0, np.int64),),
}
X = make(4, 5, 6)


def as_index(library: Any, index: tuple[Any, ...]) -> tuple[Any, ...]:
    """Lists and arrays as index tensors of a library."""
    return tuple(
        library.tensor(np.asarray(i).tolist())
        if isinstance(i, list) or getattr(i, "ndim", 1) == 0
        else library.from_numpy(i)
        if isinstance(i, np.ndarray)
        else i
        for i in index
    )


def is_basic(index: tuple[Any, ...]) -> bool:
    return not any(isinstance(i, (list, np.ndarray)) for i in index)


@pytest.mark.parametrize("name", INDICES)
def test_get(name: str) -> None:
    index = INDICES[name]
    compare(lambda lib, x: x[as_index(lib, index)], X, strides=is_basic(index))
    compare(lambda lib, x: x.permute(2, 0, 1)[as_index(lib, index)], make(5, 6, 4), strides=False)
    if not any(isinstance(i, np.ndarray) for i in index):
        compare(lambda lib, x: x[index], X, strides=False)


@pytest.mark.parametrize("name", INDICES)
def test_set(name: str) -> None:
    index = INDICES[name]
    try:
        fitting = make(*torch.from_numpy(X)[as_index(torch, index)].shape, seed=4)
    except Exception:  # noqa: BLE001
        fitting = make(1)

    def assign(lib: Any, x: Any, value: Any) -> Any:
        y = x * 1
        y[as_index(lib, index)] = value
        return y

    for value in (2.5, fitting, np.array(3.0, np.float32), make(1), make(7, 8)):
        compare(assign, X, value)
    if not any(isinstance(i, (list, np.ndarray)) for i in index):

        def through_transposed(lib: Any, x: Any) -> Any:
            y = x * 1
            y.permute(1, 2, 0)[as_index(lib, index)] = 4.0
            return y

        compare(through_transposed, make(6, 4, 5))


def _alias(lib: Any, x: Any) -> Any:
    y = x * 1
    z = y[1:]
    z += 1
    w = y.t()
    w[0] = 7.0
    y[0, 0] = 9.0
    return y, z, w


def _deep_alias(lib: Any, x: Any) -> Any:
    y = x * 1
    v = y.view(2, -1)
    v[0] *= 2
    u = y.unsqueeze(0)[0, 1:, ::2]
    u.zero_()
    d = y.diagonal()
    d.add_(1.0)
    e = y.detach()
    e[2] = 5
    return y, v, u, d


def _integers(lib: Any, x: Any) -> Any:
    y = x.long()
    y[0] = 1.7
    y[1] = lib.tensor([1.5, 2.5, 3.5, -4.5])
    return y


def _assign(lib: Any, x: Any, value: Any) -> Any:
    y = x * 1
    y[0] = value
    return y


CASES: dict[str, Any] = {
    "list": lambda lib, x: x[[0, 2]],
    "list outside": lambda lib, x: x[[0, 9]],
    "list of bool": lambda lib, x: x[[True, False, True, False]],
    "own mask": lambda lib, x: x[x > 0],
    "numpy int": lambda lib, x: x[np.int64(1)],
    "chain": lambda lib, x: x[1:][0][..., 2:4][None],
    "of a number": lambda lib, x: x.sum()[0],
    "of a number, basic": lambda lib, x: [x.sum()[...], x.sum()[None], x.sum()[()]],
    "alias": _alias,
    "deep alias": _deep_alias,
    "into integers": _integers,
    "value of 3": lambda lib, x: _assign(lib, x, lib.ones(3)),
    "value with leading ones": lambda lib, x: _assign(lib, x, lib.ones(1, 1, 4)),
    "into a leaf": lambda lib, x: x.__setitem__(0, 1.0),
    "string": lambda lib, x: x["a"],
    "set by mask of rows": lambda lib, x: _set(x, x[:, 0] > 0, 3.0),
    "set by mask from tensor": lambda lib, x: _set(
        x, x > 0, lib.arange(int((x > 0).sum())).to(x.dtype)
    ),
    "repeated": lambda lib, x: _set(x, [0, 0, 1], 5.0),
    "iteration": lambda lib, x: list(x),
    "unpack": lambda lib, x: [*x[:3]],
    "nonzero": lambda lib, x: [*lib.nonzero(x > 0, as_tuple=True), *lib.where(x > 0)],
    "argwhere": lambda lib, x: lib.argwhere(x > 0).contiguous(),
    "masked_select": lambda lib, x: x.masked_select(x > 0),
    "masked_select broadcast": lambda lib, x: x.masked_select(x[0] > 0),
    "take_along_dim": lambda lib, x: lib.take_along_dim(x, x.argsort(1), 1),
    "repeat_interleave": lambda lib, x: [
        x.repeat_interleave(2),
        x.repeat_interleave(2, 1),
        x.repeat_interleave(lib.tensor([1, 0, 2, 1]), 0),
        lib.repeat_interleave(lib.tensor([1, 0, 2])),
    ],
    "index_put": lambda lib, x: [
        x.index_put((lib.tensor([0, 2]),), x[:2]),
        x.index_put((lib.tensor([0, 0]), lib.tensor([1, 1])), x[0, :2], accumulate=True),
    ],
}


def _set(x: Any, index: Any, value: Any) -> Any:
    y = x * 1
    y[index] = value
    return y


@pytest.mark.parametrize("name", CASES)
def test_cases(name: str) -> None:
    if name == "string":
        with pytest.raises(IndexError, match="only integers, slices"):
            weft.ones(2)["a"]
        return
    compare(CASES[name], make(4, 4, dtype="float64"), strides=name not in ("list", "own mask"))


SQUARE = np.array([[0, 1, 0, 2], [0, 1, 2, 2], [1, 1, 1, 0]])
ROWS_2 = np.array([[0, 1], [2, 3]])
GATHERS: dict[str, tuple[Any, Any]] = {
    "gather": (lambda lib, x, i, s: lib.gather(x, 1, i), ROWS_2),
    "gather first": (lambda lib, x, i, s: x.gather(0, i), np.array([[0, 1, 2, 0], [2, 1, 1, 0]])),
    "gather rank": (lambda lib, x, i, s: x.gather(-1, i), np.array([0, 1])),
    "gather type": (lambda lib, x, i, s: x.gather(-1, i), np.array([[0.0]])),
    "gather size": (lambda lib, x, i, s: x.gather(1, i), np.zeros((5, 1), np.int64)),
    "scatter": (lambda lib, x, i, s: x.scatter(1, i, s[:2, :2]), ROWS_2),
    "scatter number": (lambda lib, x, i, s: x.scatter(1, i, 2.5), ROWS_2),
    "scatter type": (lambda lib, x, i, s: x.scatter(1, i, s.float()), ROWS_2),
    "scatter_add": (lambda lib, x, i, s: x.scatter_add(0, i, s), SQUARE),
    "scatter_": (lambda lib, x, i, s: (x * 1).scatter_(1, i, 1.0), np.array([[0], [2], [1]])),
    "scatter_add_": (lambda lib, x, i, s: (x * 1).scatter_add_(0, i, s), SQUARE),
    "index_select": (lambda lib, x, i, s: x.index_select(1, i), np.array([0, 2, 2])),
    "index_select first": (lambda lib, x, i, s: lib.index_select(x, 0, i), np.array([0, 2, 2])),
    "index_select matrix": (lambda lib, x, i, s: lib.index_select(x, 0, i), ROWS_2),
    "index_add": (lambda lib, x, i, s: x.index_add(0, i, s, alpha=2), np.array([0, 2, 0])),
    "index_add_": (lambda lib, x, i, s: (x * 1).index_add_(1, i, s[:, :2]), np.array([0, 2])),
    "index_add sizes": (lambda lib, x, i, s: x.index_add(0, i, s), np.array([0, 2])),
    "index_copy": (lambda lib, x, i, s: x.index_copy(0, i, s[:2]), np.array([0, 2])),
    "index_fill": (lambda lib, x, i, s: x.index_fill(1, i, 3.0), np.array([0, 2])),
    "masked_scatter": (lambda lib, x, i, s: x.masked_scatter(x > 0, s), np.array([0])),
    "take": (lambda lib, x, i, s: lib.take(x, i), np.array([[1, 5], [-1, 0]])),
    "take_along flat": (lambda lib, x, i, s: lib.take_along_dim(x, i), np.array([1, 5])),
    "scatter_reduce": (
        lambda lib, x, i, s: [
            x.scatter_reduce(1, i, s[:2, :2], r, include_self=k)
            for r in ("sum", "mean")
            for k in (True, False)
        ],
        np.array([[0, 0], [2, 3]]),
    ),
}


@pytest.mark.parametrize("name", GATHERS)
def test_gathers(name: str) -> None:
    function, index = GATHERS[name]
    compare(function, make(3, 4, dtype="float64"), index, make(3, 4, dtype="float64", seed=4))


def test_one_hot() -> None:
    compare(lambda lib, x: lib.nn.functional.one_hot(x, 5), np.array([[1, 2], [0, 4]]))
    compare(lambda lib, x: lib.nn.functional.one_hot(x), np.array([1, 2, 0]))


def test_indices_in_tensors_are_checked_at_the_call_or_when_the_kernel_runs() -> None:
    x = weft.ones(3, 4)
    for call in (lambda i: x.gather(1, i), lambda i: x[i[0]], lambda i: x.index_select(0, i[0])):
        with pytest.raises(IndexError):
            call(weft.tensor([[9]]))
        pending = call(weft.tensor([[8]]) + 1)
        with pytest.raises(IndexError):
            pending.tolist()


def test_what_is_recorded_on_a_failed_value_fails_with_it_and_nothing_else_does() -> None:
    x = weft.ones(3, 4)
    for place in (0, 9, 9, 1):
        y = x.gather(1, weft.tensor([[place - 1]]) + 1)
        if place == 9:
            with pytest.raises(IndexError, match="is out of bounds"):
                y.tolist()
            with pytest.raises(IndexError, match="is out of bounds"):
                (y * 3 + 1).tolist()
        assert (x * 3 + 1).sum().item() == 48


def test_a_list_of_sequences_is_a_tuple_of_indices() -> None:
    x = weft.arange(12.0).reshape(3, 4)
    assert x[[[0, 1], [1, 2]]].tolist() == [1.0, 6.0]


@pytest.mark.skipif(weft.engine.ir.tape.tape().mode.eager, reason="in eager mode everything runs")
def test_a_pending_scalar_index_does_not_run_anything() -> None:
    table = weft.arange(12.0).reshape(4, 3)
    place = weft.tensor(1) + 1
    before = weft.engine.pipeline.driver.counters["flushes"]
    row = table[place] * 2
    assert weft.engine.pipeline.driver.counters["flushes"] == before
    assert row.tolist() == [12.0, 14.0, 16.0]


@pytest.mark.parametrize(
    ("call", "text"),
    (
        (lambda x: x[5], "index 5 is out of bounds for dimension 0 with size 3"),
        (lambda x: x[0, -9], "index -9 is out of bounds for dimension 1 with size 4"),
        (lambda x: x[[0, 7]], "index 7 is out of bounds for dimension 0 with size 3"),
        (lambda x: x[0, 0, 0], "too many indices for tensor of dimension 2"),
        (
            lambda x: x[weft.tensor([True, False])],
            r"The shape of the mask \[2\] at index 0 does not match the shape of the",
        ),
        (
            lambda x: x[[0, 1], [0, 1, 2]],
            "shape mismatch: indexing tensors could not be broadcast together with shapes",
        ),
        (
            lambda x: x[weft.tensor([0.5])],
            "tensors used as indices must be long, int, byte or bool tensors",
        ),
        (lambda x: x.sum()[0], "invalid index of a 0-dim tensor"),
    ),
)
def test_messages(call: Any, text: str) -> None:
    with pytest.raises(IndexError, match=text) as caught:
        call(weft.zeros(3, 4))
    assert "test_indexing.py" in str(caught.value)
    caught.match("\n  fix ")


BACKWARD = [
    np.s_[::-1], np.s_[::-2], np.s_[3:0:-1], np.s_[-1:-9:-3], np.s_[0:3:-1], np.s_[:2:-1], np.s_[10::-1],
    np.s_[..., ::-1], np.s_[::-1, ::-2], np.s_[None, 1:, ::-1], np.s_[1, ::-1], np.s_[::-1, [0, 2]],
    np.s_[[0, 1], ::-2],
]  # fmt: skip


@pytest.mark.parametrize("index", BACKWARD, ids=str)
@pytest.mark.parametrize("shape", [(4, 5), (2, 3), (3, 0)])
def test_slices_that_go_backwards(index: Any, shape: tuple[int, ...]) -> None:
    array = np.arange(float(np.prod(shape))).reshape(shape)
    try:
        wanted = array[index]
    except IndexError:
        with pytest.raises(IndexError):
            weft.tensor(array)[index]
        return
    x = weft.tensor(array, requires_grad=True)
    found = x[index]
    np.testing.assert_array_equal(found.detach().numpy(), wanted)
    new = np.random.default_rng(0).normal(size=wanted.shape)
    (found * weft.tensor(new)).sum().backward()
    slopes, changed, y = np.zeros_like(array), array.copy(), weft.tensor(array)
    np.add.at(slopes, index, new)
    np.testing.assert_array_equal(x.grad.numpy(), slopes)
    changed[index] = new
    y[index] = weft.tensor(new)
    np.testing.assert_array_equal(y.numpy(), changed)


def test_a_leaf_is_not_written_backwards() -> None:
    with pytest.raises(RuntimeError, match="leaf Variable"):
        weft.ones(2, requires_grad=True)[::-1] = 0


@pytest.mark.parametrize("mask", [True, False])
def test_masks_without_dimensions_take_all_or_nothing(mask: bool) -> None:
    x = weft.arange(6.0).reshape(2, 3)
    for index in (mask, np.array(mask), weft.tensor(mask)):
        assert x[index].tolist() == x.numpy()[np.array(mask)].tolist()
        assert x[index].shape == (int(mask), 2, 3) and x[0, index].shape == (int(mask), 3)
        y = weft.tensor(5.0)
        y[index] = 3
        assert y.item() == (3 if mask else 5) and y[index].shape == (int(mask),)
