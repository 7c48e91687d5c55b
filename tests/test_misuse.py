"""Misuse of every public function: what a call got wrong is explained, whatever it got, and nothing is left behind."""

from __future__ import annotations

import copy
import inspect
import pickle
from typing import Any

import pytest

import weft
from weft import nn
from weft.errors import ArgumentTypeError, WeftError
from weft.graph.public import Public, public

F = nn.functional


# -- the border itself -----------------------------------------------------------------------------


def shifted(input: Any, dim: int, *, scale: float = 1.0) -> Any:
    """A function of the library, for these tests."""
    return input._shape[dim] * scale


def test_a_public_function_is_called_as_it_is() -> None:
    made = public(shifted)
    assert made(weft.ones(2, 3), 1, scale=2.0) == 6
    assert public(made) is made is public(shifted)
    assert made.__name__ == "shifted" and made.__doc__ == shifted.__doc__
    assert inspect.signature(made) == inspect.signature(shifted)
    assert copy.deepcopy(made) is made is copy.copy(made)
    assert pickle.loads(pickle.dumps(made)) is made


def test_a_public_function_is_a_method_of_tensors() -> None:
    assert isinstance(weft.exp, Public) and weft.Tensor.exp is weft.exp
    x = weft.ones(2)
    bound = x.exp
    assert bound().tolist() == weft.exp(x).tolist()
    assert bound.__self__ is x


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: weft.exp(), r"exp\(\): missing a required argument: 'input'"),
        (lambda: weft.exp(weft.ones(1), 2), r"exp\(\): too many positional arguments"),
        (lambda: weft.ones(1).exp_(out=weft.ones(1)), r"unexpected keyword argument 'out'"),
        (lambda: weft.exp(weft.ones(1), out=[1]), r"'out'.* must be Tensor, not list of int"),
        (lambda: weft.vstack(3), r"'tensors'.* must be tuple of Tensors, not int"),
        (lambda: weft.meshgrid(1, 2), r"'tensors'.* must be Tensor, not int"),
        (lambda: nn.Linear(), r"Linear\(\): missing a required argument: 'in_features'"),
        (lambda: weft.optim.SGD(), r"SGD\(\): missing a required argument: 'params'"),
    ],
)
def test_the_argument_that_is_wrong_is_named(call: Any, text: str) -> None:
    with pytest.raises(ArgumentTypeError, match=text) as caught:
        call()
    error = caught.value
    assert error.expected and error.got and error.fix and "test_misuse.py:" in error.where


def test_what_a_users_code_raises_passes() -> None:
    def wrong(module: Any) -> None:
        raise TypeError("mine")

    class Odd:
        def __index__(self) -> int:
            raise AttributeError("mine too")

    with pytest.raises(TypeError, match="^mine$"):
        nn.Linear(1, 1).apply(wrong)
    with pytest.raises(AttributeError, match="^mine too$"):
        weft.ones(2).sum(Odd())


def test_a_defect_of_the_library_stays_visible(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arguments of the right types: what went wrong inside is not put on them."""

    def broken(input: Any) -> Any:
        return input.there_is_no_such_thing

    with pytest.raises(AttributeError, match="there_is_no_such_thing") as caught:
        public(broken)(weft.ones(1))
    assert not isinstance(caught.value, WeftError)
