"""`_foreach_add` and its kin: a method of every tensor of a list, which optimizers and averages of other projects
call.

They take a list of tensors, and other arguments: a list (or a tensor of one dimension) has a value for each tensor,
any other value is for all. They return a tuple of results; a function whose name ends in `_` changes the tensors and
returns the list. What is recorded together runs together, so this is no faster than a loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft.engine.frontend.tensor import Tensor
from weft.engine.ir.dtype import DType
from weft.errors import ArgumentError

# Both `_foreach_NAME` and `_foreach_NAME_`; then those of one form.
_BOTH = (
    "abs acos add addcdiv addcmul asin atan ceil clamp_max clamp_min cos cosh div erf erfc exp expm1 floor frac lerp "
    "lgamma log log10 log1p log2 maximum minimum mul neg pow reciprocal round rsqrt sigmoid sign sin sinh sqrt sub "
    "tan tanh trunc"
)
_OUTSIDE, _INSIDE = "clone max mm norm", "copy zero"
# Methods of other names, and what is a keyword of the method but has a place here.
_METHODS = {"maximum": "clamp_min", "minimum": "clamp_max"}
_PLACES = {"addcmul": (2, "value"), "addcdiv": (2, "value"), "norm": (1, "dtype")}
# Keywords of the lists' functions, by those of the method: PyTorch has one for each kind of argument.
_KEYWORDS = {"scalars": "value", "ord": "p", "tensors1": "end", "weights": "weight"}
# Of functions of two operands: where it is the second one.
_OPERANDS = ("other", "scalar", "scalars", "exponent")


def _each(name: str, count: int, value: object) -> list[Any]:
    """One argument for each of `count` tensors. Errors: RuntimeError where a list has another length."""
    if isinstance(value, Tensor) and value.dim() == 1 and value.numel() > 1:
        value = value.unbind()
    if not isinstance(value, list | tuple):
        return [value] * count
    if len(value) != count:
        raise ArgumentError(
            f"{name}: Tensor lists must have the same number of tensors, got {count} and {len(value)}"
            if len(value)
            else "Tensor list must have same number of elements as scalar list.",
            expected=f"{count} entries",
            got=f"{len(value)} entries",
            fix="pass lists of one length",
        )
    return list(value)


def _need_one(tensors: Sequence[Tensor]) -> None:
    if not tensors:
        raise ArgumentError(
            "Tensor list must have at least one tensor.",
            expected="tensors",
            got="an empty list",
            fix="leave the call out where there is nothing to do",
        )


def _of_every(name: str, form: str) -> Callable[..., Any]:
    """`_foreach_NAME` (form "") or `_foreach_NAME_` (form "_")."""
    called = f"_foreach_{name}{form}"
    method = _METHODS.get(name, name) + form
    place, keyword = _PLACES.get(name, (None, ""))

    def foreach(
        tensors: list[Tensor], *others: Tensor | float | list[Tensor | float], **options: object
    ) -> Any:
        _need_one(tensors)
        if place is not None and len(others) > place:
            others, options = others[:place], {keyword: others[place], **options}
        if place is None and not others:
            by_name: Any = [options.pop(key) for key in _OPERANDS if key in options]
            others = tuple(by_name)
        options = {_KEYWORDS.get(key, key): value for key, value in options.items()}
        columns = [_each(called, len(tensors), other) for other in others]
        named = {key: _each(called, len(tensors), value) for key, value in options.items()}
        results = tuple(
            getattr(tensor, method)(
                *(column[row] for column in columns),
                **{key: column[row] for key, column in named.items()},
            )
            for row, tensor in enumerate(tensors)
        )
        return tensors if form else results

    foreach.__name__ = foreach.__qualname__ = called
    foreach.__doc__ = f"`{method}` of every tensor of a list."
    return foreach


def _with_numbers(powers: Callable[..., Tensor]) -> Callable[..., Any]:
    """`_foreach_pow`, which takes a number to the power of each tensor of a list too."""

    def _foreach_pow(base: float | list[Tensor], exponent: Any) -> tuple[Any, ...]:
        """Powers: of every tensor of a list, or of one number by every tensor of a list."""
        if isinstance(base, list | tuple):
            return tuple(powers(base, exponent))
        return tuple(base**tensor for tensor in exponent)

    return _foreach_pow


FOREACH = {
    f"_foreach_{name}{form}": _of_every(name, form)
    for names, forms in ((_BOTH, ("", "_")), (_OUTSIDE, ("",)), (_INSIDE, ("_",)))
    for name in names.split()
    for form in forms
}


def _foreach_powsum(
    self: Sequence[Tensor],
    ord: float = 2,  # noqa: A002
    dtype: DType | None = None,
) -> tuple[Any, ...]:
    """The sum of |x| to the power `ord` over the elements x of each tensor of a list."""
    return tuple(tensor.abs().pow(ord).sum(dtype=dtype) for tensor in self)


FOREACH["_foreach_powsum"] = _foreach_powsum
FOREACH["_foreach_pow"] = _with_numbers(FOREACH["_foreach_pow"])
globals().update(FOREACH)
