"""The base of all distributions: shapes, expansion, the checks of parameters and values."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import weft
from weft import Tensor
from weft._build.lazy import later
from weft.distributions import constraints
from weft.engine.api.deprecation import warn_deprecated
from weft.errors import ArgumentError, KindError, NotDefinedError

Shape = Any
linalg: Any = later("weft.linalg")
special: Any = later("weft.special")


class lazy_property:  # noqa: N801 - reads as `property`
    """A value that is computed when it is first asked for, and kept.

    Args:
        function: the method that computes the value once.

    Example:
        >>> from weft.distributions.utils import lazy_property
        >>> class Square:
        ...     @lazy_property
        ...     def area(self):
        ...         print("computed")
        ...         return 9
        >>> one = Square()
        >>> one.area + one.area
        computed
        18
    """

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function
        self.name = function.__name__
        self.__doc__ = function.__doc__

    def __get__(self, instance: Distribution | None, owner: type | None = None) -> Any:
        if instance is None:
            return self
        with weft.enable_grad():
            value = self.function(instance)
        instance.__dict__[self.name] = value
        return value


def _is_derived(kind: type, name: str) -> bool:
    """True if a parameter is computed from others when it is first asked for."""
    return isinstance(getattr(kind, name, None), lazy_property)


def broadcast_all(*values: object) -> list[Any]:
    """Numbers and tensors as tensors of one shape; numbers take the type of the tensors.

    Args:
        *values: numbers or tensors.

    Example:
        >>> import weft
        >>> weft.distributions.utils.broadcast_all(weft.zeros(2), 1.0)
        [tensor([0., 0.]), tensor([1., 1.])]
    """
    tensors = [value for value in values if isinstance(value, Tensor)]
    dtype = tensors[0].dtype if tensors else weft.get_default_dtype()
    made = []
    for value in values:
        if not isinstance(value, Tensor | int | float):
            raise KindError(
                "Input arguments must all be instances of Number, torch.Tensor or objects "
                "implementing __torch_function__.",
                expected="numbers or tensors",
                got=repr(value)[:80],
                fix="pass weft.tensor(value)",
            )
        made.append(value if isinstance(value, Tensor) else weft.tensor(value, dtype=dtype))
    return list(weft.broadcast_tensors(*made))


def sum_rightmost(value: Tensor, count: int) -> Any:
    """A sum over the last `count` dimensions."""
    return value.flatten(value.dim() - count).sum(-1) if count else value


def clamp_probs(probs: Tensor) -> Tensor:
    """Probabilities kept off 0 and 1, so that their logarithms are finite.

    Args:
        probs: probabilities.

    Example:
        >>> import weft
        >>> weft.distributions.utils.clamp_probs(weft.tensor([0.0, 0.5])).log().isfinite()
        tensor([True, True])
    """
    eps = weft.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def as_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Log odds, or log probabilities."""
    kept = clamp_probs(probs)
    return kept.log() - (-kept).log1p() if is_binary else kept.log()


