"""Passes that are given as plain functions: `torch.fx.passes.pass_manager`."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from weft.engine.frontend.tensor import Tensor

from .infra.pass_manager import (
    _topological,
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


def these_before_those_pass_constraint(these: Any, those: Any) -> Callable[..., bool]:
    """A constraint: passes (of `partial`s and the like) come before others."""
    return this_before_that_pass_constraint(these, those)


class PassManager:
    """Runs functions from modules to modules, in an order that their constraints allow."""

    def __init__(
        self, passes: list[Callable[..., Any]] | None = None, constraints: Any = None
    ) -> None:
        self.passes, self.constraints = passes or [], constraints or []
        self._validated = False

    @classmethod
    def build_from_passlist(cls, passes: list[Callable[..., Any]]) -> PassManager:
        """One of a list of passes."""
        return cls(passes)

    def add_pass(self, _pass: Callable[..., Tensor]) -> None:
        """Add a pass."""
        self.passes.append(_pass)
        self._validated = False

    def add_constraint(self, constraint: Callable[..., bool]) -> None:
        """Add a rule of the order."""
        self.constraints.append(constraint)
        self._validated = False

    def validate(self) -> None:
        """Put the passes in order. Errors: RuntimeError if there is none."""
        if not self._validated:
            self.passes = _topological(self.passes, self.constraints)
            self._validated = True

    def __call__(self, source: Any) -> Any:
        self.validate()
        for each in self.passes:
            source = each(source)
        return source
