"""Functions of higher layers that the core calls by a name (`engine.dispatch.core_hooks`): a name that is misspelt
would show where it is called only, often in the path of an error."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import weft
from weft.engine.dispatch.core_hooks import bound_to

PACKAGE = Path(weft.__file__).resolve().parent


def _names_asked(source: str) -> set[str]:
    """The names in `late["name"]` and `bound_to("name")`."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "late":
            key: ast.expr | None = node.slice if isinstance(node.ctx, ast.Load) else None
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("bound_to"):
            key = node.args[0]
        else:
            continue
        if isinstance(key, ast.Constant):
            found.add(key.value)
    return found


ASKED = {
    name
    for path in sorted(PACKAGE.rglob("*.py"))
    for name in _names_asked(path.read_text(encoding="utf-8"))
}


def test_the_names_are_found_in_both_forms() -> None:
    source = 'late["flush"]()\nlate["bound"] = f\ncore_hooks.bound_to("device")\nbound_to(name)'
    assert _names_asked(source) == {"flush", "device"}
    assert len(ASKED) > 10


@pytest.mark.parametrize("name", sorted(ASKED))
def test_each_name_that_is_asked_for_is_bound(name: str) -> None:
    assert bound_to(name) is not None
