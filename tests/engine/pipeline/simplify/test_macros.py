"""Macros: one node until they are collected, and the same bits as the primitives that they stand for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft
from random_programs import running
from weft.engine.ir.tape import tape
from weft.engine.runtime import executable_cache
from weft.ops.composite.macro import macro
from weft.ops.registry import OPS

WIDTH = 3
MACROS = {"lstm_memory": (4, 1), "lstm_output": (4, 1), "gru": (3, 3, 1)}
every_macro = pytest.mark.parametrize("name", MACROS)


def operands(name: str, rows: int | None = None, seed: int = 0, **options: Any) -> list[Any]:
    weft.manual_seed(seed)
    lead = () if rows is None else (rows,)
    made = [weft.randn(*lead, gates * WIDTH, **options) for gates in MACROS[name]]
    weft.realize(*made)
    return made


def primitives(name: str, *given: Any) -> Any:
    return OPS[name].lower(*given, None)


@every_macro
def test_a_macro_is_one_node(name: str) -> None:
    given = operands(name)
    before = len(tape().pending())
    result = macro(name, *given)
    assert [node.op.name for node in tape().pending()[before:]] == [name]
    assert result.shape == given[-1].shape


@every_macro
@pytest.mark.parametrize("way", [{}, {"batched": False}, {"threads": 2}], ids=str)
def test_values_are_those_of_the_primitives(name: str, way: Any) -> None:
    examples = [operands(name, seed=n) for n in range(5)]
    want = [primitives(name, *given).tolist() for given in examples]
    with running(**way):
        for _ in range(3):  # new, seen, and known
            assert [x.tolist() for x in [macro(name, *given) for given in examples]] == want


@pytest.mark.usefixtures("known_soon")
@every_macro
def test_a_known_program_has_the_constants_of_its_macros(name: str) -> None:
    given = operands(name, rows=2, dtype=weft.float64)
    for factor in (1.0, 2.0, 3.0, 4.0):
        before = executable_cache.counters["hits"]
        scaled = [x * factor for x in given]
        result = (macro(name, *scaled) * factor).tolist()
        assert result == (primitives(name, *scaled) * factor).tolist()
    assert executable_cache.counters["hits"] > before


@every_macro
def test_gradients_in_batches_are_those_of_the_primitives(name: str) -> None:
    def gradients(function: Callable[..., Any], batched: bool) -> list[Any]:
        examples = [operands(name, seed=n, dtype=weft.float64) for n in range(4)]
        leaves = [x.requires_grad_() for given in examples for x in given]
        with running(batched=batched):
            results = [function(name, *given).square().sum() for given in examples]
            weft.stack(results).sum().backward()
            return [x.grad.tolist() for x in leaves]

    want = gradients(primitives, False)
    for batched in (False, True):
        for found, wanted in zip(gradients(macro, batched), want, strict=True):
            assert found == pytest.approx(wanted, rel=1e-12, abs=1e-15)


@every_macro
def test_what_has_several_types_is_recorded_as_primitives(name: str) -> None:
    first, *others = operands(name)
    mixed = macro(name, first.double(), *others)
    assert mixed.dtype is weft.float64
    assert mixed.tolist() == pytest.approx(macro(name, first, *others).tolist(), rel=1e-5, abs=1e-6)


@every_macro
def test_values_are_made_of_primitives_while_a_tangent_is_followed(name: str) -> None:
    given = operands(name, dtype=weft.float64)
    tangents = operands(name, seed=1, dtype=weft.float64)
    value, tangent = weft.func.jvp(lambda *x: macro(name, *x), tuple(given), tuple(tangents))
    wanted = weft.func.jvp(lambda *x: primitives(name, *x), tuple(given), tuple(tangents))
    assert value.tolist() == wanted[0].tolist()
    assert tangent.tolist() == pytest.approx(wanted[1].tolist(), rel=1e-12, abs=1e-15)
