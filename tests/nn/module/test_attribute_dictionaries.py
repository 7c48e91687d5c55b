"""`module.__dict__` as PyTorch's modules have it: plain attributes, and members by kind; packages use both."""

from __future__ import annotations

import abc
import copy
import functools
import pickle
from typing import Any

import pytest

from oracle import both


def held(lib: Any, *bases: type) -> Any:
    class Holding(*bases, lib.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.weight = lib.nn.Parameter(lib.ones(2))
            self.inner = lib.nn.Linear(2, 2)
            self.register_buffer("kept", lib.zeros(2))
            self.register_buffer("left_out", lib.zeros(1), persistent=False)
            self.note = 3

        def forward(self, x: Any) -> Any:
            return self.inner(x) * self.weight

        @functools.cached_property
        def doubled(self) -> int:
            return 2 * int(self.note)

    return Holding()


_BASES = pytest.mark.parametrize("bases", [(), (abc.ABC,)], ids=["alone", "ABC"])


@both
@_BASES
def test_members_stand_by_kind(lib: Any, bases: tuple[type, ...]) -> None:
    values = held(lib, *bases).__dict__
    assert list(values["_parameters"]) == ["weight"] and list(values["_modules"]) == ["inner"]
    assert list(values["_buffers"]) == ["kept", "left_out"]
    assert values["_non_persistent_buffers_set"] == {"left_out"}
    assert values["note"] == 3 and values["training"] and values.get("weight") is None
    assert "weight" not in values and "note" in values and "weight" not in list(values)
    with pytest.raises(KeyError):
        _ = values["inner"]


@both
def test_what_is_written_is_there(lib: Any) -> None:
    module = held(lib)
    module.__dict__["note"] = 4
    module.__dict__["_parameters"]["weight"] = None
    module.__dict__["_buffers"].pop("kept")
    assert module.note == 4 and module.weight is None and not hasattr(module, "kept")
    del module.__dict__["note"]
    assert not hasattr(module, "note") and vars(module).setdefault("note", 5) == 5
    assert module.doubled == 10 and module.__dict__["doubled"] == 10


@both
@_BASES
def test_a_clone_by_its_dictionary_is_its_own(lib: Any, bases: tuple[type, ...]) -> None:
    module = held(lib, *bases)
    clone = type(module).__new__(type(module))
    clone.__dict__ = module.__dict__.copy()
    for name in ("_parameters", "_buffers", "_modules"):
        setattr(clone, name, getattr(clone, name).copy())
    clone._parameters["weight"] = module.weight * 3
    clone._modules["other"] = lib.nn.ReLU()
    assert module.weight.tolist() == [1.0, 1.0] and clone.weight.tolist() == [3.0, 3.0]
    assert not hasattr(module, "other") and list(clone.state_dict()) == list(module.state_dict())
    clone(lib.ones(1, 2)).sum().backward()
    assert module.weight.grad is not None


@both
@_BASES
def test_copies_and_pickles_hold_their_own(lib: Any, bases: tuple[type, ...]) -> None:
    module = held(lib, *bases)
    module.__dict__["_parameters"]
    copied = copy.deepcopy(module)
    state = copy.deepcopy(module.__dict__)
    made = type(module).__new__(type(module))
    made.__dict__.update(state)
    for other in (copied, made):
        assert other.__dict__["_parameters"]["weight"] is other.weight is not module.weight
        assert list(other.state_dict()) == ["weight", "kept", "inner.weight", "inner.bias"]
        assert other.inner is not module.inner and other.note == 3
    layer = lib.nn.Linear(2, 2)
    dict(layer.__dict__)
    found = pickle.loads(pickle.dumps(layer))
    assert list(found.__dict__["_parameters"]) == ["weight", "bias"]
    assert lib.equal(found(lib.ones(1, 2)), layer(lib.ones(1, 2)))


@both
def test_attributes_are_copied_one_by_one(lib: Any) -> None:
    """What packages do to have a module with members of another kind."""
    module, other = held(lib), lib.nn.Module()
    for name, value in module.__dict__.items():
        if name not in ("_parameters", "_buffers", "_modules"):
            setattr(other, name, value)
    assert other.note == 3 and list(other.state_dict()) == [] and not hasattr(other, "weight")
    other._buffers = dict(module._buffers)
    assert list(module.state_dict()) == ["weight", "kept", "inner.weight", "inner.bias"]


@both
@_BASES
def test_a_state_picked_from_the_dictionary_is_copied(lib: Any, bases: tuple[type, ...]) -> None:
    """As packages with a `__getstate__` of their own do: what they leave out is not copied, members are."""
    module = held(lib, *bases)
    for copied in (copy.deepcopy, lambda state: pickle.loads(pickle.dumps(state))):
        clone = type(module).__new__(type(module))
        state = copied({name: value for name, value in vars(module).items() if name != "note"})
        clone.__dict__.update(state)
        assert [*clone._parameters] == ["weight"] and [*clone._modules] == ["inner"]
        assert "left_out" in clone._non_persistent_buffers_set and not hasattr(clone, "note")
        clone.weight.data.fill_(7)
        assert module.weight.tolist() == [1, 1]
    shallow = copy.copy(module._parameters)
    shallow["other"] = None
    assert type(shallow) is dict and "other" not in module._parameters
