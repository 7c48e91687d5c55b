"""A value need not have memory for each of its elements: a constant keeps one, what is expanded one for many, a view
of numbers shares them. Whoever reads such values once they are there finds the elements that they have, however the
reader goes about it: as an index that is checked at the call, as numbers, as an array, as bytes."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

import weft
import weft.nn.functional as F

torch = pytest.importorskip("torch")

ROWS, COLUMNS, LIMIT = 40, 6, 7

# What keeps less memory than it has elements, or keeps them in another order: (ROWS, COLUMNS) integers below LIMIT.
VALUES: dict[str, Callable[[Any, Any], Any]] = {
    "zeros": lambda w, t: w.zeros(ROWS, COLUMNS, dtype=t),
    "ones": lambda w, t: w.ones(ROWS, COLUMNS, dtype=t),
    "full": lambda w, t: w.full((ROWS, COLUMNS), 5, dtype=t),
    "zeros_like": lambda w, t: w.zeros_like(w.arange(ROWS * COLUMNS).view(ROWS, COLUMNS).to(t)),
    "new_full": lambda w, t: w.arange(3).to(t).new_full((ROWS, COLUMNS), 4),
    "expanded row": lambda w, t: w.arange(COLUMNS).to(t).expand(ROWS, COLUMNS),
    "expanded column": lambda w, t: (w.arange(ROWS) % 5).to(t).view(-1, 1).expand(-1, COLUMNS),
    "expanded number": lambda w, t: w.tensor(3).to(t).expand(ROWS, COLUMNS),
    "expanded constant": lambda w, t: w.ones(1, COLUMNS, dtype=t).expand(ROWS, COLUMNS),
    "product of constants": lambda w, t: (
        w.ones(ROWS, 1, dtype=t) * w.full((1, COLUMNS), 6, dtype=t)
    ),
    "sum with a constant": lambda w, t: w.zeros(ROWS, 1, dtype=t) + w.arange(COLUMNS).to(t),
    "turned": lambda w, t: (w.arange(ROWS * COLUMNS) % 7).to(t).view(COLUMNS, ROWS).t(),
    "all": lambda w, t: (w.arange(ROWS * COLUMNS) % 6).to(t).view(ROWS, COLUMNS),
}
VIEWS: dict[str, Callable[[Any], Any]] = {
    "itself": lambda x: x,
    "column": lambda x: x[:, 1],
    "row": lambda x: x[-1],
    "rows": lambda x: x[3:],
    "every other": lambda x: x[1::2, ::3],
    "transposed": lambda x: x.t(),
    "diagonal": lambda x: x.diagonal(),
    "one": lambda x: x[5, 2],
    "none": lambda x: x[:0],
    "flat": lambda x: x.reshape(-1)[7:],
    "strided": lambda x: x.contiguous().as_strided((5, 3), (9, 2), 11),
    "unfolded": lambda x: x.unfold(0, 3, 2)[..., 1],
    "detached": lambda x: x.detach()[2:, 3:],
}
READERS: dict[str, Callable[[Any, Any], Any]] = {
    "x[index]": lambda w, i: w.arange(LIMIT)[i],
    "x[:, index]": lambda w, i: w.arange(2 * LIMIT).view(2, LIMIT)[:, i],
    "index_select": lambda w, i: w.arange(LIMIT).index_select(0, i.reshape(-1)),
    "gather": lambda w, i: w.arange(LIMIT).gather(0, i.reshape(-1).long()),
    "take": lambda w, i: w.arange(LIMIT).take(i.long()),
    "embedding": lambda w, i: w.nn.functional.embedding(i, w.arange(2.0 * LIMIT).view(LIMIT, 2)),
    "x[index] = y": lambda w, i: w.zeros(LIMIT).index_put((i.long(),), w.tensor(2.0)),
    "scatter_add": lambda w, i: w.zeros(LIMIT).scatter_add(
        0, i.reshape(-1).long(), w.ones(i.numel())
    ),
    "one_hot": lambda w, i: w.nn.functional.one_hot(i.long(), LIMIT),
    "cross_entropy": lambda w, i: w.nn.functional.nll_loss(
        w.zeros(i.numel(), LIMIT), i.reshape(-1).long(), reduction="sum"
    ),
    "bincount": lambda w, i: w.bincount(i.reshape(-1), minlength=LIMIT),
    "repeat_interleave": lambda w, i: w.arange(i.numel()).repeat_interleave(i.reshape(-1).long()),
    "tolist": lambda w, i: i.tolist(),
    "items": lambda w, i: [x.item() for x in i.reshape(-1)[:3]],
    "numpy": lambda w, i: i.numpy().tolist(),
    "text": lambda w, i: str(i.flatten().float().sum().item()),
    "nonzero": lambda w, i: i.nonzero(),
    "sort": lambda w, i: i.reshape(-1).sort()[0],
    "iteration": lambda w, i: [x.tolist() for x in i.reshape(-1)],
    "storage of a copy": lambda w, i: i.contiguous().clone().untyped_storage().tolist(),
}


def observed(value: Any) -> Any:
    """What can be compared."""
    return value.tolist() if hasattr(value, "tolist") else value


@pytest.mark.parametrize("name", VALUES)
def test_every_reader_finds_the_elements(name: str) -> None:
    dtype = "int32" if list(VALUES).index(name) % 3 == 0 else "int64"
    for (what, see), (how, read) in itertools.product(VIEWS.items(), READERS.items()):
        results = []
        for framework in (weft, torch):
            value = VALUES[name](framework, getattr(framework, dtype))
            value.tolist()  # from now on it is there, in the memory that it keeps
            results.append(observed(read(framework, see(value))))
        assert results[0] == results[1], (what, how)


@pytest.mark.parametrize("name", VALUES)
def test_indices_out_of_range_are_seen_at_the_call_by_their_own_number(name: str) -> None:
    for what, see in VIEWS.items():
        value = VALUES[name](weft, weft.int64) + 100
        value.tolist()
        index = see(value)
        if index.numel() == 0:
            continue
        largest = int(index.max())
        with pytest.raises(IndexError) as caught:
            weft.arange(LIMIT)[index]
        numbers = {int(x) for x in index.reshape(-1).tolist()}
        assert any(f"index {number} is out of bounds" in str(caught.value) for number in numbers), (
            what
        )
        assert weft.arange(largest + 1)[index].tolist() == index.tolist(), what


@pytest.mark.parametrize("name", VALUES)
def test_storages_show_all_bytes(name: str) -> None:
    value = VALUES[name](weft, weft.int64)
    value.tolist()
    whole = value.contiguous()
    assert len(whole.untyped_storage().tolist()) == whole.untyped_storage().nbytes()
    assert whole.storage().tolist() == whole.reshape(-1).tolist()


def test_what_arrays_write_is_seen_by_checks_of_indices() -> None:
    """An index known to be in range is not, once somebody else has had its memory."""
    table = weft.rand(5, 3)
    readers: list[Callable[[Any], Any]] = [
        lambda i: F.embedding(i, table),
        lambda i: table[i],
        lambda i: table[weft.where(i > 0, i, i)],
        lambda i: table.index_select(0, i),
        lambda i: F.cross_entropy(table, i),
    ]
    for read in readers:
        index = weft.tensor([0, 1, 2, 0, 1])
        read(index % 3)
        array = index.numpy()
        array[0] = 10**9
        del array
        with pytest.raises(IndexError):
            print(read(index))
