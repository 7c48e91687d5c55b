"""`weft._decomp`: the tables by which PyTorch's compiler takes operations apart. Nothing is traced: they are empty."""

from __future__ import annotations

from typing import Any

decomposition_table: dict[Any, Any] = {}


def core_aten_decompositions() -> dict[Any, Any]:
    """An empty table."""
    return {}


def get_decompositions(aten_ops: object, type: str = "post_autograd") -> dict[Any, Any]:  # noqa: A002
    """An empty table.

    Args:
        aten_ops: the operations that are asked about.
        type: one of PyTorch's three tables.
    """
    return {}
