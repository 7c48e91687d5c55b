"""`biject_to` and `transform_to`: from unconstrained numbers to a constraint."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from weft.distributions import constraints
from weft.distributions.transforms.elementwise import (
    AffineTransform,
    ComposeTransform,
    ExpTransform,
    IndependentTransform,
    SigmoidTransform,
)
from weft.distributions.transforms.matrix import (
    CatTransform,
    CorrCholeskyTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    StackTransform,
    identity_transform,
)
from weft.distributions.transforms.simplex import SoftmaxTransform, StickBreakingTransform

if TYPE_CHECKING:
    from weft.distributions.constraints import Constraint


Factory = Callable[[Any], Any]


class ConstraintRegistry:
    """A transform for each constraint: call it with one, or `register(constraint, factory)`.

    Args:
        constraint: a constraint, of which a transform is wanted.
    """

    def __init__(self) -> None:
        self._own: dict[Any, Factory] = {}
        self._kinds: list[tuple[Callable[[Any], bool], Factory]] = []

    def register(self, constraint: type | Constraint, factory: Factory | None = None) -> Any:
        """Register the factory for all constraints of a class, or of the class of a constraint; also a decorator."""
        if factory is None:
            return lambda made: self.register(constraint, made)
        self._own[constraint if isinstance(constraint, type) else type(constraint)] = factory
        return factory

    def when(self, holds: Callable[[object], bool], factory: Factory) -> None:
        """Register the factory for constraints for which a predicate is true."""
        self._kinds.append((holds, factory))

    def __call__(self, constraint: Constraint) -> Any:
        factory = self._own.get(type(constraint))
        if factory is not None:
            return factory(constraint)
        for holds, make in self._kinds:
            if holds(constraint):
                return make(constraint)
        raise NotImplementedError(
            f"Cannot transform {type(constraint).__name__} constraints: {constraint!r}"
        )


biject_to, transform_to = ConstraintRegistry(), ConstraintRegistry()


def _has(bounds: tuple[str, ...], constraint: Constraint) -> bool:
    """True if a constraint of real numbers has exactly these bounds."""
    have = {name for name in ("lower_bound", "upper_bound") if hasattr(constraint, name)}
    return have == set(bounds) and not constraint.is_discrete


def _above(constraint: Any) -> Any:
    low = constraint.lower_bound
    if isinstance(low, int | float) and low == 0:
        return ExpTransform()
    return ComposeTransform([ExpTransform(), AffineTransform(low, 1)])


def _below(constraint: Any) -> Any:
    return ComposeTransform([ExpTransform(), AffineTransform(constraint.upper_bound, -1)])


def _between(constraint: Any) -> Any:
    low, high = constraint.lower_bound, constraint.upper_bound
    if isinstance(low, int | float) and low == 0 and high == 1:
        return SigmoidTransform()
    return ComposeTransform([SigmoidTransform(), AffineTransform(low, high - low)])


def _independent(registry: ConstraintRegistry, constraint: Any) -> Any:
    base = registry(constraint.base_constraint)
    return IndependentTransform(base, constraint.reinterpreted_batch_ndims)


def _pieces(registry: ConstraintRegistry, constraint: Any) -> Any:
    parts = [registry(part) for part in constraint.cseq]
    return CatTransform(parts, constraint.dim, constraint.lengths)


def _slices(registry: ConstraintRegistry, constraint: Any) -> Any:
    return StackTransform([registry(part) for part in constraint.cseq], constraint.dim)


def _identity(constraint: Constraint) -> Any:
    return identity_transform


def _made(transform: Callable[[], object], constraint: Constraint) -> Any:
    """A transform that a constraint has no say in."""
    return transform()


def _fill(registry: ConstraintRegistry, simplex: type) -> None:
    registry.register(constraints.real, _identity)
    registry.register(constraints.simplex, partial(_made, simplex))
    registry.register(constraints.lower_cholesky, partial(_made, LowerCholeskyTransform))
    registry.register(constraints.corr_cholesky, partial(_made, CorrCholeskyTransform))
    for matrices in (constraints.positive_definite, constraints.positive_semidefinite):
        registry.register(matrices, partial(_made, PositiveDefiniteTransform))
    registry.register(constraints.independent, partial(_independent, registry))
    registry.register(constraints.cat, partial(_pieces, registry))
    registry.register(constraints.stack, partial(_slices, registry))
    registry.when(
        partial(
            _has,
            (
                "lower_bound",
                "upper_bound",
            ),
        ),
        _between,
    )
    registry.when(partial(_has, ("lower_bound",)), _above)
    registry.when(partial(_has, ("upper_bound",)), _below)


_fill(biject_to, StickBreakingTransform)
_fill(transform_to, SoftmaxTransform)
