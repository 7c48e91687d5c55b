"""What higher layers bind for the core (`engine.dispatch.core_hooks`): a name that is missing or not declared fails at
import, one that is misspelt where it is used does not compile."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import weft
from weft.engine.dispatch import core_hooks

DECLARED = set(
    re.findall(
        r"^cdef object (\w+)$",
        Path(core_hooks.__file__).with_name("core_hooks.pxd").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
)


def test_a_function_that_the_core_needs_cannot_be_left_out() -> None:
    with pytest.raises(TypeError, match="needs a function 'device'"):
        core_hooks.bind({})


def test_each_declared_name_is_used_by_the_core() -> None:
    engine = Path(weft.__file__).parent / "engine"
    used = set()
    for path in engine.rglob("*.py"):
        used |= set(re.findall(r"\bcore_hooks\.(\w+)", path.read_text(encoding="utf-8")))
    asked_from_above = {"sparse", "vmap", "without_values", "aten", "namespace", "device"}
    assert used - {"core_hooks"} >= DECLARED - asked_from_above
