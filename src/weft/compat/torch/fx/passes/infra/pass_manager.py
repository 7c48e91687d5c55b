"""PassManager: passes one after the other, in an order that their constraints allow."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

from weft.errors import ArgumentError
from weft.nn import Module

from .pass_base import PassResult

__all__ = [
    "PassManager",
    "pass_result_wrapper",
    "this_before_that_pass_constraint",
]

_Pass = Callable[..., Any]
_Constraint = Callable[[_Pass, _Pass], bool]


def pass_result_wrapper(fn: _Pass) -> _Pass:
    """A pass that answers with a `PassResult`, of a function that changes a module in place."""
    if fn is None:
        return None

    @wraps(fn)
    def wrapped(gm: Any) -> Any:
        result = fn(gm)
        if result is None:
            return PassResult(gm, True)
        return result if isinstance(result, PassResult) else PassResult(result, True)

    if not inspect.isfunction(fn):
        wrapped.__name__ = type(fn).__name__
    return wrapped


def inplace_wrapper(fn: _Pass) -> _Pass:
    """A function that changes a module in place, with the module as its result."""

    @wraps(fn)
    def wrapped(gm: object) -> Any:
        fn(gm)
        return gm

    return wrapped


def this_before_that_pass_constraint(this: _Pass, that: _Pass) -> _Constraint:
    """A constraint: one pass comes before another."""

    def depends_on(a: _Pass, b: _Pass) -> bool:
        return a is not that or b is not this

    return depends_on


def _topological(passes: list[_Pass], constraints: list[_Constraint]) -> list[_Pass]:
    """The passes in an order that the constraints allow. Errors: RuntimeError if there is none."""
    waiting = list(passes)
    order: list[_Pass] = []
    while waiting:
        ready = [
            one for one in waiting
            if all(rule(one, other) for rule in constraints for other in waiting if other is not one)
        ]  # fmt: skip
        if not ready:
            names = [getattr(each, "__name__", each) for each in waiting]
            raise ArgumentError(
                f"Circular dependency detected within the following passes: {names}",
                expected="constraints that some order fulfils", got=str(names), fix="leave one of them out",
            )  # fmt: skip
        order.append(ready[0])
        waiting.remove(ready[0])
    return order


class OrderedPasses:
    """Passes, and rules of their order."""

    def __init__(self, passes: list[_Pass] | None, constraints: list[_Constraint] | None) -> None:
        self.passes, self.constraints = passes or [], constraints or []
        self._validated = False

    def add_pass(self, _pass: _Pass) -> None:
        """Add a pass."""
        self.passes.append(_pass)
        self._validated = False

    def add_constraint(self, constraint: _Constraint) -> None:
        """Add a rule of the order."""
        self.constraints.append(constraint)
        self._validated = False

    def solve_constraints(self) -> None:
        """Put the passes in an order that the rules allow. Errors: RuntimeError if there is none."""
        if not self._validated:
            self.passes = _topological(self.passes, self.constraints)
            self._validated = True


class PassManager(OrderedPasses):
    """Runs passes `steps` times, or until none of them changes anything.

    Args: `passes`: functions from a module to a `PassResult`; `constraints`: rules of their order;
    `run_checks_after_each_pass`: call what `add_checks` was given behind each; `suppress_check_failures`: go on then.
    """

    def __init__(
        self,
        passes: list[_Pass] | None = None,
        constraints: list[_Constraint] | None = None,
        steps: int | None = None,
        run_checks_after_each_pass: bool = False,
        suppress_check_failures: bool = False,
    ) -> None:
        super().__init__(passes, constraints)
        self.steps = steps or 1
        self.run_checks_after_each_pass = run_checks_after_each_pass
        self.suppress_check_failures = suppress_check_failures

    def add_checks(self, check: _Pass) -> None:
        """Set a check that is called with the module after each pass. Errors: TypeError on another signature."""
        if list(inspect.signature(check).parameters) != ["module"]:
            raise TypeError("PassManager check function should only take in one variable, a module")
        self.check = check  # type: ignore[method-assign, assignment]

    def check(self, module: Module) -> None:
        """Nothing, unless `add_checks` says more."""

    def validate_constraints(self) -> None:
        """Errors: RuntimeError where the passes stand in an order that a rule forbids."""
        for place, one in enumerate(self.passes):
            for other in self.passes[place + 1 :]:
                for rule in self.constraints:
                    if not rule(one, other):
                        raise RuntimeError(
                            f"pass schedule constraint violated. Expected {one} before {other} but found {one} at "
                            f"index {place} and {other} after it in pass list."
                        )
        self._validated = True

    def __call__(self, module: Module) -> PassResult:
        self.solve_constraints()
        changed_ever = False
        for _ in range(self.steps):
            changed = False
            for each in self.passes:
                result = each(module)
                if not isinstance(result, PassResult):
                    raise TypeError(
                        f"The result of the pass {getattr(each, '__name__', each)} should be type PassResult. Please "
                        "wrap it with pass_result_wrapper()"
                    )
                module, changed = result.graph_module, changed or result.modified
                module.recompile()
                if self.run_checks_after_each_pass:
                    self.check(module)
            changed_ever = changed_ever or changed
            if not changed:
                break
        return PassResult(module, changed_ever)  # type: ignore[arg-type]
