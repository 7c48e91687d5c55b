"""Transforms: invertible functions with the logarithm of how much they stretch.

A transform maps the constraint `domain` to `codomain`; `.inv` is its inverse. With `cache_size=1` the last value and
its image are remembered, so that the inverse of what has just been computed is exact.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import weft
from weft import Tensor
from weft._typing import Shape
from weft.distributions import constraints
from weft.distributions.distribution import sum_rightmost
from weft.errors import ArgumentError

if TYPE_CHECKING:
    from weft.distributions.constraints import Constraint


class Transform:
    """An invertible function. Subclasses define `_call`, `_inverse`, `log_abs_det_jacobian`, `domain`, `codomain`."""

    bijective = False
    domain: Any
    codomain: Any

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ArgumentError(
                "cache_size must be 0 or 1", expected="0 or 1", got=repr(cache_size), fix="use 1"
            )
        self._cache_size = cache_size
        self._pair: tuple[Any, Any] = (None, None)
        self._inv: Any = None

    @property
    def inv(self) -> Any:
        """The inverse."""
        if self._inv is None:
            self._inv = _InverseTransform(self)
        return self._inv

    @property
    def sign(self) -> int:
        """1 where it rises, -1 where it falls. Errors: NotImplementedError where it does neither everywhere."""
        raise NotImplementedError

    def with_cache(self, cache_size: int = 1) -> Any:
        """The same transform with another cache.

        Args:
            cache_size: 1 to remember the last value and its image, 0 for none. Default: 1.
        """
        if self._cache_size == cache_size:
            return self
        made = type(self).__new__(type(self))
        made.__dict__.update(self.__dict__)
        made._cache_size, made._pair, made._inv = cache_size, (None, None), None
        return made

    def __eq__(self, other: object) -> bool:
        return self is other or (type(self) is type(other) and self._same(other))

    __hash__ = object.__hash__

    def _same(self, other: object) -> bool:
        return not self._own()

    def _own(self) -> list[str]:
        return [name for name in self.__dict__ if name not in ("_cache_size", "_pair", "_inv")]

    def __call__(self, x: Tensor) -> Any:
        if self._cache_size == 0:
            return self._call(x)
        if self._pair[0] is not x:
            self._pair = (x, self._call(x))
        return self._pair[1]

    def _inv_call(self, y: Tensor) -> Any:
        if self._cache_size == 0:
            return self._inverse(y)
        if self._pair[1] is not y:
            self._pair = (self._inverse(y), y)
        return self._pair[0]

    def _call(self, x: Tensor) -> Any:
        raise NotImplementedError

    def _inverse(self, y: Tensor) -> Any:
        raise NotImplementedError

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Any:
        """log |dy / dx|.

        Args:
            x: a value.
            y: its image.

        Example:
            >>> import weft
            >>> t = weft.distributions.ExpTransform()
            >>> x = weft.tensor([0.0, 1.0])
            >>> t.log_abs_det_jacobian(x, t(x))
            tensor([0., 1.])
        """
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def forward_shape(self, shape: Shape) -> Any:
        """The shape of the image of a value of a shape.

        Args:
            shape: the shape of a value.
        """
        return shape

    def inverse_shape(self, shape: Shape) -> Any:
        """The shape of the value whose image has a shape.

        Args:
            shape: the shape of an image.
        """
        return shape


class _InverseTransform(Transform):
    """The inverse of a transform."""

    def __init__(self, transform: Transform) -> None:
        super().__init__(transform._cache_size)
        self._inv: Any = transform

    bijective = property(lambda self: self._inv.bijective)  # type: ignore[assignment]
    domain = property(lambda self: self._inv.codomain)
    codomain = property(lambda self: self._inv.domain)
    sign = property(lambda self: self._inv.sign)

    def with_cache(self, cache_size: int = 1) -> Any:
        """The same transform with another cache."""
        return self._inv.with_cache(cache_size).inv

    def _same(self, other: Any) -> bool:
        return bool(self._inv == other._inv)

    def __call__(self, x: Tensor) -> Any:
        return self._inv._inv_call(x)

    def _inv_call(self, y: Tensor) -> Any:
        return self._inv(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Any:
        """log |dy / dx|."""
        return -self._inv.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Shape) -> Any:
        """The shape of the image."""
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape: Shape) -> Any:
        """The shape of the value."""
        return self._inv.forward_shape(shape)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._inv!r})"


class ComposeTransform(Transform):
    """One after the other."""

    def __init__(self, parts: list[Transform], cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.parts = [part.with_cache(cache_size) for part in parts] if cache_size else list(parts)

    def _same(self, other: Any) -> bool:
        return bool(self.parts == other.parts)

    @property
    def inv(self) -> Any:
        """The inverses of the parts, the last one first."""
        if self._inv is None:
            self._inv = ComposeTransform([part.inv for part in reversed(self.parts)])
            self._inv._inv = self
        return self._inv

    def with_cache(self, cache_size: int = 1) -> Any:
        return self if self._cache_size == cache_size else ComposeTransform(self.parts, cache_size)

    @property
    def domain(self) -> Any:
        """The first part's, with the dimensions that later parts need."""
        if not self.parts:
            return constraints.real
        need = self.parts[-1].codomain.event_dim
        for part in reversed(self.parts):
            need = max(
                need + part.domain.event_dim - part.codomain.event_dim, part.domain.event_dim
            )
        return _widened(self.parts[0].domain, need)

    @property
    def codomain(self) -> Any:
        """The last part's, with the dimensions that earlier parts give."""
        if not self.parts:
            return constraints.real
        have = self.parts[0].domain.event_dim
        for part in self.parts:
            have += part.codomain.event_dim - part.domain.event_dim
            have = max(have, part.codomain.event_dim)
        return _widened(self.parts[-1].codomain, have)

    @property
    def bijective(self) -> Any:  # type: ignore[override]
        """True if all parts are bijective."""
        return all(part.bijective for part in self.parts)

    @property
    def sign(self) -> int:
        """The product of the signs."""
        return math.prod(part.sign for part in self.parts)

    def __call__(self, x: Tensor) -> Any:
        for part in self.parts:
            x = part(x)
        return x

    def _inv_call(self, y: Tensor) -> Any:
        for part in reversed(self.parts):
            y = part._inv_call(y)
        return y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Any:
        """log |dy / dx|: the sum of the parts'.

        Args:
            x: a value.
            y: its image.
        """
        if not self.parts:
            return weft.zeros_like(x)
        values = [x]
        for part in self.parts[:-1]:
            values.append(part(values[-1]))
        values.append(y)
        terms, dims = [], self.domain.event_dim
        for part, before, after in zip(self.parts, values[:-1], values[1:], strict=True):
            extra = dims - part.domain.event_dim
            terms.append(sum_rightmost(part.log_abs_det_jacobian(before, after), extra))
            dims += part.codomain.event_dim - part.domain.event_dim
        return sum(terms[1:], terms[0])

    def forward_shape(self, shape: Shape) -> Any:
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape: Shape) -> Any:
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __repr__(self) -> str:
        parts = ",\n    ".join(map(repr, self.parts))
        return f"{type(self).__name__}(\n    {parts}\n)"


