"""Derivative rules that are one row: the same bits as the rule, recorded operation by operation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from weft.engine.backward.apply_vjp import vjp_record
from weft.engine.frontend.resolve import value_of
from weft.engine.ir import dtype as dtypes
from weft.ops import OPS, direct_vjps
from weft.ops.primitives import elementwise as call
from weft.testing.recording import tensor_of

RULES = [
    (row, number)
    for row in OPS.values()
    for number, direct in enumerate(direct_vjps.direct_vjps(row))
    if direct is not None and direct.op is not None
]
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -3.0, 1e-3, 1e30, -1e-30, np.inf, -np.inf, np.nan]
FLOATS = ("float16", "bfloat16", "float32", "float64")


def values(seed: int, dtype: str) -> Any:
    """Every special value and some others, each operand in an order of its own."""
    draw = np.random.default_rng(seed)
    found = np.concatenate([SPECIAL * 3, draw.standard_normal(61), draw.uniform(0.1, 0.9, 61)])
    with np.errstate(over="ignore"):
        return tensor_of(draw.permutation(found), dtype, "row-major")


def bits(tensor: Any) -> Any:
    array = tensor.float().numpy() if tensor._dtype is dtypes.bfloat16 else tensor.numpy()
    return np.where(np.isnan(array), np.nan, array).tobytes()


@pytest.mark.parametrize(
    ("row", "number"), RULES, ids=[f"{row.name}-{row.operands[n]}" for row, n in RULES]
)
@pytest.mark.parametrize("dtype", FLOATS)
def test_a_rule_and_its_row_give_the_same_bits(row: Any, number: int, dtype: str) -> None:
    """What is recorded with `create_graph` is the rule itself."""
    if dtype not in row.dtypes:
        pytest.skip("no kernel of this type")
    operands = [values(seed, dtype) for seed in range(len(row.operands))]
    operands[number].requires_grad_()
    g = values(99, dtype)
    result = call(row.name, *operands)
    by_rule = vjp_record(result.grad_fn, g, True)[number]
    by_row = vjp_record(result.grad_fn, g, False)[number]
    direct = direct_vjps.direct_vjps(row)[number]
    assert direct is not None
    assert value_of(by_row).op is direct.op
    assert by_row.grad_fn is None
    assert bits(by_rule.detach()) == bits(by_row)


@pytest.mark.parametrize(
    ("name", "count"), [("tanh", 1), ("sigmoid", 1), ("relu", 1), ("abs", 1), ("square", 1)]
)
def test_a_walk_records_one_node_for_a_rule(name: str, count: int) -> None:
    x = weft.randn(5, requires_grad=True)
    y = call(name, x)
    start = weft.engine.ir.tape.last_sequence()
    y.backward(weft.ones(5))
    made = [node.op.name for node in weft.engine.ir.tape.tape().since(start)]
    assert made.count(f"{name}_vjp_self") == count
    assert len(made) <= 2 + count  # the ones that arrive, and a view of them


def test_broadcast_operands_get_their_sums() -> None:
    a, b = weft.randn(3, 4, requires_grad=True), weft.randn(4, requires_grad=True)
    (a / b).square().sum().backward()
    again = [weft.tensor(x.tolist(), requires_grad=True) for x in (a, b)]
    loss = (again[0] / again[1]).square().sum()
    found = weft.autograd.grad(loss, again, create_graph=True)
    assert weft.equal(found[0], a.grad)
    assert weft.equal(found[1], b.grad)


def test_hooks_that_pack_are_asked() -> None:
    """A saved value that a user's hooks have packed is what they make of it, not what the node holds."""
    with weft.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x * 0 + 0.5):
        x = weft.tensor([0.1, 0.2], requires_grad=True)
        y = x.tanh()
    y.sum().backward()
    assert x.grad.tolist() == [0.75, 0.75]


def test_gradients_are_differentiated_again() -> None:
    x = weft.tensor([0.3, -0.7], dtype=weft.float64, requires_grad=True)
    first = weft.autograd.grad(x.tanh().sum(), x, create_graph=True)[0]
    second = weft.autograd.grad(first.sum(), x)[0]
    t = np.tanh(x.detach().numpy())
    assert np.allclose(second.numpy(), -2 * t * (1 - t * t), rtol=1e-12)


def test_rows_say_why_they_have_no_derivative() -> None:
    assert "the rule itself" in OPS["tanh_vjp_self"].why