class Distribution:
    """A distribution over values of shape `event_shape`, `batch_shape` of them side by side.

    Parameters and values are checked (which reads them) unless `validate_args=False`, or
    `Distribution.set_default_validate_args(False)`. Errors: ValueError for a value outside its constraint.
    """

    has_rsample = False
    has_enumerate_support = False
    _validate_args = __debug__
    arg_constraints: Any = {}

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Set whether distributions check their arguments by default.

        Args:
            value: True or False.
        """
        if value not in (True, False):
            raise ArgumentError(
                "set_default_validate_args takes True or False",
                expected="True or False",
                got=repr(value),
                fix="pass one of them",
            )
        Distribution._validate_args = value

    def __init__(
        self,
        batch_shape: Shape = (),
        event_shape: Shape = (),
        validate_args: bool | None = None,
    ) -> None:
        self._batch_shape, self._event_shape = weft.Size(batch_shape), weft.Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            for name in self.arg_constraints:
                if name in self.__dict__ or not _is_derived(type(self), name):
                    self._check_parameter(name)

    def _held_names(self) -> list[str]:
        """The names of the parameters that this instance holds; those that are computed of others when first asked
        for do not count."""
        return [name for name in self.arg_constraints if name in self.__dict__]

    def _check_parameter(self, name: str) -> None:
        constraint, value = self.arg_constraints[name], getattr(self, name)
        if constraints.is_dependent(constraint) or not isinstance(value, Tensor):
            return
        if not bool(constraint.check(value).all()):
            raise ArgumentError(
                f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of "
                f"distribution {self!r} to satisfy the constraint {constraint!r}, but found invalid "
                f"values:\n{value}",
                expected=f"{name} that satisfies {constraint!r}",
                got="values outside",
                fix="see how the parameter is computed",
            )

    def expand(self, batch_shape: Shape, _instance: Distribution | None = None) -> Any:
        """The same distribution with a larger batch.

        Args:
            batch_shape: the shape of the batch of the result, to which that of this one is
                broadcast.

        Example:
            >>> import weft
            >>> weft.distributions.Normal(0.0, 1.0).expand((2, 3)).sample().shape
            weft.Size([2, 3])
        """
        return self._expanded(batch_shape, _instance)

    def _expanded(
        self, batch_shape: Shape, instance: Distribution | None = None, more: tuple[str, ...] = ()
    ) -> Any:
        """A copy whose parameters, and what else is named, have another batch shape."""
        made = type(self).__new__(type(self)) if instance is None else instance
        batch_shape = weft.Size(batch_shape)
        made.__dict__.update(
            {key: value for key, value in self.__dict__.items() if not key.startswith("_cached")}
        )
        rank = len(self._batch_shape)
        for name in (*self._held_names(), *more):
            value = self.__dict__[name]
            if isinstance(value, Tensor):
                made.__dict__[name] = value.expand((*batch_shape, *value.shape[rank:]))
        made._batch_shape = batch_shape
        made._validate_args = False
        made._validate_args = self._validate_args
        return made

    @property
    def batch_shape(self) -> Any:
        """The shape of the parameters."""
        return self._batch_shape

    @property
    def event_shape(self) -> Any:
        """The shape of one value."""
        return self._event_shape

    def _missing(self, what: str) -> Any:
        raise NotDefinedError(
            f"{type(self).__name__} has no {what}",
            expected=f"a distribution with {what}",
            got=type(self).__name__,
            fix=f"estimate it from samples, or define {what} in the subclass",
        )

    @property
    def support(self) -> Any:
        """The constraint of its values."""
        return self._missing("support")

    @property
    def mean(self) -> Any:
        """The mean."""
        return self._missing("mean")

    @property
    def mode(self) -> Any:
        """The most probable value."""
        return self._missing("mode")

    @property
    def variance(self) -> Any:
        """The variance."""
        return self._missing("variance")

    @property
    def stddev(self) -> Any:
        """The root of the variance."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Values of shape sample_shape + batch_shape + event_shape, without gradient.

        Args:
            sample_shape: how many values are drawn, as a shape before that of the batch; (): one.

        Example:
            >>> import weft
            >>> weft.distributions.Categorical(weft.tensor([0.0, 1.0])).sample((3,))
            tensor([1, 1, 1])
        """
        with weft.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Values with gradients to the parameters.

        Args:
            sample_shape: how many values are drawn, as a shape before that of the batch; (): one.

        Example:
            >>> import weft
            >>> mean = weft.tensor(1.0, requires_grad=True)
            >>> weft.distributions.Normal(mean, 1.0).rsample().backward()  # gradients go through the draw
            >>> mean.grad
            tensor(1.)
        """
        return self._missing("rsample")

    def sample_n(self, n: int) -> Any:
        """`sample((n,))`; deprecated.

        Args:
            n: how many values are drawn.
        """
        warn_deprecated("`sample_n(n)` will be deprecated. Use `sample((n,))` instead.")
        return self.sample((n,))

    def log_prob(self, value: Tensor) -> Any:
        """The logarithm of the density, or of the probability.

        Args:
            value: values, broadcast with batch_shape + event_shape.

        Example:
            >>> import weft
            >>> weft.distributions.Normal(0.0, 1.0).log_prob(weft.tensor([0.0, 1.0]))
            tensor([-0.9189, -1.4189])
        """
        return self._missing("log_prob")

    def cdf(self, value: Tensor) -> Any:
        """The probability of values up to this one.

        Args:
            value: values, broadcast with batch_shape.

        Example:
            >>> import weft
            >>> weft.distributions.Uniform(0.0, 2.0).cdf(weft.tensor([0.5, 1.0]))
            tensor([0.2500, 0.5000])
        """
        return self._missing("cdf")

    def icdf(self, value: Tensor) -> Any:
        """The quantile: the value below which the given probability lies.

        Args:
            value: probabilities.

        Example:
            >>> import weft
            >>> weft.distributions.Uniform(0.0, 2.0).icdf(weft.tensor([0.25, 0.5]))
            tensor([0.5000, 1.0000])
        """
        return self._missing("icdf")

    def enumerate_support(self, expand: bool = True) -> Any:
        """All values, along a new first dimension.

        Args:
            expand: True: repeat them for each distribution of the batch; False: the batch has
                size 1. Default: True.

        Example:
            >>> import weft
            >>> weft.distributions.Categorical(weft.tensor([0.2, 0.3, 0.5])).enumerate_support()
            tensor([0, 1, 2])
        """
        return self._missing("enumerate_support")

    def entropy(self) -> Any:
        """The entropy in nats.

        Example:
            >>> import weft
            >>> weft.distributions.Categorical(weft.tensor([0.5, 0.5])).entropy()  # log 2
            tensor(0.6931)
        """
        return self._missing("entropy")

    def perplexity(self) -> Any:
        """The exponential of the entropy.

        Example:
            >>> import weft
            >>> weft.distributions.Categorical(weft.tensor([0.25, 0.25, 0.25, 0.25])).perplexity()
            tensor(4.)
        """
        return self.entropy().exp()

    def _get_checked_instance(self, cls: Any, _instance: Distribution | None = None) -> Any:
        """An empty instance for `expand` to fill. Errors: NotImplementedError in a subclass whose constructor is its
        own, as what it takes is not known."""
        if _instance is None and type(self).__init__ != cls.__init__:
            raise NotDefinedError(
                f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom __init__ "
                "method must also define a custom .expand() method.",
                expected=f"expand() in {type(self).__name__}",
                got="a constructor of its own, and none",
                fix="define expand(batch_shape, _instance=None) in the subclass",
            )
        return self.__new__(type(self)) if _instance is None else _instance

    def _extended_shape(self, sample_shape: Sequence[int] = ()) -> Any:
        return weft.Size((*sample_shape, *self._batch_shape, *self._event_shape))

    def _validated(self, value: object) -> None:
        """`_validate_sample`, where arguments are checked."""
        if self._validate_args:
            self._validate_sample(value)

    def _validate_sample(self, value: object) -> None:
        """Errors: ValueError for anything but a tensor of a fitting shape within the support."""
        if not isinstance(value, Tensor):
            raise ArgumentError(
                "The value argument to log_prob must be a Tensor",
                expected="a tensor",
                got=type(value).__name__,
                fix="pass weft.tensor(value)",
            )
        rank = len(self._event_shape)
        if tuple(value.shape[value.dim() - rank :]) != tuple(self._event_shape):
            raise ArgumentError(
                "The right-most size of value must match event_shape: "
                f"{value.size()} vs {self._event_shape}.",
                expected=f"values of shape (..., {', '.join(map(str, self._event_shape))})",
                got=str(list(value.shape)),
                fix="reshape the value",
            )
        whole = self._extended_shape()
        for mine, theirs in zip(reversed(value.shape), reversed(whole), strict=False):
            if mine != 1 and theirs != 1 and mine != theirs:
                raise ArgumentError(
                    "Value is not broadcastable with batch_shape+event_shape: "
                    f"{value.size()} vs {whole}.",
                    expected=f"a value that broadcasts with {list(whole)}",
                    got=str(list(value.shape)),
                    fix="reshape the value",
                )
        try:
            support = self.support
        except NotImplementedError:
            return
        if not bool(support.check(value).all()):
            raise ArgumentError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) to be "
                f"within the support ({support!r}) of the distribution {self!r}, but found invalid "
                f"values:\n{value}",
                expected=f"values that satisfy {support!r}",
                got="values outside",
                fix="pass validate_args=False to have them evaluated all the same",
            )

    def __repr__(self) -> str:
        parts = []
        for name in self._held_names():
            value = self.__dict__[name]
            small = not isinstance(value, Tensor) or value.numel() == 1
            parts.append(f"{name}: {value if small else value.size()}")
        return f"{type(self).__name__}({', '.join(parts)})"


class ExponentialFamily(Distribution):
    """Distributions whose log density is linear in sufficient statistics."""


EULER = 0.57721566490153286060
LOG_SQRT_TAU = 0.5 * math.log(2 * math.pi)