def _widened(constraint: Constraint, dims: int) -> Any:
    more = dims - constraint.event_dim
    return constraints.independent(constraint, more) if more > 0 else constraint


class IndependentTransform(Transform):
    """A transform of which dimensions on the right count together."""

    def __init__(
        self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0
    ) -> None:
        super().__init__(cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    bijective = property(lambda self: self.base_transform.bijective)  # type: ignore[assignment]
    sign = property(lambda self: self.base_transform.sign)  # type: ignore[assignment]

    @property
    def domain(self) -> Any:
        """The base's, over more dimensions."""
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @property
    def codomain(self) -> Any:
        """The base's, over more dimensions."""
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    def _same(self, other: Any) -> bool:
        return (
            self.base_transform == other.base_transform
            and self.reinterpreted_batch_ndims == other.reinterpreted_batch_ndims
        )

    def _call(self, x: Tensor) -> Any:
        return self.base_transform(x)

    def _inverse(self, y: Tensor) -> Any:
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Any:
        """log |dy / dx|: the base's, added up.

        Args:
            x: a value.
            y: its image.
        """
        found = self.base_transform.log_abs_det_jacobian(x, y)
        return sum_rightmost(found, self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_transform!r}, {self.reinterpreted_batch_ndims})"


class ReshapeTransform(Transform):
    """Another shape of the last dimensions."""

    bijective = True

    def __init__(self, in_shape: Shape, out_shape: Shape, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.in_shape, self.out_shape = weft.Size(in_shape), weft.Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ArgumentError(
                "in_shape, out_shape have different numbers of elements",
                expected="shapes of as many elements",
                got=f"{list(self.in_shape)} and {list(self.out_shape)}",
                fix="check the shapes",
            )

    @property
    def domain(self) -> Any:
        """Real values of the first shape."""
        return constraints.independent(constraints.real, len(self.in_shape))

    @property
    def codomain(self) -> Any:
        """Real values of the second shape."""
        return constraints.independent(constraints.real, len(self.out_shape))

    def _same(self, other: Any) -> bool:
        return bool((self.in_shape, self.out_shape) == (other.in_shape, other.out_shape))

    def _call(self, x: Tensor) -> Any:
        return x.reshape((*x.shape[: x.dim() - len(self.in_shape)], *self.out_shape))

    def _inverse(self, y: Tensor) -> Any:
        return y.reshape((*y.shape[: y.dim() - len(self.out_shape)], *self.in_shape))

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Any:
        """log |dy / dx|: zero.

        Args:
            x: a value.
            y: its image.
        """
        return x.new_zeros(x.shape[: x.dim() - len(self.in_shape)])

    def forward_shape(self, shape: Shape) -> Any:
        """The shape of the image.

        Args:
            shape: the shape of a value.

        Raises:
            ValueError where the shape does not end in `in_shape`.
        """
        return _with_end(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Shape) -> Any:
        """The shape of the value.

        Args:
            shape: the shape of an image.

        Raises:
            ValueError where the shape does not end in `out_shape`.
        """
        return _with_end(shape, self.out_shape, self.in_shape)


def _with_end(shape: Shape, end: Shape, other: Shape) -> Any:
    """A shape with another end. Errors: ValueError where it ends otherwise."""
    cut = len(shape) - len(end)
    if cut < 0 or tuple(shape[cut:]) != tuple(end):
        raise ArgumentError(
            "Too few dimensions on input"
            if cut < 0
            else f"Shape mismatch: expected {tuple(shape[cut:])} but got {tuple(end)}",
            expected=f"a shape that ends in {list(end)}",
            got=str(list(shape)),
            fix="check the shapes of the transform",
        )
    return weft.Size((*shape[:cut], *other))


class _Rising(Transform):
    """A transform of real numbers that rises everywhere."""

    bijective = True
    sign = 1  # type: ignore[assignment]
    domain = constraints.real


class ExpTransform(_Rising):
    """y = exp(x)."""

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Any:
        return x.exp()

    def _inverse(self, y: Tensor) -> Any:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Any:
        """log |dy / dx|: x.

        Args:
            x: a value.
            y: its image.
        """
        return x


class PowerTransform(Transform):
    """y = x ** exponent."""

    bijective = True
    domain = codomain = constraints.positive

    def __init__(self, exponent: Tensor | float, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.exponent = exponent if isinstance(exponent, Tensor) else weft.tensor(float(exponent))

    @property
    def sign(self) -> Any:
        """That of the exponent."""
        return self.exponent.sign()

    def _same(self, other: Any) -> bool:
        return bool((self.exponent == other.exponent).all())

    def _call(self, x: Tensor) -> Any:
        return x.pow(self.exponent)

    def _inverse(self, y: Tensor) -> Any:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Any:
        """log |dy / dx|: log |exponent * y / x|.

        Args:
            x: a value.
            y: its image.
        """
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: Shape) -> Any:
        return weft.broadcast_shapes(shape, self.exponent.shape)

    inverse_shape = forward_shape


def _clipped_sigmoid(x: Tensor) -> Any:
    """The sigmoid, kept off 0 and 1."""
    limits = weft.finfo(x.dtype)
    return x.sigmoid().clamp(min=limits.tiny, max=1.0 - limits.eps)


class SigmoidTransform(_Rising):
    """y = 1 / (1 + exp(-x))."""

    codomain = constraints.unit_interval

    def _call(self, x: Tensor) -> Any:
        return _clipped_sigmoid(x)

    def _inverse(self, y: Tensor) -> Any:
        limits = weft.finfo(y.dtype)
        y = y.clamp(min=limits.tiny, max=1.0 - limits.eps)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Any:
        """log |dy / dx|: -softplus(-x) - softplus(x).

        Args:
            x: a value.
            y: its image.
        """
        softplus = weft.nn.functional.softplus
        return -softplus(-x) - softplus(x)


class SoftplusTransform(_Rising):
    """y = log(1 + exp(x))."""

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Any:
        return weft.nn.functional.softplus(x)

    def _inverse(self, y: Tensor) -> Any:
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Any:
        """log |dy / dx|: -softplus(-x).

        Args:
            x: a value.
            y: its image.
        """
        return -weft.nn.functional.softplus(-x)


class TanhTransform(_Rising):
    """y = tanh(x)."""

    codomain = constraints.interval(-1.0, 1.0)

    def _call(self, x: Tensor) -> Any:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Any:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Any:
        """log |dy / dx|: log(1 - tanh(x) ** 2), without cancellation.

        Args:
            x: a value.
            y: its image.
        """
        return 2.0 * (math.log(2.0) - x - weft.nn.functional.softplus(-2.0 * x))


class AbsTransform(Transform):
    """y = |x|; the inverse gives the positive one."""

    domain, codomain = constraints.real, constraints.positive

    def _call(self, x: Tensor) -> Any:
        return x.abs()

    def _inverse(self, y: Tensor) -> Any:
        return y


class AffineTransform(Transform):
    """y = loc + scale * x."""

    bijective = True

    def __init__(
        self, loc: Tensor | float, scale: Tensor | float, event_dim: int = 0, cache_size: int = 0
    ) -> None:
        super().__init__(cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim

    @property
    def event_dim(self) -> int:
        """The number of dimensions of one value."""
        return self._event_dim

    @property
    def domain(self) -> Any:
        """Real values."""
        return _widened(constraints.real, self._event_dim)

    codomain = domain

    @property
    def sign(self) -> Any:
        """That of the scale."""
        if isinstance(self.scale, Tensor):
            return self.scale.sign()
        return (self.scale > 0) - (self.scale < 0)

    def _same(self, other: Any) -> bool:
        pairs = ((self.loc, other.loc), (self.scale, other.scale))
        return all(bool(weft.as_tensor(a == b).all()) for a, b in pairs)

    def _call(self, x: Tensor) -> Any:
        return self.loc + self.scale * x

    def _inverse(self, y: Tensor) -> Any:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Any:
        """log |dy / dx|: log |scale|.

        Args:
            x: a value.
            y: its image.
        """
        if isinstance(self.scale, Tensor):
            found = (self.scale.abs().log() + weft.zeros_like(x)).expand(x.shape)
        else:
            found = weft.full_like(x, math.log(abs(self.scale)))
        return sum_rightmost(found, self._event_dim)

    def forward_shape(self, shape: Shape) -> Any:
        shapes = [getattr(value, "shape", ()) for value in (self.loc, self.scale)]
        return weft.broadcast_shapes(shape, *shapes)

    inverse_shape = forward_shape
