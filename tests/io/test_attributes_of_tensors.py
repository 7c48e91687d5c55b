"""Attributes that programs put on tensors and parameters: files keep them, Weft's and PyTorch's."""

from __future__ import annotations

import io
from typing import Any

import pytest

import weft
from oracle import torch


def reloaded(lib: Any, obj: Any, by: Any = None, **keywords: Any) -> Any:
    """What is loaded of what is saved."""
    file = io.BytesIO()
    lib.save(obj, file)
    file.seek(0)
    return (by or lib).load(file, **keywords)


@pytest.mark.parametrize("made", ["Parameter", "tensor", "leaf", "half"])
@pytest.mark.parametrize("value", [3, 0.5, "name", [1, (2, None)], {"lr": 0.1}])
def test_plain_values(lib: Any, made: str, value: Any) -> None:
    tensor = {
        "Parameter": lambda: lib.nn.Parameter(lib.ones(2)),
        "tensor": lambda: lib.ones(2),
        "leaf": lambda: lib.ones(2, requires_grad=True),
        "half": lambda: lib.ones(2, dtype=lib.bfloat16),
    }[made]()
    tensor.tag, tensor.other = value, 1
    found = reloaded(lib, {"weight": tensor, "plain": lib.zeros(1)})
    assert (found["weight"].tag, found["weight"].other) == (value, 1)
    assert type(found["weight"]) is type(tensor)
    assert found["weight"].requires_grad == tensor.requires_grad
    assert not vars(found["plain"])


def test_tensors_as_attributes(lib: Any) -> None:
    weight, scale = lib.nn.Parameter(lib.ones(2)), lib.tensor([0.5])
    weight.scale = scale
    found = reloaded(lib, [weight, scale])
    assert found[0].scale.tolist() == [0.5]
    found[0].scale.add_(1)
    assert found[1].tolist() == [1.5]


def test_a_state_dict_has_none(lib: Any) -> None:
    layer = lib.nn.Linear(2, 2)
    layer.weight.tag = 3
    assert not vars(reloaded(lib, layer.state_dict())["weight"])


@pytest.mark.parametrize("trusted", [False, True])
def test_files_of_pytorch(trusted: bool) -> None:
    weight, plain = torch.nn.Parameter(torch.ones(2)), torch.zeros(3)
    weight.tag, plain.tag = {"a": 1}, "b"
    found = reloaded(torch, [weight, plain], weft, weights_only=not trusted)
    assert isinstance(found[0], weft.nn.Parameter)
    assert (found[0].tag, found[1].tag) == ({"a": 1}, "b")


class TestSkippedData:
    """`serialization.skip_data`."""

    def test_saving(self, lib: Any) -> None:
        file, whole = io.BytesIO(), io.BytesIO()
        state = {"a": lib.ones(1000), "n": 3}
        with lib.serialization.skip_data():
            lib.save(state, file)
        lib.save(state, whole)
        assert len(file.getvalue()) == len(whole.getvalue())
        file.seek(0)
        found = lib.load(file)
        assert found["n"] == 3 and found["a"].shape == (1000,)
        assert found["a"].sum().item() == 0

    def test_loading(self) -> None:
        file = io.BytesIO()
        weft.save([weft.ones(3)], file)
        file.seek(0)
        with weft.serialization.skip_data():
            assert weft.load(file)[0].tolist() == [0.0, 0.0, 0.0]
        file.seek(0)
        assert weft.load(file)[0].tolist() == [1.0, 1.0, 1.0]

    def test_loading_files_of_pytorch(self) -> None:
        file = io.BytesIO()
        torch.save([torch.ones(3)], file)
        file.seek(0)
        with weft.serialization.skip_data():
            assert weft.load(file)[0].tolist() == [0.0, 0.0, 0.0]
