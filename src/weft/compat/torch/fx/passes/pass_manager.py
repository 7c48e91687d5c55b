"""Passes that are given as plain functions: `torch.fx.passes.pass_manager`."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from .infra.pass_manager import (
    OrderedPasses,
    inplace_wrapper,
    this_before_that_pass_constraint,
)

__all__ = ["PassManager", "inplace_wrapper", "loop_pass", "these_before_those_pass_constraint",
           "this_before_that_pass_constraint"]  # fmt: skip


def loop_pass(
    base_pass: Callable[..., object],
    n_iter: int | None = None,
    predicate: Callable[..., bool] | None = None,
) -> Callable[..., Any]:
    """A pass that runs another a number of times, or while something holds of its result."""
    if (n_iter is None) == (predicate is None):
        raise AssertionError("Exactly one of `n_iter`or `predicate` must be specified.")

    @wraps(base_pass)
    def looped(source: object) -> Any:
        output = source
        if n_iter is not None:
            for _ in range(n_iter):
                output = base_pass(output)
            return output
        assert predicate is not None
        while predicate(output):
            output = base_pass(output)
        return output

    return looped


# A constraint: passes (of `partial`s and the like) come before others.
these_before_those_pass_constraint = this_before_that_pass_constraint


class PassManager(OrderedPasses):
    """Runs functions from modules to modules, in an order that their constraints allow."""

    def __init__(
        self, passes: list[Callable[..., Any]] | None = None, constraints: Any = None
    ) -> None:
        super().__init__(passes, constraints)

    @classmethod
    def build_from_passlist(cls, passes: list[Callable[..., Any]]) -> PassManager:
        """One of a list of passes."""
        return cls(passes)

    validate = OrderedPasses.solve_constraints

    def __call__(self, source: Any) -> Any:
        self.validate()
        for each in self.passes:
            source = each(source)
        return source
