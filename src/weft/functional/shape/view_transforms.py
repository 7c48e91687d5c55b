# ruff: noqa: A002 - PyTorch's names
"""Views that show other elements than their storage holds: conjugates, real and imaginary parts, pairs of parts, and
memory as another type (`bits`).

A tensor comes in; a handle of the same memory goes out, with a lens: what is done to an element of the storage to get
one of the tensor. Strides and offsets of real views count real numbers. Values are computed through the lens where
they are read (`seen_through`); what is written goes back through it (`write_through_view_transform`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.autograd.grad_fn.attributes import Written
from weft.engine.dispatch.core_hooks import sparse_library
from weft.engine.frontend.inplace import mutate
from weft.engine.frontend.recorder import record_elementwise
from weft.engine.frontend.resolve import edge_for, set_edge, value_of
from weft.engine.frontend.tensor import Tensor
from weft.engine.frontend.views import handle_of_storage, logical_strides
from weft.engine.frontend.views import view as record_view
from weft.engine.ir import tape as tapes
from weft.engine.ir.view_transform import BITS, CONJUGATE, JOIN, NEGATE, PARTS, SPARSE
from weft.errors import ArgumentError, DTypeError, MutationError, ShapeError
from weft.functional.shape.bitcast import as_type, written_into
from weft.functional.shape.strided_regions import region
from weft.functional.shape.views import warn_of_number
from weft.functional.support.variants import by_name, write_out
from weft.ops import OPS
from weft.ops.composite.own_derivatives import joined_parts, paired_parts
from weft.ops.primitives import elementwise as call
from weft.ops.primitives import put, reshape, strided
from weft.ops.registry import named
from weft.tensor.arguments import TYPE_NAMES, Shape, describe, need_tensor

if TYPE_CHECKING:
    from weft.engine.ir.primitive import Primitive


_CONJ = OPS["conj"]
_REAL, _IMAG = (named(OPS[part], "SelectBackward0") for part in ("real", "imag"))
_AS_REAL, _AS_COMPLEX = OPS["view_as_real"], OPS["view_as_complex"]
_RESOLVE_CONJ = named(OPS["clone"], "ResolveConjBackward0")
_COPY_SLICES = named(OPS["clone"], OPS["put"].grad_name)
_RESOLVE_NEG = named(OPS["clone"], "ResolveNegBackward0")


def _transformed_view(
    op: Primitive, x: Tensor, shape: Shape, strides: Shape, offset: int, view_transform: int
) -> Any:
    made = record_view(op, x, None, shape, strides, offset)
    made.view_transform = view_transform
    return made


# -- the views -----------------------------------------------------------------------------------------------------


def conj(input: Tensor) -> Any:
    """The complex conjugate, as a view of the same memory; the tensor itself where it is real."""
    if not need_tensor("conj", input)._dtype.is_complex:
        return input
    strides = logical_strides(input)
    return _transformed_view(
        _CONJ, input, input._shape, strides, input.offset, input.view_transform ^ CONJUGATE
    )


def conj_physical(input: Tensor, *, out: Tensor | None = None) -> Any:
    """The complex conjugate, computed."""
    need_tensor("conj_physical", input)
    result = call("conj", input) if input._dtype.is_complex else input
    return result if out is None else write_out(out, result)


def adjoint(input: Tensor) -> Any:
    """The conjugate transpose of the last two dimensions, as a view."""
    return _adjoint(input, "adjoint()")


def _mH(input: Tensor) -> Any:
    """The conjugate transpose of the last two dimensions, as a view (`.mH`)."""
    return _adjoint(input, "Tensor.mH")


def _adjoint(input: Tensor, name: str) -> Any:
    rank = len(input._shape)
    if rank == 1:
        raise ShapeError(
            f"tensor.{name.removeprefix('Tensor.')} is only supported on matrices or batches of matrices. Got 1-D "
            "tensor.",
            expected="at least two dimensions",
            got=describe("input", input),
            fix="use unsqueeze first",
        )
    if not rank:
        warn_of_number(name, "Consider using x.conj().")
        return conj(input)
    return conj(input.mT)


def hermitian(input: Tensor) -> Any:
    """The conjugate transpose of a matrix, as a view; one number's conjugate. Errors: ShapeError on other ranks."""
    rank = len(input._shape)
    if rank not in (0, 2):
        raise ShapeError(
            f"tensor.H is only supported on matrices (2-D tensors). Got {rank}-D tensor."
            + (" For batches of matrices, consider using tensor.mH" if rank > 2 else ""),
            expected="a matrix",
            got=describe("input", input),
            fix="use .mH for the last two dimensions of a batch",
        )
    if not rank:
        warn_of_number("Tensor.H", "Consider using x.conj().")
    return adjoint(input) if rank else conj(input)


