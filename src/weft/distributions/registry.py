"""`biject_to` and `transform_to`: from unconstrained numbers to a constraint."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.distributions import constraints
from weft.distributions.elementwise_transforms import (
    AffineTransform,
    ComposeTransform,
    ExpTransform,
    IndependentTransform,
    SigmoidTransform,
)
from weft.distributions.matrix_transforms import (
    CatTransform,
    CorrCholeskyTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    StackTransform,
    identity_transform,
)
from weft.distributions.simplex_transforms import SoftmaxTransform, StickBreakingTransform

Factory = Callable[[Any], Any]


class ConstraintRegistry:
    """A transform for each constraint: call it with one, or `register(constraint, factory)`."""

    def __init__(self) -> None:
        self._own: dict[Any, Factory] = {}
        self._kinds: list[tuple[Callable[[Any], bool], Factory]] = []

    def register(self, constraint: Any, factory: Factory | None = None) -> Any:
        """What to make of a constraint, or of all of a class; also a decorator."""
        if factory is None:
            return lambda made: self.register(constraint, made)
        self._own[constraint] = factory
        return factory

    def when(self, holds: Callable[[Any], bool], factory: Factory) -> None:
        """What to make of constraints of which something holds."""
        self._kinds.append((holds, factory))

    def __call__(self, constraint: Any) -> Any:
        factory = self._own.get(constraint) or self._own.get(type(constraint))
        if factory is not None:
            return factory(constraint)
        for holds, make in self._kinds:
            if holds(constraint):
                return make(constraint)
        raise NotImplementedError(
            f"Cannot transform {type(constraint).__name__} constraints: {constraint!r}"
        )


biject_to, transform_to = ConstraintRegistry(), ConstraintRegistry()


def _has(*bounds: str) -> Callable[[Any], bool]:
    """Whether a constraint of real numbers has just these bounds."""

    def holds(constraint: Any) -> bool:
        have = {name for name in ("lower_bound", "upper_bound") if hasattr(constraint, name)}
        return have == set(bounds) and not constraint.is_discrete

    return holds


def _above(constraint: Any) -> Any:
    return ComposeTransform([ExpTransform(), AffineTransform(constraint.lower_bound, 1)])


def _below(constraint: Any) -> Any:
    return ComposeTransform([ExpTransform(), AffineTransform(constraint.upper_bound, -1)])


def _between(constraint: Any) -> Any:
    low, high = constraint.lower_bound, constraint.upper_bound
    if isinstance(low, int | float) and low == 0 and high == 1:
        return SigmoidTransform()
    return ComposeTransform([SigmoidTransform(), AffineTransform(low, high - low)])


def _fill(registry: ConstraintRegistry, simplex: Any) -> None:
    def independent(constraint: Any) -> Any:
        base = registry(constraint.base_constraint)
        return IndependentTransform(base, constraint.reinterpreted_batch_ndims)

    def pieces(constraint: Any) -> Any:
        parts = [registry(part) for part in constraint.cseq]
        return CatTransform(parts, constraint.dim, constraint.lengths)

    def slices(constraint: Any) -> Any:
        return StackTransform([registry(part) for part in constraint.cseq], constraint.dim)

    registry.register(constraints.real, lambda _: identity_transform)
    for constraint in (constraints.positive, constraints.nonnegative):
        registry.register(constraint, lambda _: ExpTransform())
    registry.register(constraints.simplex, lambda _: simplex())
    registry.register(constraints.lower_cholesky, lambda _: LowerCholeskyTransform())
    registry.register(constraints.corr_cholesky, lambda _: CorrCholeskyTransform())
    for matrices in (constraints.positive_definite, constraints.positive_semidefinite):
        registry.register(matrices, lambda _: PositiveDefiniteTransform())
    registry.register(constraints.independent, independent)
    registry.register(constraints.cat, pieces)
    registry.register(constraints.stack, slices)
    registry.when(_has("lower_bound", "upper_bound"), _between)
    registry.when(_has("lower_bound"), _above)
    registry.when(_has("upper_bound"), _below)


_fill(biject_to, StickBreakingTransform)
_fill(transform_to, SoftmaxTransform)
