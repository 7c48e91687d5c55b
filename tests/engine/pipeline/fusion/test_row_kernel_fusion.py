"""Reductions of rows and what goes on from them are one kernel, which gives the bits of single operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft.debug import stages
from weft.engine.devices.cpu.limits import LONGEST_ROW
from weft.nn import functional
from weft.testing.tuned import unfused

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "softmax": lambda x: x.softmax(-1),
    "log_softmax": lambda x: x.log_softmax(-1),
    "layer_norm": lambda x: functional.layer_norm(x, (x.shape[-1],)),
    "centred": lambda x: (x - x.mean(1, keepdim=True)).square() * x.sum(1)[:, None],
    "shares": lambda x: (x / x.sum(-1, keepdim=True)).abs().sqrt() + x.amax(1, keepdim=True),
    "deep": lambda x: (x.softmax(-1) * x - x.mean(1, keepdim=True)).tanh().softmax(-1).sum(-1),
    "places": lambda x: x * (x == x.amax(1, keepdim=True)) * x.argmax(1, keepdim=True),
}


pytestmark = pytest.mark.usefixtures("verified")


def rows(shape: tuple[int, int], dtype: Any = weft.float32, seed: int = 0) -> Any:
    x = weft.randn(*shape, generator=weft.Generator().manual_seed(seed)).to(dtype)
    weft.realize(x)
    return x


def bits(function: Callable[[Any], Any], x: Any) -> str:
    """The value and the gradient, from kernels that have been compiled, as text: there a nan equals a nan."""
    result = ""
    for _ in range(3):
        leaf = x.detach().requires_grad_()
        value = function(leaf)
        (value * value).sum().backward()
        result = repr([value.detach().double().tolist(), leaf.grad.double().tolist()])
    return result


def apart(function: Callable[[Any], Any], x: Any) -> str:
    with unfused():
        return bits(function, x)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_one_kernel_gives_the_bits_of_single_operations(name: str) -> None:
    function = FUNCTIONS[name]
    for length in (2, 3, 16, 100, 4097):
        x = rows((20, length), seed=length)
        assert bits(function, x) == apart(function, x), length


@pytest.mark.parametrize("dtype", [weft.float64, weft.float16, weft.bfloat16], ids=str)
def test_of_every_floating_type(dtype: Any) -> None:
    for function in (FUNCTIONS["softmax"], FUNCTIONS["layer_norm"], FUNCTIONS["centred"]):
        x = rows((17, 130), dtype)
        assert bits(function, x) == apart(function, x)


def test_of_every_layout() -> None:
    x = rows((60, 48))
    for layout in (x.t(), x[:, ::2], x[::2], x[1].expand(30, 48), x.reshape(4, 15, 48)):
        for function in (FUNCTIONS["softmax"], FUNCTIONS["layer_norm"]):
            assert bits(function, layout) == apart(function, layout)


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "layer_norm"])
def test_they_are_one_kernel(name: str) -> None:
    x = rows((64, 100))
    text = stages(lambda: FUNCTIONS[name](x))["fuse"]
    assert "rows" in text
    assert text.count("\n") == 0


def test_rows_that_local_memory_cannot_hold_are_not() -> None:
    for shape in ((16, LONGEST_ROW + 1), (2, 1000)):
        x = rows(shape)
        assert "rows" not in stages(lambda x=x: x.softmax(-1))["fuse"]
        assert bits(FUNCTIONS["softmax"], x) == apart(FUNCTIONS["softmax"], x)


def test_threads_change_nothing() -> None:
    x = rows((300, 700))
    before = weft.get_num_threads()
    try:
        weft.set_num_threads(1)
        alone = bits(FUNCTIONS["layer_norm"], x)
        weft.set_num_threads(2)
        assert bits(FUNCTIONS["layer_norm"], x) == alone
    finally:
        weft.set_num_threads(before)
