"""A module class with a `__getattr__` of its own is asked for every member, as in PyTorch: packages notice there which
parameters a program uses."""

from __future__ import annotations

import copy
import pickle
import weakref
from typing import Any

import pytest

import weft
from oracle import torch

both = pytest.mark.parametrize("lib", [weft, torch], ids=["weft", "torch"])


def _noticing(lib: Any) -> Any:
    class Noticing(lib.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.weight = lib.nn.Linear(2, 2), lib.nn.Parameter(lib.ones(2))
            self.register_buffer("count", lib.zeros(1))
            self.register_parameter("none", None)
            self.plain = 3

        def __getattr__(self, name: str) -> Any:
            found = super().__getattr__(name)
            self.__dict__.setdefault("seen", []).append(name)
            return found

        def forward(self, x: Any) -> Any:
            return self.inner(x) * self.weight + self.plain

    return Noticing()


@both
def test_members_are_asked_for_and_attributes_are_not(lib: Any) -> None:
    module = _noticing(lib)
    module.__dict__.pop("seen", None)
    module(lib.ones(1, 2))
    assert module.count.sum() == 0 and module.none is None and module.plain == 3
    assert module.seen == ["inner", "weight", "count", "none"]
    with pytest.raises(AttributeError, match="has no attribute 'absent'"):
        _ = module.absent


@both
def test_all_else_is_as_without(lib: Any) -> None:
    module = _noticing(lib)
    assert list(dict(module.named_parameters())) == ["weight", "inner.weight", "inner.bias"]
    module.load_state_dict({key: value + 1 for key, value in module.state_dict().items()})
    module(lib.ones(1, 2)).sum().backward()
    assert module.weight.tolist() == [2, 2] and module.weight.grad is not None
    module.weight = lib.nn.Parameter(lib.zeros(2))
    del module.inner
    assert copy.deepcopy(module).weight.tolist() == [0, 0]
    assert not hasattr(module, "inner")


@both
def test_the_dictionary_of_such_a_class_shows_its_members(lib: Any) -> None:
    for module in (_noticing(lib), copy.deepcopy(_noticing(lib)), copy.copy(_noticing(lib))):
        held = module.__dict__["_parameters"]
        assert list(held) == ["weight", "none"] and held["weight"] is module.weight
        assert list(module.__dict__["_modules"]) == ["inner"]
        held["weight"] = new = lib.nn.Parameter(lib.zeros(2))
        assert module.weight is new and dict(module.named_parameters())["weight"] is new
        assert list(module.__dict__["_buffers"]) == ["count"]


def test_a_module_that_shows_its_members_is_freed_at_once() -> None:
    module = _noticing(weft)
    assert module.__dict__["_modules"]
    known = weakref.ref(module)
    del module
    assert known() is None


@both
def test_members_by_the_name_of_the_method(lib: Any) -> None:
    layer = lib.nn.Linear(2, 2)
    assert layer.__getattr__("weight") is layer.weight
    with pytest.raises(AttributeError):
        layer.__getattr__("in_features")  # an ordinary attribute


@both
def test_a_dictionary_of_state_pickles_as_an_ordered_one(lib: Any) -> None:
    state = lib.nn.Linear(2, 2).state_dict()
    assert b"OrderedDict" in pickle.dumps(state) and b"StateDict" not in pickle.dumps(state)
    again = pickle.loads(pickle.dumps(state))
    assert list(again) == ["weight", "bias"] and again._metadata == state._metadata
