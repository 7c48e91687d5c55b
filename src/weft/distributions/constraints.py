"""Constraints: which values a parameter may have, or a distribution gives.

`check(value)` says of each value whether it satisfies the constraint; `event_dim` dimensions on the right are one value
together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import weft
from weft import Tensor
from weft._lazy import later

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
    """A set of values; `is_discrete` and `event_dim` describe them."""

    is_discrete = False
    event_dim = 0

    def check(self, value: Any) -> Any:
        """A boolean for each value."""
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

    def check(self, value: Any) -> Any:
        """Errors: ValueError, always."""
        raise ValueError("Cannot determine validity of dependent constraint")


def is_dependent(constraint: Any) -> bool:
    """Whether a constraint depends on other parameters."""
    return isinstance(constraint, _Dependent)


class dependent_property(property, _Dependent):  # noqa: N801 - PyTorch's name
    """A property that gives a constraint of an instance; of the class it is a dependent constraint."""

    def __init__(
        self,
        fn: Callable[..., Any] | None = None,
        *,
        is_discrete: bool = False,
        event_dim: int = 0,
    ) -> None:
        property.__init__(self, fn)
        self.is_discrete, self.event_dim = is_discrete, event_dim

    def __call__(self, fn: Callable[..., Any]) -> dependent_property:  # type: ignore[override]
        return dependent_property(fn, is_discrete=self.is_discrete, event_dim=self.event_dim)


class _Test(Constraint):
    """A constraint from a function; `text` is how it is printed."""

    def __init__(
        self,
        text: str,
        holds: Callable[[Any], Any],
        is_discrete: bool = False,
        event_dim: int = 0,
        **bounds: Any,
    ) -> None:
        self.text, self.holds = text, holds
        self.is_discrete, self.event_dim = is_discrete, event_dim
        self.__dict__.update(bounds)

    def check(self, value: Any) -> Any:
        """A boolean for each value."""
        return self.holds(value)

    def __repr__(self) -> str:
        return self.text


def _interval(name: str, low: Any, high: Any) -> _Test:
    return _Test(
        f"{name}(lower_bound={low}, upper_bound={high})",
        lambda value: (low <= value) & (value <= high),
        lower_bound=low,
        upper_bound=high,
    )


def interval(lower_bound: Any, upper_bound: Any) -> Constraint:
    """Both bounds included."""
    return _interval("Interval", lower_bound, upper_bound)


def half_open_interval(lower_bound: Any, upper_bound: Any) -> Constraint:
    """The upper bound left out."""
    return _Test(
        f"HalfOpenInterval(lower_bound={lower_bound}, upper_bound={upper_bound})",
        lambda value: (lower_bound <= value) & (value < upper_bound),
        lower_bound=lower_bound,
        upper_bound=upper_bound,
    )


def integer_interval(lower_bound: Any, upper_bound: Any) -> Constraint:
    """Integers, both bounds included."""
    return _Test(
        f"IntegerInterval(lower_bound={lower_bound}, upper_bound={upper_bound})",
        lambda value: (value % 1 == 0) & (lower_bound <= value) & (value <= upper_bound),
        is_discrete=True,
        lower_bound=lower_bound,
        upper_bound=upper_bound,
    )


def greater_than(lower_bound: Any) -> Constraint:
    """Above a bound."""
    text = f"GreaterThan(lower_bound={lower_bound})"
    return _Test(text, lambda value: lower_bound < value, lower_bound=lower_bound)


def greater_than_eq(lower_bound: Any) -> Constraint:
    """At a bound or above it."""
    text = f"GreaterThanEq(lower_bound={lower_bound})"
    return _Test(text, lambda value: lower_bound <= value, lower_bound=lower_bound)


def less_than(upper_bound: Any) -> Constraint:
    """Below a bound."""
    text = f"LessThan(upper_bound={upper_bound})"
    return _Test(text, lambda value: value < upper_bound, upper_bound=upper_bound)


def _at_least(low: int) -> Constraint:
    return _Test(
        f"IntegerGreaterThan(lower_bound={low})",
        lambda value: (value % 1 == 0) & (value >= low),
        is_discrete=True,
        lower_bound=low,
    )


def multinomial(upper_bound: Any) -> Constraint:
    """Counts on the right that add up to a bound at most."""
    return _Test(
        f"Multinomial(upper_bound={upper_bound})",
        lambda value: (value >= 0).all(dim=-1) & (value.sum(dim=-1) <= upper_bound),
        is_discrete=True,
        event_dim=1,
        upper_bound=upper_bound,
    )


class independent(Constraint):  # noqa: N801 - PyTorch's name
    """A constraint of which dimensions on the right count together."""

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        self.base_constraint = base_constraint
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        self.is_discrete = base_constraint.is_discrete
        self.event_dim = base_constraint.event_dim + reinterpreted_batch_ndims

    def check(self, value: Any) -> Any:
        """All of what counts together. Errors: ValueError for too few dimensions."""
        found = self.base_constraint.check(value)
        count = self.reinterpreted_batch_ndims
        if found.dim() < count:
            raise ValueError(f"Expected value.dim() >= {self.event_dim} but got {value.dim()}")
        return found.flatten(found.dim() - count).all(-1) if count else found

    def __repr__(self) -> str:
        return f"IndependentConstraint({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class cat(Constraint):  # noqa: N801 - PyTorch's name
    """Constraints of pieces along a dimension."""

    def __init__(self, cseq: Any, dim: int = 0, lengths: Any = None) -> None:
        self.cseq, self.dim = list(cseq), dim
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        self.is_discrete = any(part.is_discrete for part in self.cseq)
        self.event_dim = max(part.event_dim for part in self.cseq)

    def check(self, value: Any) -> Any:
        """Each piece by its own constraint."""
        parts = value.split(self.lengths, self.dim)
        return weft.cat(
            [one.check(part) for one, part in zip(self.cseq, parts, strict=True)], self.dim
        )


class stack(Constraint):  # noqa: N801 - PyTorch's name
    """Constraints of slices along a dimension."""

    def __init__(self, cseq: Any, dim: int = 0) -> None:
        self.cseq, self.dim = list(cseq), dim
        self.is_discrete = any(part.is_discrete for part in self.cseq)
        dim_of = max(part.event_dim for part in self.cseq)
        self.event_dim = dim_of + 1 if dim + dim_of < 0 else dim_of

    def check(self, value: Any) -> Any:
        """Each slice by its own constraint."""
        parts = value.unbind(self.dim)
        return weft.stack(
            [one.check(part) for one, part in zip(self.cseq, parts, strict=True)], self.dim
        )


class MixtureSameFamilyConstraint(Constraint):
    """What a mixture gives: the constraint of its components."""

    def __init__(self, base_constraint: Constraint) -> None:
        self.base_constraint = base_constraint
        self.is_discrete, self.event_dim = base_constraint.is_discrete, base_constraint.event_dim

    def check(self, value: Any) -> Any:
        """A value belongs to the mixture where all components could give it."""
        found = self.base_constraint.check(value.unsqueeze(-1 - self.event_dim))
        rest = value.dim() - self.event_dim
        return found.reshape((*found.shape[:rest], -1)).all(-1)


def _in_simplex(value: Tensor) -> Any:
    return (value >= 0).all(dim=-1) & ((value.sum(-1) - 1).abs() < 1e-6)


def _is_square(value: Tensor) -> Any:
    return weft.full(value.shape[:-2], value.shape[-2] == value.shape[-1], dtype=weft.bool)


def _is_symmetric(value: Tensor) -> Any:
    return _is_square(value) & ((value - value.mT).abs() <= 1e-6).all(-1).all(-1)


def _is_lower(value: Tensor) -> Any:
    return (value.tril() == value).flatten(-2).all(-1)


def _is_cholesky(value: Tensor) -> Any:
    return _is_lower(value) & (value.diagonal(0, -2, -1) > 0).all(-1)


def _is_corr_cholesky(value: Tensor) -> Any:
    allowed = 10 * weft.finfo(value.dtype).eps * value.shape[-1]
    rows = value.detach().square().sum(-1).sub(1).abs()
    return _is_cholesky(value) & (rows < allowed).all(-1)


def _is_definite(value: Tensor) -> Any:
    return _is_symmetric(value) & (_linalg.eigvalsh(value) > 0).all(-1)


def _is_semidefinite(value: Tensor) -> Any:
    return _is_symmetric(value) & (_linalg.eigvalsh(value) >= 0).all(-1)


dependent = _Dependent()
boolean = _Test("Boolean()", lambda value: (value == 0) | (value == 1), is_discrete=True)
one_hot = _Test(
    "OneHot()",
    lambda value: ((value == 0) | (value == 1)).all(-1) & (value.sum(-1) == 1),
    is_discrete=True,
    event_dim=1,
)
nonnegative_integer = _at_least(0)
positive_integer = _at_least(1)
real = _Test("Real()", lambda value: value == value)
real_vector = independent(real, 1)
positive = greater_than(0.0)
nonnegative = greater_than_eq(0.0)
unit_interval = interval(0.0, 1.0)
simplex = _Test("Simplex()", _in_simplex, event_dim=1)
square = _Test("Square()", _is_square, event_dim=2)
symmetric = _Test("Symmetric()", _is_symmetric, event_dim=2)
lower_triangular = _Test("LowerTriangular()", _is_lower, event_dim=2)
lower_cholesky = _Test("LowerCholesky()", _is_cholesky, event_dim=2)
corr_cholesky = _Test("CorrCholesky()", _is_corr_cholesky, event_dim=2)
positive_definite = _Test("PositiveDefinite()", _is_definite, event_dim=2)
positive_semidefinite = _Test("PositiveSemidefinite()", _is_semidefinite, event_dim=2)