def _part(op: Primitive, input: Tensor, second: int) -> Any:
    strides = tuple([2 * stride for stride in logical_strides(input)])
    view_transform = input.view_transform & ~(CONJUGATE | JOIN)
    if not input.view_transform & (JOIN | BITS):
        view_transform |= PARTS
    if second and input.view_transform & CONJUGATE:
        view_transform |= NEGATE
    return _transformed_view(
        op, input, input._shape, strides, 2 * input.offset + second, view_transform
    )


def real(input: Tensor) -> Any:
    """The real parts, as a view; the tensor itself where it is real."""
    return _part(_REAL, input, 0) if need_tensor("real", input)._dtype.is_complex else input


def imag(input: Tensor) -> Any:
    """The imaginary parts, as a view. Errors: DTypeError on real tensors."""
    if not need_tensor("imag", input)._dtype.is_complex:
        raise DTypeError(
            "imag is not implemented for tensors with non-complex dtypes.",
            expected="a complex tensor",
            got=describe("input", input),
            fix="leave imag out: the imaginary part of a real tensor is 0",
        )
    return _part(_IMAG, input, 1)


def _write_part(part: Tensor, new: Tensor | complex) -> None:
    part.copy_(new) if isinstance(new, Tensor) else part.fill_(new)


def set_real(self: Tensor, new: Tensor | complex) -> None:
    """`z.real = new`: written into the tensor; a number everywhere."""
    _write_part(real(self), new)


def set_imag(self: Tensor, new: Tensor | complex) -> None:
    """`z.imag = new`: written into the tensor; a number everywhere."""
    _write_part(imag(self), new)


def view_as_real(input: Tensor) -> Any:
    """Complex numbers as pairs of real ones in a last dimension of size 2, as a view.

    Errors: RuntimeError on real tensors and on conjugates that are not resolved.
    """
    if not need_tensor("view_as_real", input)._dtype.is_complex:
        raise DTypeError(
            "view_as_real is only supported for complex tensors",
            expected="a complex tensor",
            got=describe("input", input),
            fix="leave it out for real tensors",
        )
    if input.view_transform & CONJUGATE:
        raise ArgumentError(
            "view_as_real doesn't work on unresolved conjugated tensors.  To resolve the conjugate tensor so you can "
            "view it as real, use self.resolve_conj(); however, be warned that the resulting tensor will NOT alias "
            "the original.",
            expected="a tensor without the conjugate bit",
            got="a conjugate view",
            fix="call .resolve_conj() first",
        )
    strides = (*[2 * stride for stride in logical_strides(input)], 1)
    view_transform = (
        input.view_transform if input.view_transform & BITS else input.view_transform | PARTS
    )
    if input.view_transform & JOIN:
        view_transform = input.view_transform & ~JOIN
    return _transformed_view(
        _AS_REAL, input, (*input._shape, 2), strides, 2 * input.offset, view_transform
    )


