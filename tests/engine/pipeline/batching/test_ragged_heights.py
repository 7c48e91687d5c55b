"""Examples of different heights run as one, and show what each shows alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import random_rows as rows
import weft
from oracle import torch
from properties import QUICK
from weft.config import config
from weft.debug import stages
from weft.engine.ir.primitive import KIND_NAMES
from weft.ops.registry import OPS
from weft.testing.samples import points, samples

pytestmark = pytest.mark.usefixtures("verified")


def unbatched(*arguments: Any, **options: Any) -> Any:
    before, config.batch = config.batch, False
    try:
        return rows.run(*arguments, **options)
    finally:
        config.batch = before


def agree(one: list[Any], other: list[Any], tolerance: float) -> None:
    assert len(one) == len(other)
    for a, b in zip(one, other, strict=True):
        if a is None or b is None:
            assert a is b
        elif tolerance:
            np.testing.assert_allclose(a, b, tolerance, tolerance)
        else:
            np.testing.assert_array_equal(a, b)


LEADS = st.sampled_from([(), (1,), (1, 1)])  # examples are often batches of one
WALKS = ["together", "some", "read first", "captured", "hooked"]


@pytest.mark.parametrize("walk", WALKS)
@settings(QUICK, max_examples=60)
@given(steps=rows.row_steps, sizes=rows.heights, seed=st.integers(0, 1000), lead=LEADS)
def test_batched_as_unbatched(
    walk: str, steps: list[rows.Step], sizes: list[int], seed: int, lead: tuple[int, ...]
) -> None:
    values, gradients = rows.run(weft, steps, sizes, seed, walk=walk, lead=lead)
    alone, of_each = unbatched(weft, steps, sizes, seed, walk=walk, lead=lead)
    agree(values, alone, 0.0)
    agree(gradients, of_each, 1e-10)
    again, gradients_again = rows.run(weft, steps, sizes, seed, walk=walk, lead=lead)
    agree(values, again, 0.0)
    agree(gradients, gradients_again, 0.0)


@settings(QUICK, max_examples=60)
@given(steps=rows.row_steps, sizes=rows.heights, seed=st.integers(0, 1000), lead=LEADS)
def test_float32_values_have_the_same_bits(
    steps: list[rows.Step], sizes: list[int], seed: int, lead: tuple[int, ...]
) -> None:
    values, _ = rows.run(weft, steps, sizes, seed, dtype="float32", lead=lead)
    alone, _ = unbatched(weft, steps, sizes, seed, dtype="float32", lead=lead)
    agree(values, alone, 0.0)


@pytest.mark.parametrize("walk", WALKS)
@settings(QUICK, max_examples=30)
@given(steps=rows.row_steps, sizes=rows.heights, seed=st.integers(0, 1000), lead=LEADS)
def test_agrees_with_pytorch(
    walk: str, steps: list[rows.Step], sizes: list[int], seed: int, lead: tuple[int, ...]
) -> None:
    ours, theirs = (
        rows.run(lib, steps, sizes, seed, walk=walk, lead=lead) for lib in (weft, torch)
    )
    for one, other in zip(ours, theirs, strict=True):
        agree(one, other, 1e-8)


# -- the op table says truly which rows know no other rows ------------------------------------------


def taller(array: Any) -> Any:
    return np.concatenate([array, array[:1]])


def call_numpy(op: Any, arrays: list[Any], params: Any) -> Any:
    """The row's meaning; elementwise ones have no params."""
    named = {} if KIND_NAMES[op.kind] == "elementwise" else {"params": params}
    return op.reference(*arrays, **named)


OTHERS = ("random_bits", "cast")  # no function of their operands alone
ROW_INDEPENDENT = [
    r for r in OPS.values() if r.is_row_independent is not None and r.name not in OTHERS
]


@pytest.mark.parametrize("op", ROW_INDEPENDENT, ids=lambda op: op.name)
def test_rows_of_rowwise_operations_know_no_other_rows(op: Any) -> None:
    """A row more at the end of every operand that has rows is a row more of the result, and changes no other."""
    preferred = [t for t in ("float64", "complex64", "int64", "bool") if t in op.dtypes]
    dtype = (*preferred, *op.dtypes)[0]
    for sample in samples(op):
        arrays = points(op, sample, dtype)
        shapes = [array.shape for array in arrays]
        with np.errstate(all="ignore"):
            before = np.asarray(call_numpy(op, arrays, sample.params))
        if (
            before.ndim == 0
            or 0 in before.shape
            or not op.is_row_independent(sample.params, shapes, 0)
        ):
            continue
        grown = [taller(a) if has_rows(op, i, a, before) else a for i, a in enumerate(arrays)]
        with np.errstate(all="ignore"):
            after = np.asarray(call_numpy(op, grown, sample.params))
        np.testing.assert_array_equal(after, taller(before))


