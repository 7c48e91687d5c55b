"""Parameters and buffers without a shape: they say what they are, and take part in nothing."""

from __future__ import annotations

import copy
import io
from typing import Any

import pytest

import weft


@pytest.fixture(params=["weft", "torch"])
def lib(request: pytest.FixtureRequest) -> Any:
    return weft if request.param == "weft" else pytest.importorskip("torch")


def made(lib: Any) -> list[Any]:
    kinds = lib.nn.parameter
    return [kinds.UninitializedParameter(), kinds.UninitializedBuffer()]


USES = {
    "p + 1": lambda lib, p: p + 1,
    "1 - p": lambda lib, p: 1 - p,
    "x @ p": lambda lib, p: lib.ones(2, 2) @ p,
    "p[0]": lambda lib, p: p[0],
    "p[0] = 1": lambda lib, p: p.__setitem__(0, 1),
    "exp(p)": lambda lib, p: lib.exp(p),
    "cat": lambda lib, p: lib.cat([lib.ones(1), p]),
    "linear": lambda lib, p: lib.nn.functional.linear(lib.ones(2, 2), p),
    "init": lambda lib, p: lib.nn.init.zeros_(p),
    "p == p": lambda lib, p: p == 1,
    "len": lambda lib, p: len(p),
    "bool": lambda lib, p: bool(p),
    "iter": lambda lib, p: list(p),
    **{
        name: lambda lib, p, name=name: getattr(p, name)()
        for name in (
            *(
                "sum",
                "numel",
                "dim",
                "detach",
                "clone",
                "tolist",
                "item",
                "zero_",
                "stride",
                "numpy",
            ),
            *("is_contiguous", "data_ptr", "element_size", "requires_grad_", "backward", "type"),
            *("normal_", "t", "contiguous", "storage", "untyped_storage"),
        )
    },
}


@pytest.mark.parametrize("use", USES)
def test_every_use_is_refused(lib: Any, use: str) -> None:
    for value in made(lib):
        with pytest.raises((ValueError, RuntimeError), match="ninitialized parameter"):
            USES[use](lib, value)


@pytest.mark.parametrize("use", [u for u in USES if u != "init"])
def test_every_use_is_a_value_error(use: str) -> None:
    for value in made(weft):
        with pytest.raises(ValueError, match="Attempted to use an uninitialized parameter"):
            USES[use](weft, value)


def test_what_they_say(lib: Any) -> None:
    parameter = made(lib)[0]
    assert type(copy.deepcopy(parameter)) is type(parameter)
    for value in made(lib):
        assert value.dtype is lib.float32 and value.is_leaf and value.device.type == "cpu"
        assert value.grad is None and not value.is_complex() and value.is_floating_point()
        assert isinstance(value, lib.nn.parameter.UninitializedTensorMixin)
        assert {value: 1}[value] == 1
        assert value.double().dtype is lib.float64
        with pytest.raises(RuntimeError, match="Can't access the shape of an uninitialized"):
            _ = value.shape


def test_a_lazy_layer_that_was_not_called(lib: Any) -> None:
    layer = lib.nn.LazyLinear(2)
    with pytest.raises(ValueError, match="Attempted to use an uninitialized parameter"):
        layer.weight.sum()
    assert list(layer.state_dict()) == ["weight", "bias"]
    layer.to(lib.float64)
    layer.load_state_dict(layer.state_dict())
    buffer = io.BytesIO()
    lib.save(layer.state_dict(), buffer)
    layer(lib.ones(1, 3, dtype=lib.float64))
    assert layer.weight.sum().dtype is lib.float64
