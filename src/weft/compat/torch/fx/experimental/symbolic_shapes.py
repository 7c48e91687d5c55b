"""Symbolic sizes: there are none, a size is a number. Questions about them are answered for numbers."""

from __future__ import annotations

from typing import Any

from weft.compat.symbolic_numbers import SymBool, SymFloat, SymInt
from weft.errors import NotDefinedError

__all__ = [
    "ShapeEnv", "SymBool", "SymFloat", "SymInt", "expect_true", "free_symbols",
    "guard_bool", "guard_float", "guard_int", "guard_or_false", "guard_or_true", "guard_scalar",
    "guard_size_oblivious", "has_free_symbols", "is_symbolic", "statically_known_true", "sym_eq",
]  # fmt: skip


def _itself(a: object) -> Any:
    """The value: it is known."""
    return a


def _truth(a: object) -> bool:
    """True if the number is true: it is known."""
    return bool(a)


guard_scalar = hint_int = guard_int = guard_float = _itself
guard_bool = guard_size_oblivious = guard_or_false = guard_or_true = _truth
expect_true = definitely_true = statically_known_true = _truth


def definitely_false(a: object) -> bool:
    """True if the number is false: it is known."""
    return not a


def sym_eq(x: object, y: object) -> Any:
    """True if two sizes, or sequences of them, are equal."""
    if isinstance(x, list | tuple) and isinstance(y, list | tuple):
        return list(x) == list(y)
    return x == y


def free_symbols(val: object) -> set[Any]:
    """The symbols in a size: none."""
    return set()


def has_free_symbols(val: object) -> bool:
    """False: a size is a number."""
    return False


is_symbolic = has_symbolic_sizes_strides = has_free_symbols


class GuardOnDataDependentSymNode(RuntimeError):
    """Never raised: values are read where they are asked for."""


DimDynamic = StatelessSymbolicContext = Any


class ShapeEnv:
    """No object is one."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        raise NotDefinedError(
            "ShapeEnv: sizes are numbers",
            expected="sizes that are known",
            got="symbols for sizes",
            fix="leave it out: nothing is compiled per shape",
        )