def has_rows(op: Any, number: int, operand: Any, result: Any) -> bool:
    """Whether an operand has a row for each row of the result."""
    role = op.batch_operands[min(number, len(op.batch_operands) - 1)]
    if role != "b" or operand.ndim == 0 or len(operand) != len(result):
        return False
    return KIND_NAMES[op.kind] != "elementwise" or operand.ndim == result.ndim


# -- what is put together, and what fails -----------------------------------------------------------


def matrices(sizes: list[int], width: int = 8) -> list[Any]:
    source = np.random.default_rng(0)
    return [weft.tensor(source.standard_normal((n, width)), dtype=weft.float32) for n in sizes]


def test_a_layer_on_examples_of_different_heights_is_one_product() -> None:
    layer = weft.nn.Sequential(weft.nn.Linear(8, 8), weft.nn.GELU(), weft.nn.LayerNorm(8))
    examples = matrices([3, 5, 1, 7, 4, 2])

    def step() -> Any:
        return weft.stack([layer(x).sum(0) for x in examples]).sum().backward()

    batches = stages(step)["batch"].splitlines()
    assert "linear_bias x 22 [8] (batched, shared, shared)" in batches
    assert sum("linear" in line for line in batches) == 1
    products = [line for line in stages(step)["collect"].splitlines() if "matmul" in line]
    assert len(products) == 1  # the weight's gradient; the examples want none


def test_rows_in_order_are_read_in_place() -> None:
    """Only what comes from outside is brought together."""
    weight = weft.rand(8, 8)
    examples = matrices([3, 5, 1, 7, 4, 2])

    def step() -> list[Any]:
        return [((x @ weight).tanh() @ weight).relu() for x in examples]

    collected = stages(step)["collect"].splitlines()
    assert sum(" = cat(" in line or "gather_rows(" in line for line in collected) == 1


@pytest.mark.parametrize("lead", [(), (1,)], ids=["rows", "batches of one"])
def test_an_example_that_fails_leaves_the_others_alone(lead: tuple[int, ...]) -> None:
    table = weft.nn.Embedding(5, 8)
    layer = weft.nn.Linear(8, 3)
    indices = [weft.full((*lead, n + 1), n % 5) for n in range(6)]
    indices[2] = weft.tensor([1, 7, 2]).reshape(*lead, 3)
    results = [layer(table(index * 1).relu()) for index in indices]  # seen when it has run
    with pytest.raises(IndexError, match="(?s)^index out of range in self.*got +7 at position"):
        results[2].tolist()
    for number, result in enumerate(results):
        if number != 2:
            found = result.detach().numpy()
            assert found.shape == (*lead, number + 1, 3)
            np.testing.assert_array_equal(found, np.broadcast_to(found[..., :1, :], found.shape))
    total = sum((r.sum() for n, r in enumerate(results) if n != 2), weft.zeros(()))
    total.backward()
    assert table.weight.grad is not None and bool(table.weight.grad.isfinite().all())


def test_explain_says_how_many_examples_and_rows() -> None:
    layer = weft.nn.Linear(8, 8)
    examples = matrices([3, 5, 1, 7, 4, 2])
    weft.realize(*layer.parameters(), *examples)
    with weft.explain() as explanation:
        weft.realize(*[layer(x) for x in examples])
    assert "linear_bias x 6 [22 rows, 8]" in str(explanation)


def test_long_rows_join_where_they_lie_in_batches() -> None:
    """A row of 60 kB is too long to be copied for an activation, not for a product; what follows is in place."""
    layer = weft.nn.Sequential(weft.nn.Linear(256, 256), weft.nn.GELU(), weft.nn.Linear(256, 64))
    examples = matrices([60, 50, 55, 70], 256)
    batches = stages(lambda: [layer(x) for x in examples])["batch"].splitlines()
    assert [line for line in batches if "linear_bias" in line] == [
        "linear_bias x 235 [256] (batched, shared, shared)",
        "linear_bias x 235 [64] (batched, shared, shared)",
    ]
    alone = stages(lambda: [x.exp() * 2 for x in examples])["batch"]
    assert alone == ""
