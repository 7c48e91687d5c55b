"""Range checks as ops: the limits of operands of losses and draws, and the ops that check them.

A check picks an operand's elements by an index that is 0 if an element fits, and outside its dimension if not: the
bounds check of indices in kernels serves here, too. This module has the limits, and the error of an element beyond
one.
"""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

from weft.errors import ArgumentError
from weft.ops.registry import OPS, named


class Limit(NamedTuple):
    """At least 0, or more than 0 where that is `positive`, and at most `high` if that is not None. `message` has a
    place for the operand's name."""

    message: str
    high: float | None
    expected: str
    fix: str
    positive: bool = False


LIMITS = {
    "binary_cross_entropy": Limit(
        "all elements of {} should be between 0 and 1",
        1.0,
        "probabilities",
        "use sigmoid, or binary_cross_entropy_with_logits for scores",
    ),
    "bernoulli": Limit(
        "Expected p_in >= 0 && p_in <= 1 to be true, but got false: all elements of {} should be between 0 "
        "and 1",
        1.0,
        "probabilities",
        "use sigmoid, or clamp(0, 1)",
    ),
    "normal": Limit(
        "normal expects all elements of {} >= 0.0",
        None,
        "numbers that are 0 or more",
        "use softplus or exp, or take .abs()",
    ),
    "multinomial": Limit(
        "probability tensor contains either `inf`, `nan` or element < 0",
        sys.float_info.max,
        "finite weights >= 0",
        "use softmax, or clamp the weights",
    ),
    "multinomial_row": Limit(
        "invalid multinomial distribution (sum of probabilities <= 0)",
        None,
        "a positive sum of the weights of a row",
        "add a small number to the weights",
        positive=True,
    ),
}


def picking_op(function: str, operand: str) -> Any:
    """The row that picks what fits of an operand of a function."""
    words = f"{operand}_of_{function}".title().replace("_", "")
    return named(OPS["gather"], f"{words}Backward0")


def limit_error_of_op(name: str, got: str, where: str | None) -> ArgumentError | None:
    """The error of an operand outside its limits, by the name of its picking row as users would call it; None where a
    name is that of another row."""
    operand, _, function = name.partition("_of_")
    return limit_error(function, operand, got, where) if function in LIMITS else None


def limit_error(function: str, operand: str, got: str, where: str | None = None) -> ArgumentError:
    """The error of an operand outside a function's limits."""
    limit = LIMITS[function]
    return ArgumentError(
        limit.message.format(operand),
        where=where,
        expected=limit.expected,
        got=got,
        fix=limit.fix,
        operation=function,
    )
