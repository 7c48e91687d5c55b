"""Products of rows that are gathered from a smaller table: values keep their bits, gradients their sums."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from oracle import torch
from weft.debug import stages
from weft.engine.runtime import executable_cache

ROWS, DEPTH, WIDTH, TAKEN = 7, 160, 12, (6, 20)
Example = Callable[[Any, Any, Any, Any], Any]
EXAMPLES: dict[
    str, Example
] = {  # of a library's functions, gathered rows (6, 20, depth), weight and bias
    "a linear layer": lambda f, rows, w, b: f.linear(rows, w, b),
    "without a bias": lambda f, rows, w, b: f.linear(rows, w),
    "a product": lambda f, rows, w, b: rows @ w.T,
    "a product of a matrix": lambda f, rows, w, b: rows.reshape(120, DEPTH) @ w.T,
    "turned": lambda f, rows, w, b: f.linear(rows.transpose(0, 1), w, b),
    "flat": lambda f, rows, w, b: f.linear(rows.flatten(0, 1), w, b),
    "turned and flat": lambda f, rows, w, b: f.linear(rows.permute(1, 0, 2).flatten(0, 1), w),
}
every_example = pytest.mark.parametrize("name", EXAMPLES)
every_dtype = pytest.mark.parametrize("dtype", ["float32", "float64"])


def operands(lib: Any = weft, dtype: str = "float64") -> list[Any]:
    """Table, index, weight, bias; nobody takes the last row of the table."""
    random = np.random.default_rng(0)
    made = [random.standard_normal(shape) for shape in ((ROWS, DEPTH), (WIDTH, DEPTH), (WIDTH,))]
    table, *layer = [
        lib.tensor(x.tolist(), dtype=getattr(lib, dtype), requires_grad=True) for x in made
    ]
    return [table, lib.tensor(random.integers(0, ROWS - 1, TAKEN).tolist()), *layer]


def run(lib: Any, name: str, given: list[Any], apart: bool = False) -> list[Any]:
    """The result and the gradients as arrays; with `apart` the rows are read before they are multiplied."""
    table, index, weight, bias = given
    rows = lib.nn.functional.embedding(index, table)
    if apart:
        weft.realize(rows)
    y = EXAMPLES[name](lib.nn.functional, rows, weight, bias)
    (y * y).sum().backward()
    found = [y.detach(), *[x.grad for x in (table, weight, bias)]]
    return [x.numpy() for x in found if x is not None]


def collected(function: Callable[[], Any]) -> list[str]:
    """What is computed, a line each."""
    return str(stages(function)["collect"]).splitlines()


@every_dtype
@every_example
def test_values_keep_their_bits(name: str, dtype: str) -> None:
    value, *gradients = run(weft, name, operands(dtype=dtype))
    wanted, *others = run(weft, name, operands(dtype=dtype), apart=True)
    assert value.tobytes() == wanted.tobytes()
    for found, other in zip(gradients, others, strict=True):
        assert np.abs(found - other).max() <= 64 * np.finfo(dtype).eps * np.abs(other).max()


@every_example
def test_gradients_are_pytorchs(name: str) -> None:
    for found, wanted in zip(
        run(weft, name, operands()), run(torch, name, operands(torch)), strict=True
    ):
        np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-11)


@every_example
def test_products_are_of_the_table(name: str) -> None:
    table, index, weight, bias = operands()

    def step() -> Any:
        rows = weft.nn.functional.embedding(index, table)
        return EXAMPLES[name](weft.nn.functional, rows, weight, bias).square().sum().backward()

    lines = [line for line in collected(step) if "matmul(" in line or "linear" in line]
    assert len(lines) == 3
    assert not [line for line in lines if re.search(r"(?<!%)\b(6|20|120)\b", line)]


def test_sums_of_cotangents_are_added_up_once() -> None:
    table, index, weight, bias = operands()
    functional = weft.nn.functional
    lines = collected(
        lambda: (
            functional.linear(table[index].transpose(0, 1), weight, bias).square().sum().backward()
        )
    )
    assert sum("take_add(" in line for line in lines) == 1
    assert sum("take_put(" in line for line in lines) == 1


@pytest.mark.parametrize("number", [float("inf"), float("nan")])
@every_example
def test_rows_that_nobody_takes_do_not_count(name: str, number: float) -> None:
    given = operands()
    with weft.no_grad():
        given[0][ROWS - 1] = number
    for found, wanted in zip(run(weft, name, given), run(weft, name, operands()), strict=True):
        assert found.tobytes() == wanted.tobytes()


def test_an_infinite_weight_gives_no_gradient_to_rows_that_nobody_takes() -> None:
    table, index, weight, _ = operands()
    with weft.no_grad():
        weight[0, 0] = float("inf")
    (table[index] @ weight.T).sum().backward()
    assert table.grad[ROWS - 1].tolist() == [0.0] * DEPTH


@pytest.mark.parametrize(("rows", "depth"), [(120, 160), (7, 16)])
def test_what_would_not_pay_stays(rows: int, depth: int) -> None:
    table, weight = weft.randn(rows, depth), weft.randn(depth, WIDTH)
    index = weft.randint(rows, (120,))
    lines = collected(lambda: (table[index] @ weight).sum())
    assert any("matmul(" in line and f"[120, {WIDTH}]" in line for line in lines)


def test_an_index_out_of_range_is_reported_where_rows_are_gathered() -> None:
    table, index, weight, bias = operands()
    index[0, 0] = ROWS
    y = weft.nn.functional.linear(table[index], weight, bias)
    with pytest.raises(IndexError, match=r"(?s)out of bounds.*\(x\[index\]\)") as caught:
        y.sum().item()
    assert f"-{ROWS} <= index < {ROWS}" in str(caught.value)


def test_a_known_program_gives_the_same_bits() -> None:
    name, before = "turned", executable_cache.counters["hits"]
    first, *others = [run(weft, name, operands()) for _ in range(6)]
    for other in others:
        assert [x.tobytes() for x in first] == [x.tobytes() for x in other]
    assert executable_cache.counters["hits"] > before


def test_gradients_of_the_gathered_rows_themselves() -> None:
    table, index, weight, bias = operands()
    rows = table[index]
    rows.retain_grad()
    y = weft.nn.functional.linear(rows, weight, bias)
    (y * y).sum().backward()
    np.testing.assert_allclose(rows.grad.numpy(), (2 * y @ weight).detach().numpy(), rtol=1e-12)


def test_second_derivatives() -> None:
    def penalty(lib: Any) -> list[Any]:
        table, index, weight, bias = operands(lib)
        y = lib.nn.functional.linear(table[index], weight, bias).tanh()
        (g,) = lib.autograd.grad(y.square().sum(), table, create_graph=True)
        g.square().sum().backward()
        return [x.grad.numpy() for x in (table, weight, bias)]

    for found, wanted in zip(penalty(weft), penalty(torch), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-10)


SUMS: dict[str, Callable[..., Any]] = {  # of rows that repeat, by the user's own lines
    "onto zeros": lambda x, w, index: weft.zeros(ROWS, DEPTH).index_add(0, index, x @ w),
    "onto ones": lambda x, w, index: weft.ones(ROWS, DEPTH).index_add(0, index, x @ w),
    "by a product": lambda x, w, index: w[:ROWS][index].T @ x,
}


@pytest.mark.parametrize("name", SUMS)
def test_sums_that_are_no_gradients_keep_their_bits(name: str) -> None:
    index, x, w = operands()[1].flatten(), weft.randn(120, DEPTH), weft.randn(DEPTH, DEPTH)
    with weft.eager():
        wanted = SUMS[name](x, w, index).numpy().tobytes()
    for _ in range(3):  # the first run may go node by node
        assert SUMS[name](x, w, index).numpy().tobytes() == wanted


def test_a_number_that_rows_are_added_to_may_change_in_a_known_program() -> None:
    index, x, w = operands()[1].flatten(), weft.randn(120, DEPTH), weft.randn(DEPTH, 128)
    sums = {}
    for number in (0.0, 0.0, 0.0, 2.5):
        sums[number] = weft.full((ROWS, 128), number).index_add(0, index, x @ w).numpy()
    np.testing.assert_allclose(sums[2.5], sums[0.0] + 2.5, atol=1e-3)
