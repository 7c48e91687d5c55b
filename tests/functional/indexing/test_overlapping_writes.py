"""Writes to tensors that show one element of memory in several places: those that only set numbers are done, with
PyTorch's warnings, and all others are refused."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import weft
from oracle import torch

MASK = [[True, False, False], [False, False, False]]


def _at(T: Any, *places: int) -> Any:
    return T.tensor(places)


TAKEN: dict[str, Any] = {
    "fill_": lambda T, x: x.fill_(3),
    "zero_": lambda T, x: x.zero_(),
    "tril_": lambda T, x: x.tril_(),
    "triu_": lambda T, x: x.triu_(1),
    "index_fill_": lambda T, x: x.index_fill_(1, _at(T, 1), 9),
    "index_fill_, rows": lambda T, x: x.index_fill_(0, _at(T, 1), 9),
    "masked_fill_": lambda T, x: x.masked_fill_(T.tensor(MASK), 9.0),
    "index_put_": lambda T, x: x.index_put_((_at(T, 0, 1), _at(T, 1, 2)), T.tensor([5.0, 6.0])),
    "index_put_, adding": lambda T, x: x.index_put_((_at(T, 1, 1),), T.tensor(2.0), True),
    "x[rows] = number": lambda T, x: x.__setitem__(_at(T, 0), 9.0),
    "x[:, columns] = number": lambda T, x: x.__setitem__((slice(None), _at(T, 0)), 9.0),
    "x[mask] = number": lambda T, x: x.__setitem__(T.tensor(MASK), 9.0),
    "a row": lambda T, x: x[0].fill_(9),
}
REFUSED: dict[str, Any] = {
    "add_": lambda T, x: x.add_(1),
    "exp_": lambda T, x: x.exp_(),
    "copy_": lambda T, x: x.copy_(T.ones(2, 3)),
    "fill_, a tensor": lambda T, x: x.fill_(T.tensor(3.0)),
    "x[0] = number": lambda T, x: x.__setitem__(0, 9.0),
    "scatter_": lambda T, x: x.scatter_(1, T.zeros(2, 1, dtype=T.int64), 3.0),
    "index_add_": lambda T, x: x.index_add_(0, _at(T, 1), T.ones(1, 3)),
    "normal_": lambda T, x: x.normal_(),
    "out=": lambda T, x: T.add(T.ones(2, 3), 1, out=x),
}
TENSORS: dict[str, Any] = {
    "a number": lambda T: T.tensor(1.0).expand(2, 3),
    "a row": lambda T: T.tensor([1.0, 2.0, 3.0]).expand(2, 3),
    "a column": lambda T: T.tensor([[1.0], [2.0]]).expand(2, 3),
    "a column of a larger tensor": lambda T: T.arange(8.0).view(2, 4)[:, 2:3].expand(2, 3),
}


def _told(T: Any, shown: str, write: Any) -> Any:
    x = TENSORS[shown](T)
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always")
        try:
            write(T, x)
        except RuntimeError as error:
            return str(error).split(" Please")[0]
    return x.tolist(), x.stride(), {str(note.message).split("=")[0] for note in noted}


@pytest.mark.parametrize("shown", TENSORS)
@pytest.mark.parametrize("name", TAKEN)
def test_what_sets_numbers_is_done_with_a_warning(name: str, shown: str) -> None:
    mine, theirs = (_told(T, shown, TAKEN[name]) for T in (weft, torch))
    assert mine[:2] == theirs[:2]
    assert bool(mine[2]) == bool(theirs[2])
    assert mine[2] <= theirs[2]


@pytest.mark.parametrize("shown", TENSORS)
@pytest.mark.parametrize("name", REFUSED)
def test_what_reads_and_writes_is_refused(name: str, shown: str) -> None:
    theirs = _told(torch, shown, REFUSED[name])
    assert _told(weft, shown, REFUSED[name]) == theirs


def test_the_memory_behind_is_written() -> None:
    for T in (weft, torch):
        base = T.zeros(4)
        base[1:2].expand(3).fill_(5)
        assert base.tolist() == [0, 5, 0, 0]


def test_nothing_is_written_to_a_view_without_elements() -> None:
    for T in (weft, torch):
        x = T.zeros(4)
        x[2:2][T.tensor([], dtype=T.int64)] = 1.0
        assert x.tolist() == [0, 0, 0, 0]
