"""Conversions and loads that overwrite parameters, or swap them with new ones: what stays the same is PyTorch's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import weft
from oracle import torch


@pytest.fixture(params=["overwrite", "swap", "neither"])
def setting(request: pytest.FixtureRequest) -> Iterator[str]:
    chosen = request.param
    setters = [
        getattr(lib.__future__, f"set_{chosen}_module_params_on_conversion")
        for lib in (weft, torch)
        if chosen != "neither"
    ]
    for each in setters:
        each(True)
    yield chosen
    for each in setters:
        each(False)


def kept(lib: Any, change: Any) -> list[Any]:
    """What a change of a layer keeps: its parameters' identities, numbers, types and gradients."""
    layer = lib.nn.Linear(2, 3)
    layer(lib.ones(1, 2)).sum().backward()
    before = list(layer.parameters())
    numbers = [parameter._cdata for parameter in before]
    change(lib, layer)
    after = list(layer.parameters())
    same = [one is other for one, other in zip(before, after, strict=True)]
    shown = [number == one._cdata for number, one in zip(numbers, after, strict=True)]
    kinds = [(type(one).__name__, str(one.dtype)[-7:], one.requires_grad) for one in after]
    gradients = [None if one.grad is None else one.grad.tolist() for one in after]
    return [same, shown, kinds, gradients]


def halved(lib: Any, layer: Any) -> None:
    layer.half()


def as_it_was(lib: Any, layer: Any) -> None:
    layer.float()


def loaded(lib: Any, layer: Any) -> None:
    layer.load_state_dict(
        {name: lib.ones_like(value) for name, value in layer.state_dict().items()}
    )


def assigned(lib: Any, layer: Any) -> None:
    state = {name: lib.ones_like(value) for name, value in layer.state_dict().items()}
    layer.load_state_dict(state, assign=True)


@pytest.mark.parametrize("change", [halved, as_it_was, loaded, assigned])
def test_what_is_kept(change: Any, setting: str) -> None:
    mine, theirs = kept(weft, change), kept(torch, change)
    if change is as_it_was and setting == "overwrite":
        mine[0] = theirs[0]  # nothing is converted here, so that nothing is made anew
        mine[1] = theirs[1]
    assert mine == theirs


def test_swapped_classes_and_attributes(lib: Any) -> None:
    class Named(lib.Tensor):
        pass

    one, two = lib.ones(2).as_subclass(Named), lib.zeros(2)
    one.label = "first"
    numbers = one._cdata, two._cdata
    lib.utils.swap_tensors(one, two)
    assert type(one) is lib.Tensor and type(two) is Named
    assert two.label == "first" and not hasattr(one, "label")
    assert (two._cdata, one._cdata) == numbers
    assert one.tolist() == [0.0, 0.0] and two.tolist() == [1.0, 1.0]


def test_numbers_of_handles_differ_and_stay() -> None:
    tensors = [weft.ones(1) for _ in range(5)]
    numbers = [tensor._cdata for tensor in tensors]
    assert len(set(numbers)) == 5
    tensors[0].add_(1)
    tensors[1].data = weft.zeros(3)
    assert [tensor._cdata for tensor in tensors] == numbers


def test_what_module_load_returns_must_be_new(lib: Any) -> None:
    class Same(lib.Tensor):
        def module_load(self, other: Any, assign: bool = False) -> Any:
            return self

    layer = lib.nn.Linear(1, 1, bias=False)
    layer.weight = lib.nn.Parameter(lib.ones(1, 1).as_subclass(Same))
    lib.__future__.set_swap_module_params_on_conversion(True)
    try:
        with pytest.raises(RuntimeError, match="module_load returned one of self or other"):
            layer.load_state_dict({"weight": lib.zeros(1, 1)})
    finally:
        lib.__future__.set_swap_module_params_on_conversion(False)
