"""Constraints: which values a parameter may have, or a distribution gives.

`check(value)` says of each value whether it satisfies the constraint; `event_dim` dimensions on the right are one value
together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import weft
from weft._build.lazy import later
from weft.engine.frontend.tensor import Tensor

_linalg: Any = later("weft.linalg")

__all__ = [
    "Constraint", "MixtureSameFamilyConstraint", "boolean", "cat", "corr_cholesky", "dependent",
    "dependent_property", "greater_than", "greater_than_eq", "half_open_interval", "independent",
    "integer_interval", "interval", "is_dependent", "less_than", "lower_cholesky", "lower_triangular",
    "multinomial", "nonnegative", "nonnegative_integer", "one_hot", "positive", "positive_definite",
    "positive_integer", "positive_semidefinite", "real", "real_vector", "simplex", "square", "stack",
    "symmetric", "unit_interval",
]  # fmt: skip


class Constraint:
    """A set of values; `is_discrete` and `event_dim` describe them.

    Example:
        >>> import weft
        >>> from weft.distributions import constraints
        >>> constraints.positive.check(weft.tensor([1.0, -1.0]))
        tensor([ True, False])
    """

    is_discrete = False
    event_dim = 0

    def check(self, value: Tensor) -> Any:
        """A boolean for each value.

        Args:
            value: the values, a tensor.
        """
        raise NotImplementedError

    def __repr__(self) -> str:
        name = type(self).__name__.lstrip("_")
        return f"{name}()"


class _Dependent(Constraint):
    """A constraint that depends on other parameters."""

    def __init__(self, *, is_discrete: bool = False, event_dim: int = 0) -> None:
        self.is_discrete, self.event_dim = is_discrete, event_dim

    def __call__(self, *, is_discrete: bool = False, event_dim: int = 0) -> _Dependent:
        return _Dependent(is_discrete=is_discrete, event_dim=event_dim)

    def check(self, value: Tensor) -> Any:
        """Errors: ValueError, always.

        Args:
            value: the values, a tensor.
        """
        raise ValueError("Cannot determine validity of dependent constraint")


def is_dependent(constraint: Constraint) -> bool:
    """True if a constraint depends on other parameters.

    Args:
        constraint: the constraint that is asked about.

    Example:
        >>> from weft.distributions import Uniform, constraints
        >>> constraints.is_dependent(Uniform.support), constraints.is_dependent(constraints.real)
        (True, False)
    """
    return isinstance(constraint, _Dependent)


class dependent_property(property, _Dependent):  # noqa: N801 - PyTorch's name
    """A property that gives a constraint of an instance; of the class it is a dependent constraint.

    Args:
        fn: the method that computes the constraint of a distribution; None: given when it decorates.
        is_discrete: True if values are whole numbers. Default: False.
        event_dim: how many of the last dimensions are one value. Default: 0.

    Example:
        >>> from weft.distributions import Uniform
        >>> Uniform(0.0, 2.0).support  # what it is depends on the parameters
        Interval(lower_bound=0.0, upper_bound=2.0)
    """

    def __init__(
        self,
        fn: Callable[..., Tensor] | None = None,
        *,
        is_discrete: bool = False,
        event_dim: int = 0,
    ) -> None:
        property.__init__(self, fn)
        self.is_discrete, self.event_dim = is_discrete, event_dim

    def __call__(self, fn: Callable[..., Tensor]) -> dependent_property:  # type: ignore[override]
        return dependent_property(fn, is_discrete=self.is_discrete, event_dim=self.event_dim)


class _Bounded(Constraint):
    """A constraint that is printed with its bounds."""

    def __repr__(self) -> str:
        bounds = ", ".join(f"{name}={bound}" for name, bound in vars(self).items())
        return f"{type(self).__name__.lstrip('_')}({bounds})"


class _Interval(_Bounded):
    """Both bounds included.

    Args:
        lower_bound: the least value, or its limit.
        upper_bound: the greatest value, or its limit.

    Example:
        >>> import weft
        >>> from weft.distributions import constraints
        >>> constraints.interval(0.0, 1.0).check(weft.tensor([0.0, 1.0, 2.0]))
        tensor([ True,  True, False])
    """

    def __init__(self, lower_bound: object, upper_bound: Tensor | float) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound

    def check(self, value: Tensor) -> Any:
        """Within the bounds.

        Args:
            value: the values, a tensor.
        """
        return (self.lower_bound <= value) & (value <= self.upper_bound)


class _HalfOpenInterval(_Interval):
    """The upper bound left out.

    Args:
        lower_bound: the least value, or its limit.
        upper_bound: the greatest value, or its limit.

    Example:
        >>> import weft
        >>> from weft.distributions import constraints
        >>> constraints.half_open_interval(0.0, 1.0).check(weft.tensor([0.0, 1.0]))
        tensor([ True, False])
    """

    def check(self, value: Tensor) -> Any:
        """Within the bounds.

        Args:
            value: the values, a tensor.
        """
        return (self.lower_bound <= value) & (value < self.upper_bound)


class _IntegerInterval(_Interval):
    """Integers, both bounds included.

    Args:
        lower_bound: the least value, or its limit.
        upper_bound: the greatest value, or its limit.

    Example:
        >>> import weft
        >>> from weft.distributions import constraints
        >>> constraints.integer_interval(0, 3).check(weft.tensor([0.0, 1.5, 3.0]))
        tensor([ True, False,  True])
    """

    is_discrete = True

    def check(self, value: Tensor) -> Any:
        """Whole, and within the bounds.

        Args:
            value: the values, a tensor.
        """
        return (value % 1 == 0) & super().check(value)


class _GreaterThan(_Bounded):
    """Above a bound.

    Args:
        lower_bound: the least value, or its limit.

    Example:
        >>> import weft
        >>> from weft.distributions import constraints
        >>> constraints.greater_than(1.0).check(weft.tensor([1.0, 2.0]))
        tensor([False,  True])
    """

    def __init__(self, lower_bound: object) -> None:
        self.lower_bound = lower_bound

    def check(self, value: Tensor) -> Any:
        """Above the bound.

        Args:
            value: the values, a tensor.
        """
        return self.lower_bound < value


class _GreaterThanEq(_GreaterThan):
    """At a bound or above it.

    Args:
        lower_bound: the least value, or its limit.

    Example:
        >>> import weft
        >>> from weft.distributions import constraints
        >>> constraints.greater_than_eq(1.0).check(weft.tensor([0.0, 1.0]))
        tensor([False,  True])
    """

    def check(self, value: Tensor) -> Any:
        """Not below the bound.

        Args:
            value: the values, a tensor.
        """
        return self.lower_bound <= value


class _IntegerGreaterThan(_GreaterThan):
    """Integers at a bound or above it."""

    is_discrete = True

    def check(self, value: Tensor) -> Any:
        """Whole, and not below the bound."""
        return (value % 1 == 0) & (value >= self.lower_bound)


class _LessThan(_Bounded):
    """Below a bound.

    Args:
        upper_bound: the greatest value, or its limit.

    Example:
        >>> import weft
        >>> from weft.distributions import constraints
        >>> constraints.less_than(1.0).check(weft.tensor([0.0, 1.0]))
        tensor([ True, False])
    """

    def __init__(self, upper_bound: object) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Any:
        """Below the bound.

        Args:
            value: the values, a tensor.
        """
        return value < self.upper_bound


class _Multinomial(_LessThan):
    """Counts on the right that add up to a bound at most.

    Args:
        upper_bound: the greatest value, or its limit.

    Example:
        >>> import weft
        >>> from weft.distributions import constraints
        >>> constraints.multinomial(3).check(weft.tensor([[1.0, 2.0], [2.0, 2.0]]))  # counts of at most 3 draws
        tensor([ True, False])
    """

    is_discrete, event_dim = True, 1

    def check(self, value: Tensor) -> Any:
        """Of no negative count and not too many in all.

        Args:
            value: the values, a tensor.
        """
        return (value >= 0).all(dim=-1) & (value.sum(dim=-1) <= self.upper_bound)


interval, half_open_interval, integer_interval = _Interval, _HalfOpenInterval, _IntegerInterval
greater_than, greater_than_eq, less_than = _GreaterThan, _GreaterThanEq, _LessThan
multinomial = _Multinomial


class independent(Constraint):  # noqa: N801 - PyTorch's name
    """A constraint of which dimensions on the right count together.

    Args:
        base_constraint: the constraint of single values, or of the components.
        reinterpreted_batch_ndims: how many of the last dimensions are one value.

    Example:
        >>> import weft
        >>> from weft.distributions import constraints
        >>> vectors = constraints.independent(constraints.positive, 1)
        >>> vectors.check(weft.tensor([[1.0, 2.0], [1.0, -2.0]]))  # one answer for each vector
        tensor([ True, False])
    """

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        self.base_constraint = base_constraint
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        self.is_discrete = base_constraint.is_discrete
        self.event_dim = base_constraint.event_dim + reinterpreted_batch_ndims

    def check(self, value: Tensor) -> Any:
        """All of what counts together. Errors: ValueError for too few dimensions.

        Args:
            value: the values, a tensor.
        """
        found = self.base_constraint.check(value)
        count = self.reinterpreted_batch_ndims
        if found.dim() < count:
            raise ValueError(f"Expected value.dim() >= {self.event_dim} but got {value.dim()}")
        return found.flatten(found.dim() - count).all(-1) if count else found

    def __repr__(self) -> str:
        return f"IndependentConstraint({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class cat(Constraint):  # noqa: N801 - PyTorch's name
    """Constraints of pieces along a dimension.

    Args:
        cseq: the constraints, in order.
        dim: the dimension along which values stand one behind the other. Default: 0.
        lengths: how many values each constraint has; None: one each.

    Example:
        >>> import weft
        >>> from weft.distributions import constraints
        >>> both = constraints.cat([constraints.positive, constraints.real], dim=0, lengths=[1, 2])
        >>> both.check(weft.tensor([-1.0, -1.0, 3.0]))
        tensor([False,  True,  True])
    """

    def __init__(self, cseq: Any, dim: int = 0, lengths: list[int] | None = None) -> None:
        self.cseq, self.dim = list(cseq), dim
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        self.is_discrete = any(part.is_discrete for part in self.cseq)
        self.event_dim = max(part.event_dim for part in self.cseq)

    def check(self, value: Tensor) -> Any:
        """Each piece by its own constraint.

        Args:
            value: the values, a tensor.
        """
        parts = value.split(self.lengths, self.dim)
        return weft.cat(
            [one.check(part) for one, part in zip(self.cseq, parts, strict=True)], self.dim
        )


class stack(Constraint):  # noqa: N801 - PyTorch's name
    """Constraints of slices along a dimension.

    Args:
        cseq: the constraints, in order.
        dim: the dimension along which values are stacked. Default: 0.

    Example:
        >>> import weft
        >>> from weft.distributions import constraints
        >>> both = constraints.stack([constraints.positive, constraints.real], dim=0)
        >>> both.check(weft.tensor([-1.0, -1.0]))
        tensor([False,  True])
    """

    def __init__(self, cseq: list[Constraint], dim: int = 0) -> None:
        self.cseq, self.dim = list(cseq), dim
        self.is_discrete = any(part.is_discrete for part in self.cseq)
        dim_of = max(part.event_dim for part in self.cseq)
        self.event_dim = dim_of + 1 if dim + dim_of < 0 else dim_of

    def check(self, value: Tensor) -> Any:
        """Each slice by its own constraint.

        Args:
            value: the values, a tensor.
        """
        parts = value.unbind(self.dim)
        return weft.stack(
            [one.check(part) for one, part in zip(self.cseq, parts, strict=True)], self.dim
        )


class MixtureSameFamilyConstraint(Constraint):
    """The constraint of a mixture's values: that of its components.

    Args:
        base_constraint: the constraint of single values, or of the components.

    Example:
        >>> import weft
        >>> from weft.distributions import constraints
        >>> inside = constraints.MixtureSameFamilyConstraint(constraints.unit_interval)
        >>> inside.check(weft.tensor([0.5, 2.0]))
        tensor([ True, False])
    """

    def __init__(self, base_constraint: Constraint) -> None:
        self.base_constraint = base_constraint
        self.is_discrete, self.event_dim = base_constraint.is_discrete, base_constraint.event_dim

    def check(self, value: Tensor) -> Any:
        """A value belongs to the mixture where all components could give it.

        Args:
            value: the values, a tensor.
        """
        found = self.base_constraint.check(value.unsqueeze(-1 - self.event_dim))
        rest = value.dim() - self.event_dim
        return found.reshape((*found.shape[:rest], -1)).all(-1)


class _Boolean(Constraint):
    """0 or 1."""

    is_discrete = True

    def check(self, value: Tensor) -> Any:
        """Each value."""
        return (value == 0) | (value == 1)


class _OneHot(_Boolean):
    """Rows of zeros with a single 1."""

    event_dim = 1

    def check(self, value: Tensor) -> Any:
        """Each row."""
        return super().check(value).all(-1) & (value.sum(-1) == 1)


class _Real(Constraint):
    """Every number, but nan."""

    def check(self, value: Tensor) -> Any:
        """Each value."""
        return value == value


class _Simplex(Constraint):
    """Rows of shares that add up to 1."""

    event_dim = 1

    def check(self, value: Tensor) -> Any:
        """Each row."""
        return (value >= 0).all(dim=-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _Square(Constraint):
    """Square matrices."""

    event_dim = 2

    def check(self, value: Tensor) -> Any:
        """All of them, or none."""
        return weft.full(value.shape[:-2], value.shape[-2] == value.shape[-1], dtype=weft.bool)


class _Symmetric(_Square):
    """Symmetric matrices."""

    def check(self, value: Tensor) -> Any:
        """Each matrix."""
        square = super().check(value)
        return (
            square & ((value - value.mT).abs() <= 1e-6).all(-1).all(-1) if square.all() else square
        )


class _PositiveDefinite(_Symmetric):
    """Symmetric matrices of positive eigenvalues."""

    def check(self, value: Tensor) -> Any:
        """Each matrix."""
        symmetric = super().check(value)
        return symmetric & (_linalg.eigvalsh(value) > 0).all(-1) if symmetric.all() else symmetric


class _PositiveSemidefinite(_Symmetric):
    """Symmetric matrices without negative eigenvalues."""

    def check(self, value: Tensor) -> Any:
        """Each matrix."""
        symmetric = super().check(value)
        return symmetric & (_linalg.eigvalsh(value) >= 0).all(-1) if symmetric.all() else symmetric


class _LowerTriangular(Constraint):
    """Matrices of zeros above the diagonal."""

    event_dim = 2

    def check(self, value: Tensor) -> Any:
        """Each matrix."""
        return (value.tril() == value).flatten(-2).all(-1)


class _LowerCholesky(_LowerTriangular):
    """Lower triangular matrices of a positive diagonal."""

    def check(self, value: Tensor) -> Any:
        """Each matrix."""
        return super().check(value) & (value.diagonal(0, -2, -1) > 0).all(-1)


class _CorrCholesky(_LowerCholesky):
    """Lower triangular matrices of a positive diagonal and rows of length 1."""

    def check(self, value: Tensor) -> Any:
        """Each matrix."""
        allowed = 10 * weft.finfo(value.dtype).eps * value.shape[-1]
        rows = value.detach().square().sum(-1).sub(1).abs()
        return super().check(value) & (rows < allowed).all(-1)


dependent = _Dependent()
boolean, one_hot = _Boolean(), _OneHot()
nonnegative_integer, positive_integer = _IntegerGreaterThan(0), _IntegerGreaterThan(1)
real = _Real()
real_vector = independent(real, 1)
positive, nonnegative = greater_than(0.0), greater_than_eq(0.0)
unit_interval = interval(0.0, 1.0)
simplex = _Simplex()
square, symmetric = _Square(), _Symmetric()
lower_triangular, lower_cholesky = _LowerTriangular(), _LowerCholesky()
corr_cholesky = _CorrCholesky()
positive_definite, positive_semidefinite = _PositiveDefinite(), _PositiveSemidefinite()
