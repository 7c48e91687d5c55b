# ruff: noqa: A001, A002 - PyTorch's names
"""Reductions and normalisations over the elements where a mask holds, under PyTorch's `masked` names.

An element where the mask does not hold counts as the neutral one of the function; a slice without any gives that, or
nan for means.
"""

from __future__ import annotations

import math
from typing import Any

import weft as _weft
from weft._build.lazy import export_later as _export_later
from weft._typing import Dims
from weft.engine.api.api_function import publish as _publish
from weft.engine.frontend.recorder import cast as _cast
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir import dtype as _dtypes
from weft.engine.ir.dtype import DType
from weft.errors import ArgumentError, DTypeError, NotDefinedError
from weft.functional.elementwise.binary import NO_DIFFERENCE_OF_BOOL as _NO_DIFFERENCE_OF_BOOL
from weft.functional.linalg.norms import vector_norm as _vector_norm
from weft.tensor.arguments import describe as _describe
from weft.tensor.arguments import no_kernel as _no_kernel


def _prepared(input: Tensor, dtype: DType | None, mask: Tensor | None, neutral: float) -> Any:
    """The input in a type, with the neutral element where the mask does not hold; a mask of numbers holds where they
    are not zero."""
    x = input if dtype is None else _cast(input, dtype)
    return x if mask is None else _weft.where(_cast(mask, _dtypes.bool_), x, neutral)


def _from_edge(
    name: str, input: Tensor, dtype: DType | None, mask: Tensor | None, largest: bool
) -> Any:
    """The input in a type, with its largest or its smallest number where the mask does not hold."""
    x = input if dtype is None else _cast(input, dtype)
    if mask is None:
        return x
    if x.dtype is _dtypes.bool_:
        raise NotDefinedError(
            f"identity of {name} on torch.bool input",
            expected="numbers, which have a largest and a smallest one",
            got="an input of bool, with a mask",
            fix="pass dtype=weft.uint8",
        )
    return _prepared(x, None, mask, _edge(x.dtype, largest))


def _inexact(name: str, input: Tensor, dtype: DType | None) -> DType:
    """The type that a mean is computed in. Errors: ArgumentError for integers."""
    wanted = input.dtype if dtype is None else dtype
    if wanted.category < 2:
        raise ArgumentError(
            f"{name}(): Could not infer output dtype. Input dtype must be either a floating point or complex dtype. "
            f"Got: {wanted!r}",
            expected="an input of floating-point or complex numbers, or such a dtype=",
            got=wanted.name,
            fix="pass dtype=weft.float32",
        )
    return wanted


def _dims(x: Tensor, dim: Dims) -> Any:
    """All dimensions for None; a tuple."""
    if dim is None or (isinstance(dim, (tuple, list)) and not dim):
        return tuple(range(len(x.shape)))
    return tuple(dim) if isinstance(dim, (tuple, list)) else (dim,)


def _whole(x: Tensor) -> Any:
    """The dtype of sums: int64 for integers."""
    return _dtypes.int64 if x.dtype.category < 2 else x.dtype