def view_as_complex(input: Tensor) -> Any:
    """Pairs of real numbers in the last dimension as complex ones, as a view.

    Errors: RuntimeError where the last dimension is not two neighbours in memory.
    """
    shape, strides = need_tensor("view_as_complex", input)._shape, logical_strides(input)
    complaint = ""
    if input._dtype.name not in ("float32", "float64"):
        complaint = (
            "view_as_complex is only supported for half, float and double tensors, but got a tensor of scalar type: "
            + TYPE_NAMES[input._dtype.name]
        )
    elif not shape:
        complaint = "Input tensor must have one or more dimensions"
    elif shape[-1] != 2:
        complaint = "Tensor must have a last dimension of size 2"
    elif strides[-1] != 1:
        complaint = "Tensor must have a last dimension with stride 1"
    elif any(stride % 2 for stride in strides[:-1]) or input.offset % 2:
        complaint = "Tensor must have a stride divisible by 2 for all but last dimension"
    if complaint:
        raise ArgumentError(
            complaint,
            expected="float32 or float64 of shape (..., 2), pairs side by side in memory",
            got=f"{describe('input', input)} with strides {list(strides)}",
            fix="use weft.complex(real, imag), or .contiguous() first",
        )
    if input.view_transform & NEGATE:
        input = resolve_neg(input)
    halved = tuple([stride // 2 for stride in strides[:-1]])
    view_transform = (
        input.view_transform if input.view_transform & BITS else input.view_transform | JOIN
    )
    if input.view_transform & PARTS:
        view_transform = input.view_transform & ~PARTS
    return _transformed_view(
        _AS_COMPLEX, input, shape[:-1], halved, input.offset // 2, view_transform
    )


# -- the bits ------------------------------------------------------------------------------------------------------


def is_conj(input: Tensor) -> bool:
    """True if the tensor is a conjugate that is computed when it is read."""
    return bool(input.view_transform & CONJUGATE)


def is_neg(input: Tensor) -> bool:
    """True if the tensor is a negative that is computed when it is read: the imaginary part of a conjugate."""
    return bool(input.view_transform & NEGATE)


def resolve_conj(input: Tensor) -> Any:
    """The tensor itself, or a copy without the conjugate bit."""
    return record_elementwise(_RESOLVE_CONJ, (input,), None) if is_conj(input) else input


def resolve_neg(input: Tensor) -> Any:
    """The tensor itself, or a copy without the negative bit."""
    return record_elementwise(_RESOLVE_NEG, (input,), None) if is_neg(input) else input


# -- through the lens ----------------------------------------------------------------------------------------------


def _flat_parts(whole: Tensor) -> Any:
    """All numbers of complex memory: real, imaginary, real, ..."""
    return reshape(paired_parts(whole), (2 * whole.numel(),))


def _joined(flat: Tensor) -> Any:
    """Pairs of neighbours of a flat tensor as complex numbers."""
    half = flat.numel() // 2
    return joined_parts(strided(flat, (half, 2), 0, (2, 1)))


def _flat(whole: Tensor, tensor: Tensor) -> Any:
    """The memory in the units of a tensor with a lens."""
    if tensor.view_transform & PARTS:
        return _flat_parts(whole)
    flat = reshape(whole, (whole.numel(),))
    if tensor.view_transform & BITS:
        return as_type(flat, tensor._dtype)
    return _joined(flat) if tensor.view_transform & JOIN else flat


def _bent(x: Tensor, view_transform: int) -> Any:
    """Conjugated and negated as a lens does; its own inverse."""
    x = call("conj", x) if view_transform & CONJUGATE else x
    return call("neg", x) if view_transform & NEGATE else x


def seen_through(tensor: Tensor) -> Any:
    """The node of the value of a tensor with a lens."""
    if tensor.view_transform & SPARSE:
        return value_of(sparse_library().shown(tensor))
    flat = _flat(handle_of_storage(tensor), tensor)
    shape, strides = tensor._shape, logical_strides(tensor)
    whole = tensor.offset == 0 and tensor.strides is None and flat.numel() == tensor.numel()
    shown = reshape(flat, shape) if whole else strided(flat, shape, tensor.offset, strides)
    return value_of(_bent(shown, tensor.view_transform))


def write_through_view_transform(tensor: Tensor, new: Tensor) -> None:
    """Give the region that a tensor with a lens shows a new value. Where a gradient is required, the base gets a new
    value as a whole, computed back through the steps that lead to the tensor."""
    if tensor.view_transform & SPARSE:
        raise sparse_library().no_memory(tensor)
    base = tensor.base
    if base is None or not tapes.tape().mode.grad or not (base.requires_grad or new.requires_grad):
        _write_memory(tensor, new)
        if base is None and tapes.tape().mode.grad and new.requires_grad:
            set_edge(tensor, edge_for(new))
        return
    behind = Written(edge_for(base), edge_for(new))
    written = _back(base, tensor.view_chain[len(base.view_chain) :], new)
    copied = record_elementwise(_COPY_SLICES, (written,), None)
    edge_for(copied).info = (behind,)
    mutate(base, copied)


def _write_memory(tensor: Tensor, new: Tensor) -> None:
    """The value only."""
    whole = handle_of_storage(tensor)
    whole.counter = tensor.counter
    new, strides = _bent(new.detach(), tensor.view_transform), logical_strides(tensor)
    if tensor.view_transform & BITS:
        written = written_into(reshape(whole, (whole.numel(),)), new, tensor.offset, strides)
    else:
        written = put(_flat(whole, tensor), new, tensor.offset, strides)
    if tensor.view_transform & PARTS:
        written = _joined(written)
    elif tensor.view_transform & JOIN:
        written = _flat_parts(written)
    mutate(whole, reshape(written, whole._shape))


def _back(x: Tensor, steps: tuple[Any, ...], new: Tensor) -> Any:
    """The base of a chain of views changed so that the views show `new`; other elements stay."""
    lenses = [number for number, step in enumerate(steps) if step[0].name in _THROUGH]
    views = steps[: lenses[0]] if lenses else steps
    if lenses:
        show, restore = _THROUGH[steps[lenses[0]][0].name]
        seen = _seen(x, views)
        new = restore(seen, _back(show(seen), steps[lenses[0] + 1 :], new))
    return put(x, new, *_place(x, views)) if views else new


def _place(x: Tensor, views: tuple[object, ...]) -> tuple[int, Shape]:
    """Offset and strides of a chain of strided views. Errors: MutationError."""
    found = region(x._shape, views)
    if found is None:
        raise MutationError(
            "in-place operation on this view",
            expected="a view that is one strided region of what it is a view of",
            got="a reshape of a permuted view",
            fix="write through the base tensor instead",
        )
    return found


def _seen(x: Tensor, views: tuple[Any, ...]) -> Any:
    """A chain of strided views of a tensor, as a value."""
    return strided(x, views[-1][2], *_place(x, views)) if views else x


# What a lens shows of a value, and the value that shows something new.
_THROUGH: dict[str, tuple[Any, Any]] = {
    "conj": (lambda x: call("conj", x), lambda x, new: call("conj", new)),
    "real": (lambda x: call("real", x), lambda x, new: call("complex", new, call("imag", x))),
    "imag": (lambda x: call("imag", x), lambda x, new: call("complex", call("real", x), new)),
    "view_as_real": (paired_parts, lambda x, new: joined_parts(new)),
    "view_as_complex": (joined_parts, lambda x, new: paired_parts(new)),
}


FUNCTIONS: dict[str, Any] = by_name(
    conj, conj_physical, adjoint, real, imag, view_as_real, view_as_complex, is_conj, is_neg, resolve_conj,
    resolve_neg,
)  # fmt: skip
METHODS: dict[str, Any] = {
    **by_name(conj, conj_physical, adjoint, is_conj, is_neg, resolve_conj, resolve_neg),
    "real": property(real, set_real),
    "imag": property(imag, set_imag),
    "mH": property(_mH),
    "H": property(hermitian),
}
HOOKS: dict[str, Any] = {
    "seen_through": seen_through,
    "write_through_view_transform": write_through_view_transform,
}
