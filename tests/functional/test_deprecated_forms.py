"""Forms that PyTorch has deprecated work, and warn in its words: masks of uint8, transposes of other ranks than two."""

from __future__ import annotations

import warnings
from typing import Any

import numpy
import pytest

import weft
from oracle import torch


def _bytes(T: Any) -> Any:
    return T.tensor([1, 0, 1], dtype=T.uint8)


def _first(T: Any) -> Any:
    return T.tensor([0])


FORMS: dict[str, Any] = {
    "x[mask]": lambda T: T.ones(3)[_bytes(T)],
    "x[mask, mask]": lambda T: T.ones(3, 3)[_bytes(T), _bytes(T)],
    "x[array]": lambda T: T.ones(3)[_bytes(T).numpy()],
    "where": lambda T: T.where(_bytes(T), T.ones(3), T.zeros(3)),
    ".T of three": lambda T: T.zeros(2, 3, 4).T,
    ".T of one": lambda T: T.ones(3).T,
    ".T of none": lambda T: T.ones(()).T,
    ".H of none": lambda T: T.ones(()).H,
    ".mT of none": lambda T: T.ones(()).mT,
    ".mH of none": lambda T: T.ones(()).mH,
    "adjoint of none": lambda T: T.ones(()).adjoint(),
    ".T of two": lambda T: T.ones(3, 2).T,
    **{
        f"{name}, {reduce}": lambda T, call=call, reduce=reduce: call(T, reduce)
        for reduce in ("add", "multiply")
        for name, call in {
            "scatter": lambda T, r: T.ones(3).scatter(0, _first(T), T.ones(1) * 2, reduce=r),
            "scatter_": lambda T, r: T.ones(3).scatter_(0, _first(T), T.ones(1) * 2, reduce=r),
            "scatter_ of a number": lambda T, r: T.ones(3).scatter_(0, _first(T), 2, reduce=r),
            "the function": lambda T, r: T.scatter(T.ones(3), 0, _first(T), 2, reduce=r),
        }.items()
    },
}


def _told(T: Any, name: str) -> Any:
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always")
        if T is torch:
            torch.set_warn_always(True)  # it warns of some forms once in a process
        try:
            made = FORMS[name](T)
        finally:
            torch.set_warn_always(False)
    words = {str(note.message).replace("torch", "weft").split(" (Triggered")[0] for note in noted}
    return made.tolist(), words, {note.category for note in noted}


@pytest.mark.parametrize("name", FORMS)
def test_the_form_works_and_warns(name: str) -> None:
    assert _told(weft, name) == _told(torch, name)


def test_the_warning_names_the_line() -> None:
    with pytest.warns(UserWarning, match="uint8") as noted:
        weft.ones(3)[_bytes(weft)]
    assert noted[0].filename == __file__


@pytest.mark.parametrize("name", ["masked_fill", "masked_scatter"])
def test_masks_of_bytes_are_refused_by_name(name: str) -> None:
    def told(T: Any) -> str:
        value = 2.0 if name == "masked_fill" else T.zeros(3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pytest.raises(RuntimeError) as caught:
                getattr(T.ones(3), name)(_bytes(T), value)
        return str(caught.value).split("\n")[0].split(", called at")[0]

    assert told(weft) == told(torch)


ARRAYS = {
    "FloatTensor of arrays": lambda T: T.FloatTensor([numpy.ones(2), numpy.zeros(2)]),
    "FloatTensor of an array": lambda T: T.FloatTensor(numpy.ones((2, 2), numpy.float32)),
    "Tensor(data=)": lambda T: T.Tensor(data=[1.0, 2.0]),
    "Tensor(size=)": lambda T: T.zeros_like(T.Tensor(size=(2, 3))),
    "Tensor(other=)": lambda T: T.Tensor(other=T.ones(2)),
    "LongTensor(data=)": lambda T: T.LongTensor(data=[1, 2]),
}


@pytest.mark.filterwarnings("ignore:Creating a tensor from a list")
@pytest.mark.parametrize("name", ARRAYS)
def test_old_constructors_take_what_pytorchs_take(name: str) -> None:
    mine, theirs = (ARRAYS[name](T) for T in (weft, torch))
    assert mine.tolist() == theirs.tolist()
    assert str(mine.dtype)[5:] == str(theirs.dtype)[6:]
