"""Kernels are found by words: equal words mean one key, and whatever a kernel is specialised on is in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft.engine.ir.tape import tape
from weft.engine.pipeline import tiering
from weft.engine.pipeline.fingerprint import COMES_SOON
from weft.engine.pipeline.lowering.row_kernel import prepared_key, prepared_spec
from weft.engine.pipeline.lowering.spec_table import kernel_specs, key_of
from weft.engine.pipeline.passes import Compilation, run_through
from weft.errors import VerificationError

X = weft.randn(20, 30, generator=weft.Generator().manual_seed(0))
Y = weft.randn(20, 30, generator=weft.Generator().manual_seed(1))

STRUCTURES: dict[str, Callable[[], Any]] = {
    "one operation": lambda: X + Y,
    "another operation": lambda: X - Y,
    "the operands turned": lambda: Y.mul(2.0).sub(X),
    "a dtype": lambda: X.double() + Y,
    "another dtype": lambda: X.half() + Y,
    "a broadcast row": lambda: X + Y[0],
    "a broadcast column": lambda: X + Y[:, :1],
    "general strides": lambda: X[:, ::2] + Y[:, ::2],
    "transposed": lambda: X.T + Y.T,
    "one operand twice": lambda: X * X,
    "a number": lambda: X * 2.0,
    "two stores": lambda: ((y := X.exp()), y * Y),
    "one store": lambda: X.exp() * Y,
    "a sum of rows": lambda: X.sum(1),
    "a sum of columns": lambda: X.sum(0),
    "a sum of all": lambda: X.sum(),
    "a largest element": lambda: X.amax(1),
    "an epilogue": lambda: X.exp().sum(1).log(),
    "two reductions": lambda: (X.sum(1), X.amax(1)),
    "row kernel": lambda: X.softmax(1),
    "row kernel, with what it is made of": lambda: ((y := X * Y), y.softmax(1)),
    "counted": lambda: weft.arange(30) + X,
}


def selected(function: Callable[[], Any]) -> tuple[Any, Any]:
    """The program of a function with its specs, not run, and its result, without which there would be nothing."""
    weft.realize(X, Y)
    result = function()
    program = run_through("tiering", Compilation(tape().pending(), COMES_SOON)).program
    return program, result


@pytest.mark.parametrize("name", STRUCTURES)
def test_words_find_the_spec_of_the_key(name: str) -> None:
    for _ in range(2):  # met for the first time, and again
        program, result = selected(STRUCTURES[name])
        prepared = [kernel for kernel in program.kernels if kernel.prepared is not None]
        assert prepared
        for kernel in prepared:
            spec = prepared_spec(kernel)
            assert key_of(spec) == prepared_key(kernel)
            assert kernel_specs()[spec.name] is spec
        del result
        program.release()


def test_structures_that_differ_have_specs_of_their_own() -> None:
    specs = {}
    for name in 2 * list(STRUCTURES):  # what is met for the first time is taken apart
        program, result = selected(STRUCTURES[name])
        specs[name] = frozenset(
            prepared_spec(kernel) for kernel in program.kernels if kernel.prepared is not None
        )
        del result
        program.release()
    assert len(set(specs.values())) == len(specs)


def test_another_spec_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    weft.realize(STRUCTURES["one operation"](), STRUCTURES["another operation"]())
    program, result = selected(STRUCTURES["one operation"])
    other, also = selected(STRUCTURES["another operation"])
    (kernel,) = [k for k in program.kernels if k.nodes[0].op.name == "add"]
    (wrong,) = [k for k in other.kernels if any(node.op.name == "sub" for node in k.nodes)]
    monkeypatch.setattr(prepared_spec(kernel), "key_text", prepared_spec(wrong).key_text)
    with pytest.raises(VerificationError, match="with its own kernel"):
        tiering.verify(program)
    del result, also
    program.release()
    other.release()
