"""vmap over no examples, and the dimensions that it refuses: as in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft
from oracle import torch

pytestmark = pytest.mark.filterwarnings("ignore")  # PyTorch's, of its tracer

EMPTY: dict[str, Callable[[Any], Any]] = {
    "one": lambda lib: lib.vmap(lambda x: x * 2)(lib.ones(0, 2)),
    "another dimension": lambda lib: lib.vmap(lib.mul, (1, 0))(lib.ones(2, 0), lib.ones(0, 2)),
    "the inner one": lambda lib: lib.vmap(lib.vmap(lib.sin))(lib.ones(3, 0)),
    "the outer one": lambda lib: lib.vmap(lib.vmap(lib.sin))(lib.ones(0, 3)),
    "where results go": lambda lib: lib.vmap(lambda x: x * 3, out_dims=-1)(lib.ones(0, 2)),
    "another type": lambda lib: lib.vmap(lambda x: x.long())(lib.ones(0, 2)),
}


@pytest.mark.parametrize("case", EMPTY)
def test_no_examples(case: str) -> None:
    mine, theirs = EMPTY[case](weft), EMPTY[case](torch)
    assert tuple(mine.shape) == tuple(theirs.shape)
    assert str(mine.dtype).partition(".")[2] == str(theirs.dtype).partition(".")[2]


def test_no_examples_in_chunks_and_with_gradients() -> None:
    w = weft.ones(2, requires_grad=True)
    y = weft.vmap(lambda x: (x * w).sum(), chunk_size=2)(weft.ones(0, 2))
    y.sum().backward()
    assert tuple(y.shape) == (0,) and w.grad is not None and w.grad.tolist() == [0.0, 0.0]


REFUSED: dict[str, tuple[Callable[[Any], Any], type[Exception], str]] = {
    "a list": (
        lambda lib: lib.vmap(lib.mul, [0, 0])(lib.ones(2), lib.ones(2)),
        ValueError,
        "expected `in_dims` to be int or a",
    ),
    "a word": (
        lambda lib: lib.vmap(lib.mul, (0, "a"))(lib.ones(2), lib.ones(2)),
        ValueError,
        "in_dim must be either an integer dimension or None",
    ),
    "too many": (
        lambda lib: lib.vmap(lib.mul, (0, 0, 0))(lib.ones(2), lib.ones(2)),
        ValueError,
        "in_dims is not compatible with the structure of `inputs`",
    ),
    "nothing mapped": (
        lambda lib: lib.vmap(lib.sin, (None,))(lib.ones(2)),
        ValueError,
        "at least one Tensor",
    ),
    "a word for results": (
        lambda lib: lib.vmap(lib.sin, out_dims="a")(lib.ones(2)),
        ValueError,
        "must be an int, None or a python collection of ints",
    ),
    "a word among results": (
        lambda lib: lib.vmap(lib.sin, out_dims=("a",))(lib.ones(2)),
        ValueError,
        "must be an int, None or a python collection of ints",
    ),
    "too many results": (
        lambda lib: lib.vmap(lib.sin, out_dims=(0, 0))(lib.ones(2)),
        ValueError,
        "out_dims is not compatible with the structure of `outputs`",
    ),
    "no results of vjp": (
        lambda lib: lib.func.vjp(lambda x: (), lib.ones(2)),
        RuntimeError,
        "to be a function that has non-empty output",
    ),
    "no results of jvp": (
        lambda lib: lib.func.jvp(lambda x: (), (lib.ones(2),), (lib.ones(2),)),
        RuntimeError,
        "to be a function that has non-empty output",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("lib", [weft, torch], ids=["weft", "torch"])
def test_what_is_refused(lib: Any, case: str) -> None:
    call, kind, text = REFUSED[case]
    with pytest.raises(kind, match=text):
        call(lib)
