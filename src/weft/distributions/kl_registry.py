"""The registry of KL(p || q) formulas: `register_kl` adds one, `kl_divergence` takes that of the nearest pair of
types.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from weft.errors import ArgumentTypeError

if TYPE_CHECKING:
    from weft.distributions.distribution import Distribution


_Rule = Callable[[Any, Any], Any]
_KL_REGISTRY: dict[tuple[type, type], _Rule] = {}
_KNOWN: dict[tuple[type, type], _Rule] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[_Rule], _Rule]:
    """A decorator: the function gives KL(p || q) for distributions of these types and their subclasses.

    The pair that is nearest in both types is used.

    Args:
        type_p: the class of p.
        type_q: the class of q.

    Example:
        >>> import weft
        >>> from weft.distributions import Normal, kl_divergence, register_kl
        >>> class Wide(Normal): ...
        >>> @register_kl(Wide, Wide)
        ... def wide(p, q):
        ...     return weft.tensor(0.5)
        >>> kl_divergence(Wide(0.0, 1.0), Wide(0.0, 1.0))
        tensor(0.5000)
    """
    for kind in (type_p, type_q):
        if not isinstance(kind, type):
            raise ArgumentTypeError(
                f"Expected type_p to be a Distribution subclass but got {kind!r}",
                expected="a class",
                got=repr(kind)[:80],
                fix="pass the class, not an instance",
            )

    def register(function: _Rule) -> _Rule:
        _KL_REGISTRY[type_p, type_q] = function
        _KNOWN.clear()
        return function

    return register


def _rule(p: type, q: type) -> _Rule | None:
    found = _KNOWN.get((p, q))
    if found is None:
        candidates = [
            (p.__mro__.index(one) + q.__mro__.index(other), p.__mro__.index(one), function)
            for (one, other), function in _KL_REGISTRY.items()
            if one in p.__mro__ and other in q.__mro__
        ]
        if not candidates:
            return None
        found = _KNOWN[p, q] = min(candidates, key=lambda entry: entry[:2])[2]
    return found


def kl_divergence(p: Distribution, q: Distribution) -> Any:
    """KL(p || q) in nats, for a batch of pairs. Errors: NotImplementedError for a pair without a formula.

    Args:
        p: the distribution that is weighted by.
        q: the distribution that it is compared with.

    Example:
        >>> import weft
        >>> from weft.distributions import Normal, kl_divergence
        >>> kl_divergence(Normal(weft.tensor(0.0), 1.0), Normal(weft.tensor(1.0), 1.0))
        tensor(0.5000)
    """
    rule = _rule(type(p), type(q))
    if rule is None:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}"
        )
    return rule(p, q)