def sum(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Any:
    """The sum."""
    kind = _whole(input) if dtype is None else dtype
    x = _prepared(input, kind, mask, 0)
    return x.sum(_dims(x, dim), keepdim=keepdim) if x.shape else _weft.clone(x)


def prod(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Any:
    """The product."""
    kind = _whole(input) if dtype is None else dtype
    x = _prepared(input, kind, mask, 1)
    for axis in sorted((d % max(len(x.shape), 1) for d in _dims(x, dim)), reverse=True):
        x = x.prod(axis, keepdim=True) if x.shape else x
    if keepdim or not x.shape:
        return x
    return x.squeeze(_dims(x, dim))


def _running(name: str, neutral: int) -> Any:
    def function(
        input: Tensor, dim: int, *, dtype: DType | None = None, mask: Tensor | None = None
    ) -> Any:
        kind = input.dtype if dtype is None else dtype
        if kind is _dtypes.bool_:
            raise _no_kernel(f"{name}_out_cpu", _cast(input, kind), "numbers", ".long()")
        return _cast(getattr(_prepared(input, kind, mask, neutral), name)(dim), kind)

    function.__name__, function.__doc__ = name, f"`{name}`, skipping elements."
    return function


cumsum, cumprod = _running("cumsum", 0), _running("cumprod", 1)


def _edge(dtype: DType, largest: bool) -> Any:
    """The largest or smallest number of a type."""
    if dtype.category > 1:
        return math.inf if largest else -math.inf
    info = _weft.iinfo(dtype)
    return info.max if largest else info.min


def _extreme(name: str, largest: bool, text: str) -> Any:
    def function(
        input: Tensor,
        dim: Dims = None,
        *,
        keepdim: bool = False,
        dtype: DType | None = None,
        mask: Tensor | None = None,
    ) -> Any:
        x = _from_edge(name, input, dtype, mask, not largest)
        return getattr(x, name)(_dims(x, dim), keepdim=keepdim) if x.shape else _weft.clone(x)

    function.__name__, function.__doc__ = name, text
    return function


def _position(name: str, largest: bool, text: str) -> Any:
    def function(
        input: Tensor,
        dim: int | None = None,
        *,
        keepdim: bool = False,
        dtype: DType | None = None,
        mask: Tensor | None = None,
    ) -> Any:
        x = _from_edge(name, input, dtype, mask, not largest)
        return _cast(getattr(_weft, name)(x, dim, keepdim), x.dtype)

    function.__name__, function.__doc__ = name, text
    return function


amax = _extreme("amax", True, "The largest element.")
amin = _extreme("amin", False, "The smallest element.")
argmax = _position(
    "argmax", True, "The position of the largest element, in the dtype of the input as in PyTorch."
)
argmin = _position(
    "argmin",
    False,
    "The position of the smallest element, in the dtype of the input as in PyTorch.",
)


def _count(x: Tensor, dim: Dims, mask: Tensor | None) -> Any:
    """The number of unmasked elements, dimensions kept."""
    ones = _weft.ones_like(x, dtype=_dtypes.int64)
    held = _prepared(ones, None, mask, 0)
    return held.sum(_dims(x, dim), keepdim=True) if x.shape else held


def _mean_dtype(x: Tensor) -> DType:
    return _dtypes.float32 if x.dtype.category < 2 else x.dtype


def _dropped(x: Tensor, dim: Dims, keepdim: bool) -> Any:
    return x if keepdim or not x.shape else x.squeeze(_dims(x, dim))


def mean(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Any:
    """The mean; nan where nothing counts."""
    kind = _inexact("mean", input, dtype)
    total = sum(input, dim, keepdim=True, dtype=kind, mask=mask)
    return _dropped(total / _count(input, dim, mask), dim, keepdim)


def median(
    input: Tensor,
    dim: int = -1,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Any:
    """The lower median; nan where nothing counts. Integers, and truth values, have one of their own."""
    kind = dtype or input.dtype
    wide = _dtypes.float64 if kind.category < 2 else kind
    return _cast(_weft.nanmedian(_prepared(input, wide, mask, math.nan), dim, keepdim)[0], kind)


def logsumexp(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Any:
    """log(sum(exp(x))); -inf where nothing counts."""
    kind = dtype or input.dtype
    x = _from_edge("logsumexp", input, dtype, mask, False)
    return _cast(_weft.logsumexp(x, _dims(x, dim), keepdim), kind)


def logaddexp(
    input: Tensor,
    other: Tensor,
    *,
    dtype: DType | None = None,
    input_mask: Tensor | None = None,
    other_mask: Tensor | None = None,
) -> Any:
    """log(exp(x) + exp(y)), without elements where their masks do not hold."""
    x = _from_edge("logaddexp", input, dtype, input_mask, False)
    y = _from_edge("logaddexp", other, dtype, other_mask, False)
    return _cast(_weft.logaddexp(x, y), dtype or input.dtype)


def norm(
    input: Tensor,
    ord: float = 2.0,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Any:
    """The p-norm."""
    x = _prepared(input, dtype, mask, math.inf if ord == -math.inf else 0)
    return _vector_norm(x, ord, _dims(x, dim), keepdim)


def var(
    input: Tensor, dim: Dims = None, unbiased: bool | None = None, *, correction: object = None, keepdim: bool = False,
    dtype: object = None, mask: Tensor | None = None,
) -> Any:  # fmt: skip
    """The variance, divided by the number of elements that count, less the correction (1)."""
    if correction is None:
        correction = 1 if unbiased or unbiased is None else 0
    if input.dtype is _dtypes.bool_ and dtype is None:
        raise _no_difference_of_bools(input)
    kind = dtype or _mean_dtype(input)
    x = _cast(input, kind)
    count = _count(input, dim, mask)
    middle = sum(x, dim, keepdim=True, mask=mask) / count
    gap = _weft.abs(x - middle) if x.dtype.is_complex else x - middle
    total = sum(gap * gap, dim, keepdim=True, mask=mask)
    left = (count - correction).clamp(min=0)
    return _cast(_dropped(total / left, dim, keepdim), kind)


def _no_difference_of_bools(input: Tensor) -> DTypeError:
    return DTypeError(
        _NO_DIFFERENCE_OF_BOOL,
        expected="numbers",
        got=_describe("input", input),
        fix="pass dtype=weft.float32",
    )


def std(
    input: Tensor, dim: Dims = None, unbiased: bool | None = None, *, correction: object = None, keepdim: bool = False,
    dtype: DType | None = None, mask: Tensor | None = None,
) -> Any:  # fmt: skip
    """The standard deviation."""
    spread = var(
        input, dim, unbiased, correction=correction, keepdim=keepdim, dtype=dtype, mask=mask
    )
    return _weft.sqrt(spread)


def softmax(
    input: Tensor, dim: int, *, dtype: DType | None = None, mask: Tensor | None = None
) -> Any:
    """softmax; 0 for elements that do not count."""
    return _weft.softmax(_from_edge("amax", input, dtype, mask, False), dim)


def log_softmax(
    input: Tensor, dim: int, *, dtype: DType | None = None, mask: Tensor | None = None
) -> Any:
    """log_softmax; -inf for elements that do not count."""
    return _weft.log_softmax(_from_edge("amax", input, dtype, mask, False), dim)


def softmin(
    input: Tensor, dim: int, *, dtype: DType | None = None, mask: Tensor | None = None
) -> Any:
    """The softmax of the negative."""
    return _weft.softmax(-_from_edge("amin", input, dtype, mask, True), dim)


def normalize(
    input: Tensor,
    ord: float,
    dim: int,
    *,
    eps: float = 1e-12,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Any:
    """x / max(norm(x), eps)."""
    size = norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    return _prepared(input, dtype, mask, 0) / size.clamp(min=eps)


__all__ = [
    "amax", "amin", "argmax", "argmin", "cumprod", "cumsum", "log_softmax", "logaddexp", "logsumexp", "mean", "median",
    "norm", "normalize", "prod", "softmax", "softmin", "std", "sum", "var",
]  # fmt: skip
_publish(globals())
_LATER = dict.fromkeys(
    ("MaskedTensor", "as_masked_tensor", "is_masked_tensor", "masked_tensor"), "maskedtensor"
)
__all__ += list(_LATER)
__getattr__, __dir__ = _export_later(__name__, _LATER)
