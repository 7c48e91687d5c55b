"""Entrywise functions of sparse tensors: of one operand, sums, products, powers, changes of dtype.

At least one operand is sparse; the result is sparse, or dense if a dense operand is added. A function is defined if it
maps zero to zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import weft
from weft import Tensor
from weft._typing import Scalar
from weft.engine.ir.dtype import DType
from weft.errors import ArgumentError, DTypeError, NotDefinedError, ShapeError
from weft.ops.primitives import reshape, take, take_add
from weft.sparse import structure
from weft.sparse.compressed import even
from weft.sparse.making import coalesced, positions
from weft.sparse.shaping import broadcast
from weft.sparse.tensor import SparseTensor, like, make, no_memory
from weft.tensor.arguments import widen


def linear(
    function: Callable[..., Tensor], input: SparseTensor, *args: object, **kwargs: object
) -> Any:  # noqa: A002
    """Apply a linear function, which may act on the summands of an element one by one."""
    entries = function(input.entries, *args, **kwargs)
    return input if entries is input.entries else like(input, entries)


def unary(
    function: Callable[..., Tensor], input: SparseTensor, *args: object, **kwargs: object
) -> Any:  # noqa: A002
    """Apply a function that must see the sum of all entries of an element."""
    summed = coalesced(input)
    return like(summed, function(summed.entries, *args, **kwargs))


def _number(value: object) -> bool:
    """True if an operand is one number."""
    return not isinstance(value, SparseTensor) and not getattr(value, "shape", ())


def _shapes(name: str, first: object, second: object) -> ShapeError:
    first, second = (list(getattr(one, "shape", ())) for one in (first, second))
    return ShapeError(
        f"{name}: expected sizes of 'self' and 'other' to match, but {first} != {second}",
        expected="operands of one shape",
        got=f"{first} and {second}",
        fix="sparse operands do not broadcast: make them of one shape",
    )


def add(
    function: Callable[..., Tensor],
    input: Tensor,
    other: SparseTensor,
    *,
    alpha: float = 1,
    out: Tensor | None = None,
) -> Any:  # noqa: A002
    """input + alpha * other. Errors: NotDefinedError for a sparse input with a dense other."""
    if not isinstance(other, SparseTensor):
        raise NotDefinedError(
            "add(sparse, dense) is not supported. Use add(dense, sparse) instead.",
            expected="another sparse tensor",
            got=type(other).__name__,
            fix="use .to_dense(), or add the sparse tensor to the dense one",
        )
    if tuple(getattr(input, "shape", ())) != tuple(other.shape):
        raise _shapes("add", input, other)
    entries = other.entries if alpha == 1 else other.entries * alpha
    if not isinstance(input, SparseTensor):
        return _added_to(input, other, entries)
    return _joined(input, like(other, entries))


def sub(
    function: Callable[..., Tensor],
    input: Tensor,
    other: SparseTensor,
    *,
    alpha: int = 1,
    out: Tensor | None = None,
) -> Any:  # noqa: A002
    """input - alpha * other."""
    return add(function, input, _signed(input, other), alpha=-alpha)


def _signed(input: Tensor, other: SparseTensor) -> Any:  # noqa: A002
    """The subtrahend in the dtype of the difference: in an unsigned dtype it could not be negated first."""
    wanted = getattr(input, "dtype", None)
    unsigned = isinstance(other, SparseTensor) and other.dtype is weft.uint8
    if not unsigned or wanted in (None, other.dtype):
        return other
    return like(other, other.entries.to(weft.promote_types(wanted, other.dtype)))


def _added_to(base: Tensor, other: SparseTensor, entries: Tensor) -> Tensor:
    """A dense tensor and entries at places of it."""
    dtype = weft.promote_types(base.dtype, entries.dtype)
    rank = other.indexed_dim
    shape = (math.prod(base.shape[:rank]), *base.shape[rank:])
    rows = take_add(
        widen(reshape(base.to(dtype), shape)), 0, positions(other), widen(entries.to(dtype))
    )
    return reshape(rows, tuple(base.shape)).to(dtype)  # type: ignore[no-any-return]


def _joined(one: SparseTensor, other: SparseTensor) -> SparseTensor:
    """The entries of both; summed by place where both were."""
    dtype = weft.promote_types(one.dtype, other.dtype)
    if one.indexed_dim != other.indexed_dim and 0 in (one.entry_count, other.entry_count):
        some = one if other.entry_count == 0 else other
        return like(some, some.entries.to(dtype))
    if one.indexed_dim != other.indexed_dim:
        raise ShapeError(
            "add: expected both sparse tensors to have the same number of sparse dimensions",
            expected=f"{one.indexed_dim} sparse dimensions",
            got=str(other.indexed_dim),
            fix="make both with one sparse_dim",
        )
    made = make(
        weft.cat([one.places, other.places], 1),
        weft.cat([one.entries.to(dtype), other.entries.to(dtype)]),
        one.shape,
    )
    if one.is_sparse_csr or (one.coalesced and other.coalesced):
        summed, same = coalesced(made), one.index_dtype is other.index_dtype
        kind = one.layout, one.index_dtype if same else None
        return even(make(summed.places, summed.entries, one.shape, True, *kind))
    return made


def mul(function: Callable[..., Tensor], input: Any, other: Any, *, out: object = None) -> Any:  # noqa: A002
    """The product element by element: sparse, also with a dense operand."""
    if _number(other):
        return like(input, function(input.entries, other))
    if _number(input):
        return like(other, function(input, other.entries))
    input, other = _of_one_shape(input, other)
    if isinstance(input, SparseTensor) and isinstance(other, SparseTensor):
        return _common(function, input, other)
    if isinstance(input, SparseTensor):
        return like(input, function(input.entries, _at(input, other)))
    return like(other, function(_at(other, input), other.entries))


def _of_one_shape(input: Tensor, other: Tensor) -> tuple[Any, Any]:  # noqa: A002
    """Two operands, those by coordinates as they broadcast. Errors: ShapeError where they do not."""
    try:
        shape = tuple(weft.broadcast_shapes(tuple(input.shape), tuple(other.shape)))
    except RuntimeError:
        raise _shapes("mul", input, other) from None
    return tuple(
        broadcast(one, shape)
        if isinstance(one, SparseTensor) and one.is_sparse and tuple(one.shape) != shape
        else one
        for one in (input, other)
    )  # type: ignore[return-value]


def _at(tensor: SparseTensor, dense: Tensor) -> Tensor:
    """The values of a dense tensor, as it broadcasts, at the places of a sparse one."""
    if weft.broadcast_shapes(tuple(dense.shape), tuple(tensor.shape)) != tensor.shape:
        raise _shapes("mul", tensor, dense)
    if tuple(dense.shape) != tuple(tensor.shape):
        return dense.expand(tensor.shape)[tuple(tensor.places)]  # type: ignore[no-any-return]
    rank = tensor.indexed_dim
    rows = reshape(dense, (math.prod(dense.shape[:rank]), *dense.shape[rank:]))
    return take(rows, 0, positions(tensor))  # type: ignore[no-any-return]


def _common(
    function: Callable[..., Tensor], one: SparseTensor, other: SparseTensor
) -> SparseTensor:
    """Products where both have entries."""
    if one.shape != other.shape or one.indexed_dim != other.indexed_dim:
        raise _shapes("mul", one, other)
    layout, one, other = one.layout, coalesced(one), coalesced(other)
    sizes = tuple(one.shape[: one.indexed_dim])
    first, second = (structure.flat(structure.places_of(x.places), sizes) for x in (one, other))
    common, left, right = np.intersect1d(first, second, True, True)
    entries = function(
        take(one.entries, 0, structure.as_index(left, max(len(first), 1))),
        take(other.entries, 0, structure.as_index(right, max(len(second), 1))),
    )
    places = structure.as_indices(structure.unflat(common, sizes), len(common))
    return even(make(places, entries, one.shape, True, layout))


def div(
    function: Callable[..., Tensor], input: Tensor, other: Tensor | float, **kwargs: object
) -> Any:  # noqa: A002
    """Division by a number. Errors: NotDefinedError by others, which has values where there are no entries."""
    if not isinstance(input, SparseTensor) or not _number(other):
        raise NotDefinedError(
            "Sparse division requires a scalar or zero-dim dense tensor divisor"
            f" (got shape {list(getattr(other, 'shape', ()))} for divisor)",
            expected="a sparse tensor divided by a number",
            got=f"{type(input).__name__} / {type(other).__name__}",
            fix="use .to_dense() first",
        )
    linearly = linear if kwargs.get("rounding_mode") is None else unary
    return linearly(function, input, other, **kwargs)


def floored(function: Callable[..., object], input: Tensor, other: Any) -> Any:  # noqa: A002
    """Division by a number, rounded down."""
    return div(weft.div, input, other, rounding_mode="floor")


def power(
    function: Callable[..., Tensor],
    input: SparseTensor,
    exponent: int,
    *,
    out: Tensor | None = None,
) -> Any:  # noqa: A002
    """The entries to a power above zero."""
    if not isinstance(input, SparseTensor) or not _number(exponent) or float(exponent) <= 0:
        raise ArgumentError(
            "pow: a sparse tensor is raised to a number above zero",
            expected="a number > 0",
            got=repr(exponent)[:60],
            fix="use .to_dense() first",
        )
    return unary(function, input, exponent)


def in_place(rule: Callable[..., object]) -> Any:
    """The in-place form of a rule."""

    def change(
        function: Callable[..., object], input: SparseTensor, *args: object, **kwargs: object
    ) -> Any:  # noqa: A002
        plain = getattr(weft, function.__name__.removesuffix("_"), None)
        if plain is None:
            plain = getattr(Tensor, function.__name__.removesuffix("_"))
        result = rule(plain, input, *args, **kwargs)
        return input.adopt(result) if isinstance(input, SparseTensor) else input.copy_(result)

    return change


def add_(
    function: Callable[..., object],
    input: Tensor,
    other: SparseTensor,
    *,
    alpha: float | complex = 1,
) -> Any:  # noqa: A002
    """input += alpha * other; in the memory of a dense input, at the places of the entries only.

    Errors: RuntimeError where the sum's type does not fit the input's.
    """
    common = weft.promote_types(input.dtype, other.dtype) if isinstance(other, Tensor) else None
    if common is not None and not weft.can_cast(common, input.dtype):
        raise DTypeError(
            f"Can't convert result type {common.name} to output {input.dtype.name} in add operation",
            expected=f"an operand that {input.dtype.name} can hold",
            got=f"{input.dtype.name} and {other.dtype.name}",
            fix="convert the input, or use + for a new tensor",
        )
    if isinstance(input, SparseTensor) or tuple(input.shape) != tuple(other.shape):
        return in_place(add)(function, input, other, alpha=alpha)
    entries = other.entries if alpha == 1 else other.entries * alpha
    return input.index_put_(tuple(other.places), entries.to(input.dtype), accumulate=True)


def sub_(function: Callable[..., Tensor], input: Tensor, other: Any, *, alpha: Scalar = 1) -> Any:  # noqa: A002
    """input -= alpha * other."""
    return add_(function, input, _signed(input, other), alpha=-alpha)


def copy_(
    function: Callable[..., Tensor],
    input: SparseTensor,
    src: SparseTensor,
    non_blocking: bool = False,
) -> Any:  # noqa: A002
    """Take over another sparse tensor; a dense one takes all of it."""
    if isinstance(input, SparseTensor) and isinstance(src, SparseTensor):
        return input.adopt(src)
    if isinstance(input, SparseTensor):
        raise no_memory(input)
    return input.copy_(src.to_dense())


def cleared(
    function: Callable[..., object],
    input: SparseTensor,
    *args: object,
    dtype: DType | None = None,
    **kwargs: object,
) -> Any:  # noqa: A002
    """No entries: `zeros_like`, `empty_like`."""
    entries = weft.empty((0, *input.entries.shape[1:]), dtype=dtype or input.dtype)
    places = structure.as_indices([[]] * input.indexed_dim, 0)
    made = make(places, entries, input.shape, True, input.layout, input.index_dtype)
    return made.requires_grad_() if kwargs.get("requires_grad") else made


def zero_(function: Callable[..., object], input: SparseTensor) -> Any:  # noqa: A002
    """Forget all entries."""
    return input.adopt(cleared(function, input))


def nothing(function: Callable[..., object], input: Tensor, *args: object, **kwargs: object) -> Any:  # noqa: A002
    """The tensor itself."""
    return input


def of_values(function: Callable[..., object], *args: object, **kwargs: object) -> Any:
    """Apply a function that depends on the dtype alone to the entries."""
    plain = [value.entries if isinstance(value, SparseTensor) else value for value in args]
    return function(*plain, **kwargs)


LINEAR = (
    "neg negative clone to double float half bfloat16 cfloat cdouble type_as conj conj_physical real imag deg2rad "
    "rad2deg positive resolve_conj resolve_neg long int short char byte bool"
)
UNARY = (
    "abs absolute asin arcsin asinh arcsinh atan arctan atanh arctanh ceil erf erfinv expm1 floor frac isinf isnan "
    "isneginf isposinf log1p nan_to_num relu round sgn sign signbit sin sinh sqrt square tan tanh trunc fix angle "
    "threshold relu6 leaky_relu dropout"
)
OF_VALUES = "is_complex is_floating_point is_signed element_size get_device is_pinned is_shared result_type can_cast"
IN_PLACE = f"{LINEAR} {UNARY} mul multiply div divide true_divide floor_divide pow"
RULES: dict[str, Any] = {
    **dict.fromkeys(LINEAR.split(), linear),
    **dict.fromkeys(UNARY.split(), unary),
    **dict.fromkeys(OF_VALUES.split(), of_values),
    **dict.fromkeys(("add", "__add__"), add),
    **dict.fromkeys(("sub", "subtract"), sub),
    **dict.fromkeys(("mul", "multiply"), mul),
    **dict.fromkeys(("div", "divide", "true_divide"), div),
    "floor_divide": floored,
    "pow": power,
    "zeros_like": cleared,
    "empty_like": cleared,
    "cpu": nothing,
    "contiguous": nothing,
    "as_tensor": nothing,
    "share_memory_": nothing,
}
RULES.update({f"{name}_": in_place(RULES[name]) for name in IN_PLACE.split()})
RULES.update({"add_": add_, "sub_": sub_, "copy_": copy_, "zero_": zero_})
