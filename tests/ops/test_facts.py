"""Facts about operations are fields of their ops: the table declares them, and the engine asks them, never names."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from weft.engine.ir import primitive as primitives
from weft.engine.ir.primitive import FORMS, INDEX_BOUNDS, KIND_NAMES, SUMS
from weft.ops import OPS
from weft.ops.registry import define, not_differentiable

PACKAGE = Path(weft.__file__).resolve().parent
ROOMS = ("engine", "autograd", "func")
RECORDS = ("op", "primitive")  # what a record of the table is called where it is asked
LEAVES = ("SCALAR_OP", "VALUE_OP", "scalar_op", "value_op", "_scalar_op")
ALLOWED: dict[str, str] = {}  # modules that may, and why

# -- the engine --------------------------------------------------------------------------------------------------------


def is_record(node: ast.expr) -> bool:
    """Whether an expression is a record of the op table: `op`, `node.op`."""
    return (isinstance(node, ast.Name) and node.id in RECORDS) or (
        isinstance(node, ast.Attribute) and node.attr in RECORDS
    )


def is_word(node: ast.expr, word: str) -> bool:
    """Whether an expression is the name, or the code, of a record."""
    return isinstance(node, ast.Attribute) and node.attr == word and is_record(node.value)


def is_particular(node: ast.expr) -> bool:
    """Whether an expression stands for one operation: `_add_op`, or its code."""
    if isinstance(node, ast.Attribute) and node.attr == "code":
        node = node.value
    name = node.id if isinstance(node, ast.Name) else ""
    return name.endswith(("_op", "_code", "OP")) and name not in LEAVES


def questions(tree: ast.AST) -> Iterator[int]:
    """The lines where it is asked which operation something is."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            sides += [e for side in sides if isinstance(side, ast.Tuple) for e in side.elts]
            asks = any(is_word(side, "name") for side in sides) or (
                any(is_record(side) or is_word(side, "code") for side in sides)
                and any(map(is_particular, sides))
            )
        elif isinstance(node, ast.Subscript):
            asks = is_word(node.slice, "name")
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            asks = node.func.attr in ("startswith", "endswith", "removeprefix") and is_word(
                node.func.value, "name"
            )
            asks = asks or (node.func.attr == "get" and any(is_word(a, "name") for a in node.args))
        else:
            continue
        if asks:
            yield node.lineno


@pytest.mark.parametrize(
    ("source", "asked"),
    [
        ("node.op.name == 'cat'", True),
        ("op.name in ('cat', 'stack')", True),
        ("node.op is _add_op", True),
        ("node.op.code == _add_op.code", True),
        ("op.code in (_take_code, _add_code)", True),
        ("OPS[node.op.name]", True),
        ("COSTS.get(node.op.name, 3)", True),
        ("node.op.name.startswith('take')", True),
        ("node.op.code == other.op.code", False),
        ("node.op is _scalar_op", False),
        ("node.op.form == CONCAT", False),
        ("node.dtype.name == 'float32'", False),
        ("f'{node.op.name} of {op.name}'", False),
    ],
)
def test_questions_are_found(source: str, asked: bool) -> None:
    assert bool(list(questions(ast.parse(source)))) == asked


def test_the_engine_asks_for_facts_and_not_for_names() -> None:
    found: dict[str, list[int]] = {}
    for room in ROOMS:
        for path in sorted((PACKAGE / room).rglob("*.py")):
            lines = sorted(questions(ast.parse(path.read_text(encoding="utf-8"))))
            if lines:
                found[str(path.relative_to(PACKAGE))] = lines
    assert set(found) == set(ALLOWED), found


# -- the table ---------------------------------------------------------------------------------------------------------


def complete(**facts: Any) -> dict[str, Any]:
    return {
        "kind": "region",
        "operands": "self",
        "reference": lambda x, params: x,
        "vjp": not_differentiable("an op of a test"),
        "domain": [((2, 3), None)],
        "shape": lambda p, shape: shape,
        **facts,
    }


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({}, r"form is one of \['update', 'concat', 'stack'\], got ''"),
        ({"form": "matmul"}, "form is one of"),
        ({"form": "concat", "sums": "operands"}, r"sums is one of \[''\]"),
        ({"form": "concat", "index_bound": "none"}, "index_bound is one of"),
        ({"kind": "scan", "form": "cumulative"}, r"combiner is one of \['sum', 'prod'\], got ''"),
        ({"form": "concat", "combiner": "sum"}, r"combiner is one of \[''\]"),
    ],
)
def test_a_fact_that_is_missing_or_none_of_its_kind_is_refused(
    facts: dict[str, Any], words: str
) -> None:
    with pytest.raises(TypeError, match=words):
        define("an_op_of_a_test", **complete(**facts))


def test_forms_belong_to_one_kind_and_each_row_of_such_a_kind_has_one() -> None:
    assert set(FORMS) <= set(KIND_NAMES)
    for op in OPS.values():
        forms = FORMS.get(KIND_NAMES[op.kind], {"": 0})
        assert op.form in forms.values(), op.name


def declared(words: dict[str, int], field: str) -> dict[str, list[str]]:
    """The ops for each word of a fact."""
    return {
        word: [op.name for op in OPS.values() if getattr(op, field) == code]
        for word, code in words.items()
        if word
    }


def test_what_adds_up() -> None:
    found = declared(SUMS, "sums")
    x = np.arange(6.0).reshape(2, 3)
    for name in found["operands"]:
        assert np.array_equal(OPS[name].reference(x, x + 1), 2 * x + 1)
    for name in found["elements"]:
        assert np.array_equal(OPS[name].reference(x, ((1,), False)), x.sum(1))
    assert found["into_base"] == ["scatter_add", "take_add"]


def test_what_is_its_operand_where_it_has_one() -> None:
    x = weft.tensor([[1.0, 2.0], [3.0, 4.0]])
    names = [op.name for op in OPS.values() if op.is_identity_of_one]
    assert names == ["add", "cat", "stack"]
    assert weft.cat([x]).tolist() == x.tolist()


def test_rules_of_variadic_rows_give_all_cotangents() -> None:
    for op in OPS.values():
        if op.is_variadic:
            assert len(op.operands) == 1
            parts = [weft.ones(2, 3, requires_grad=True) for _ in range(3)]
            result = weft.cat(parts) if op.name == "cat" else weft.stack(parts)
            result.sum().backward()
            assert all(part.grad.tolist() == [[1.0] * 3] * 2 for part in parts)


def test_bounds_hold_of_what_is_computed() -> None:
    found = declared(INDEX_BOUNDS, "index_bound")
    assert found["reduced"] == ["argmax", "argmin"] and found["count"] == ["iota"]
    assert found["choice"] == ["where"]
    views = [op.name for op in OPS.values() if op.kind == primitives.VIEW]
    assert set(found["operand"]) == {"cast", "clone", "gather", "take", *views}
    assert found["along"] == ["order", "nth_place", "running_place"]
    assert set(found["joined"]) == {"cat", "put", "stack"}
