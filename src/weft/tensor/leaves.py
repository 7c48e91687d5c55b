"""The gradient state of a handle: requires_grad, grad, data, and when each may be set.

It changes handles as they are assigned to, or raises PyTorch's errors. Autograd computes gradients.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from weft._build.lazy import later
from weft.autograd.transform_checks import refuse_in_transform
from weft.engine.api.deprecation import deprecated
from weft.engine.dispatch.core_hooks import sparse_library
from weft.engine.dispatch.type_names import C_NAMES
from weft.engine.frontend.inplace import mutate
from weft.engine.frontend.meta import is_on_meta
from weft.engine.frontend.node_factory import MOST_ELEMENTS
from weft.engine.frontend.recorder import cast
from weft.engine.frontend.resolve import edge_for, set_edge, value_of
from weft.engine.frontend.tensor import Tensor, VersionCounter, replace_node
from weft.engine.frontend.views import (
    KIND_OF_VIEW,
    MULTIPLE_OUTPUTS,
    OUTPUT_SHIFT,
    UNDER_INFERENCE,
    become,
    replace_value,
    storage_of,
    view,
)
from weft.engine.ir import tape as tapes
from weft.engine.ir.dtype import DType
from weft.engine.ir.strides import contiguous_strides
from weft.engine.ir.view_transform import SPARSE
from weft.errors import (
    ArgumentTypeError,
    DeviceError,
    DTypeError,
    ExportError,
    GradientError,
    MutationError,
    NotDefinedError,
    ShapeError,
)
from weft.ops import OPS
from weft.ops.primitives import concat, full, reshape
from weft.tensor import arguments
from weft.tensor.determinism import unwritten
from weft.tensor.identities import identity
from weft.tensor.layout import format_strides
from weft.tensor.memory.host_memory import handle_of, need_room
from weft.tensor.modes import is_grad_enabled, is_inference_mode_enabled
from weft.tensor.reading.values import describe

if TYPE_CHECKING:
    from weft.engine.ir.primitive import Primitive
    from weft.tensor.layout import MemoryFormat


forward_ad = later("weft.autograd.forward_ad")
reachability = later("weft.engine.backward.reachability")


def type_name(dtype: DType) -> str:
    """PyTorch's name of an element type: Float, Long."""
    return arguments.TYPE_NAMES[dtype.name]


def check_can_require_grad(dtype: DType, what: str = "only") -> None:
    """Errors: RuntimeError on integers and booleans."""
    if dtype.category < 2:
        raise DTypeError(
            f"{what} Tensors of floating point and complex dtype can require gradients",
            expected="a floating point or complex tensor",
            got=dtype.name,
            fix="convert it first, for example with .float()",
        )


def set_requires_grad(tensor: Tensor, flag: bool) -> None:
    """`tensor.requires_grad = flag`. Errors: RuntimeError on a computed tensor and on integers."""
    if not isinstance(flag, bool):
        raise GradientError(
            "requires_grad must be a bool",
            expected="True or False",
            got=repr(flag),
            fix="pass a bool",
        )
    if not tensor.is_leaf:
        hint = (
            ""
            if flag
            else (
                " If you want to use a computed variable in a subgraph that doesn't require "
                "differentiation use var_no_grad = var.detach()."
            )
        )
        raise GradientError(
            "you can only change requires_grad flags of leaf variables." + hint,
            expected="a leaf",
            got=f"{describe(tensor)} computed by {tensor.grad_fn.name()}",
            fix="use .detach() and set the flag on the result",
        )
    if flag:
        check_can_require_grad(tensor._dtype)
        if tensor.inference and not is_inference_mode_enabled():
            raise GradientError(
                "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.",
                expected="a normal tensor",
                got=f"{describe(tensor)} made in inference mode",
                fix="use .clone() and set the flag on the copy",
            )
    tensor.leaf_grad = bool(flag)


@deprecated("non-inplace resize is deprecated", UserWarning)
def resize(self: Tensor, *sizes: int | Sequence[int]) -> Any:
    """The elements in row-major order in another shape of as many; `reshape` is the name of today.

    Args:
        *sizes: the shape, as integers or as one sequence.

    Errors: RuntimeError where the numbers of elements differ.
    """
    return _in_shape(self, arguments.sizes(sizes, "resize"))


@deprecated("non-inplace resize_as is deprecated", UserWarning)
def resize_as(self: Tensor, tensor: Tensor) -> Any:
    """The elements in row-major order in the shape of another tensor of as many.

    Args:
        tensor: the tensor with the shape.

    Errors: RuntimeError where the numbers of elements differ.
    """
    return _in_shape(self, arguments.need_tensor("resize_as", tensor, "tensor")._shape)


def _in_shape(tensor: Tensor, shape: tuple[int, ...]) -> Any:
    if prod(shape) != prod(tensor._shape):
        named, own = ("x".join(map(str, sizes)) for sizes in (shape, tensor._shape))
        raise ShapeError(
            f"requested resize to {named} ({prod(shape)} elements in total), but the given tensor has a size of "
            f"{own} ({prod(tensor._shape)} elements). autograd's resize can only change the shape of a given tensor, "
            "while preserving the number of elements. ",
            expected=f"a shape of {prod(tensor._shape)} elements",
            got=str(list(shape)),
            fix="use .detach().resize_(...)",
        )
    return tensor.contiguous().view(shape)


def requires_grad_(self: Tensor, requires_grad: bool = True) -> Tensor:
    """Set whether a gradient is wanted for this leaf. Errors: RuntimeError on a computed tensor when switching off."""
    refuse_in_transform("requires_grad_()")
    if self.is_leaf or not requires_grad:
        set_requires_grad(self, requires_grad)
    return self


def inference_version() -> GradientError:
    """The error of asking an inference tensor for its version."""
    return GradientError(
        "Inference tensors do not track version counter.",
        expected="a normal tensor",
        got="one made in inference mode",
        fix="use .clone() to get a normal tensor",
    )


def inference_update() -> MutationError:
    """The error of changing an inference tensor where gradients may be recorded."""
    return MutationError(
        "Inplace update to inference tensor outside InferenceMode is not allowed.You can make a clone to get a "
        "normal tensor before doing inplace update.See https://github.com/pytorch/rfcs/pull/17 for more details.",
        expected="a normal tensor, or an update within inference_mode",
        got="a tensor made in inference mode",
        fix="use .clone() first",
    )


def need_writable(tensor: Tensor) -> None:
    """Errors: MutationError for an inference tensor where gradients may be recorded."""
    if tensor.inference and not tapes.tape().mode.inference:
        raise inference_update()


def check_saved(op: Primitive, tensors: Sequence[Tensor], edges: tuple[object, ...]) -> None:
    """Errors: RuntimeError where a derivative would keep a tensor that was made in inference mode."""
    last = len(op.residual_masks) - 1
    mask = 0
    for index, edge in enumerate(edges):
        if edge is not None:
            mask |= op.residual_masks[min(index, last)]
    for index, tensor in enumerate(tensors):
        if mask >> index & 1 and tensor is not None and tensor.inference:
            raise GradientError(
                "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode "
                "in computation tracked by autograd. To work around this, you can make a clone to get a normal tensor "
                "and use it in autograd, or use `weft.no_grad()` instead of `weft.inference_mode()`.",
                expected="normal tensors where the derivative needs their values",
                got=f"argument {index} of {op.name}, made in inference mode",
                fix="clone it",
            )


def _said_of(tensor: Tensor, number: int, why: str) -> str:
    """The beginning of a text about a view: which one it is, and what happens to it."""
    record = edge_for(tensor)
    if record is None:
        return f"A view was created in no_grad mode and {why} with grad mode enabled."
    return f"Output {number} of {_record_name(record)} is a view and {why}."


def one_of_several_views(tensor: Tensor) -> MutationError:
    """The error of changing one of the outputs of unbind, split or chunk."""
    begin = _said_of(tensor, tensor.creation >> OUTPUT_SHIFT, "is being modified inplace")
    return MutationError(
        f"{begin} This view is the output of a function that returns multiple views. Such functions do not allow the "
        "output views to be modified inplace. You should replace the inplace operation by an out-of-place one.",
        expected="a single view",
        got="one of the outputs of unbind, split or chunk",
        fix="index the base instead, or use the out-of-place operation",
    )


def untracked_view(tensor: Tensor) -> MutationError:
    """The error of changing a view that was made in another mode, as part of a graph."""
    return _refused_untracked(tensor, "is being modified inplace")


def base_of_untracked(tensor: Tensor) -> MutationError:
    """The error of asking for the history of such a view after what it shows has been changed."""
    changed = "its base or another view of its base has been modified inplace"
    return _refused_untracked(tensor, changed)


def _which_view(tensor: Tensor) -> str:
    """The beginning of a text about an untracked view: the view itself, or one that was made of it and has a record."""
    seen = tensor.version_seen
    tensor.version_seen = tensor._storage.version  # its edge can be looked at for the message
    record = edge_for(tensor)
    tensor.version_seen = seen
    if tensor.leaf_grad or record is None:
        return "A view"
    number = getattr(record, "number", 0)
    return f"Output {number} of {_record_name(record)} is a view of a view which"


def _record_name(edge: Any) -> str:
    """The name of the record behind an edge, as texts about views have it."""
    name = str(getattr(edge, "function", edge).name()).removesuffix("0")
    return name.removesuffix("Backward")


def _refused_untracked(tensor: Tensor, why: str) -> MutationError:
    inference = tensor.creation & KIND_OF_VIEW == UNDER_INFERENCE
    block = "inference_mode" if inference else "no_grad"
    made = "inference mode" if inference else "no_grad mode"
    now = "in normal mode" if inference else "with grad mode enabled"
    return MutationError(
        f"{_which_view(tensor)} was created in {made} and {why} {now}. Given that this use case is ambiguous and "
        "error-prone, it is forbidden. You can clarify your code by moving both "
        f"the view and the inplace either both inside the {block} block (if you don't want the inplace to be tracked) "
        "or both outside (if you want the inplace to be tracked).",
        expected="view and mutation in the same mode",
        got=f"a view made under {block}",
        fix=f"make the view outside of it, or mutate under {block}; .detach() has no history",
    )


def view_of_function(tensor: Tensor) -> MutationError:
    """The error of changing a custom Function's output that shows the memory of an input."""
    return _refused_view(tensor, "is being modified inplace")


def base_of_function(tensor: Tensor) -> MutationError:
    """The error of using such an output after what it shows has been changed."""
    changed = "its base or another view of its base has been modified inplace"
    tensor.version_seen = tensor._storage.version  # its edge can be looked at for the message
    error = _refused_view(tensor, changed)
    tensor.version_seen = -1
    return error


def _refused_view(tensor: Tensor, why: str) -> MutationError:
    number = getattr(edge_for(tensor), "number", 0)
    return MutationError(
        f"{_said_of(tensor, number, why)} This view was created inside a custom Function (or because an input was "
        "returned as-is) and the autograd logic to handle view+inplace would override the custom "
        "backward associated with the custom Function, leading to incorrect gradients. This behavior is forbidden. You "
        "can fix this by cloning the output of the custom Function.",
        expected="an output with memory of its own",
        got="a view of an input",
        fix="clone the output of the custom Function",
    )


def warn_non_leaf_grad() -> None:
    """Warn about reading `.grad` of a computed tensor."""
    warnings.warn(
        "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute won't be "
        "populated during autograd.backward(). If you indeed want the .grad field to be populated for a non-leaf "
        "Tensor, use .retain_grad() on the non-leaf Tensor. If you access the non-leaf Tensor by mistake, make sure "
        "you access the leaf Tensor instead.",
        UserWarning,
        stacklevel=2,
    )


def set_grad(tensor: Tensor, gradient: Tensor | None) -> None:
    """`tensor.grad = gradient`. Errors: TypeError on a non-tensor, RuntimeError on another size or dtype."""
    if gradient is None:
        tensor._grad = None
        return
    if not isinstance(gradient, Tensor):
        raise ArgumentTypeError(
            f"assigned grad expected to be a Tensor or None but got grad of type "
            f"{type(gradient).__name__}",
            expected="a tensor or None",
            got=repr(type(gradient)),
            fix="wrap it with weft.as_tensor(...)",
        )
    if gradient is tensor:
        raise GradientError(
            "can't assign Variable as its own grad",
            expected="another tensor",
            got="the tensor itself",
            fix="assign a clone",
        )
    wanted = tensor.grad_dtype if tensor.is_leaf else tensor._dtype
    if wanted is not None and gradient._dtype is not wanted:
        raise DTypeError(
            f"attempting to assign a gradient with dtype '{C_NAMES[gradient._dtype.name]}' to a tensor with grad_dtype "
            f"'{type_name(wanted)}'. The gradient must match the tensor's grad_dtype (defaults to the tensor's dtype). "
            "You can set the tensor's grad_dtype attribute with a specific dtype, or None to allow any dtype. Set "
            "grad_dtype with caution. Diverging the dtypes of a tensor and its gradient may break downstream systems "
            "that assume they match.",
            expected=wanted.name,
            got=gradient._dtype.name,
            fix=f"convert it with .to(weft.{wanted.name})",
        )
    if is_on_meta(gradient) != is_on_meta(tensor):
        raise DeviceError(
            f"attempting to assign a gradient with device type '{gradient.device}' to a tensor with device type "
            f"'{tensor.device}'. Please ensure that the gradient and the tensor are on the same device",
            expected=f"a gradient on the device {tensor.device}",
            got=f"one on {gradient.device}",
            fix="make it on the tensor's device",
        )
    if gradient._shape != tensor._shape:
        raise ShapeError(
            f"attempting to assign a gradient of size '{list(gradient._shape)}' to a tensor of size "
            f"'{list(tensor._shape)}'. Please ensure that the gradient and the tensor are the same size",
            expected=describe(tensor),
            got=describe(gradient),
            fix="reshape or sum the gradient first",
        )
    tensor._grad = gradient


_OTHER_TYPE = (
    "Attempted to call `variable.set_data(tensor)`, but `variable` and `tensor` have incompatible "
    "tensor type."
)


def set_data(tensor: Tensor, other: Tensor) -> None:
    """`tensor.data = other`: show the other's memory; history, flags and version of the tensor stay."""
    if not isinstance(other, Tensor):
        raise ArgumentTypeError(
            f"Variable data has to be a tensor, but got {type(other).__name__}",
            expected="a tensor",
            got=repr(type(other)),
            fix="wrap it with weft.as_tensor(...)",
        )
    if tensor.requires_grad and other._dtype.category < 2:
        raise DTypeError(
            "data set to a tensor that requires gradients must be floating point or complex dtype",
            expected="a floating point or complex tensor",
            got=other._dtype.name,
            fix="convert it first",
        )
    if is_on_meta(tensor) != is_on_meta(other):
        raise DeviceError(
            _OTHER_TYPE,
            expected=f"a tensor on the device {tensor.device}",
            got=f"one on {other.device}",
            fix="make a new parameter, or use Module.to_empty and load_state_dict(..., assign=True)",
        )
    if (tensor.view_transform ^ other.view_transform) & SPARSE:
        raise NotDefinedError(
            _OTHER_TYPE,
            expected="both dense, or both sparse",
            got=f"{tensor.layout!r}, and data of {other.layout!r}",
            fix="use .to_dense()",
        )
    show_data(tensor, other)


def show_data(tensor: Tensor, other: Tensor, writes: int = 0) -> None:
    """`set_data` without checks: also for a tensor that gets memory, or loses it. It counts versions of its own from
    now on, and this as so many writes."""
    counter = VersionCounter()
    counter.version = 0 if tensor.inference else tensor._version + writes
    show_other(tensor, other)
    tensor.counter = counter


def show_other(tensor: Tensor, other: Tensor) -> None:
    """Show the memory of another tensor. A view that now shows other memory keeps its history, as an ordinary
    result."""
    if tensor.base is not None and not tensor.leaf_grad:
        edge = edge_for(tensor)
        if edge is not None:
            tensor.base = None
            set_edge(tensor, edge)
    replace_value(tensor, other)


def make_subclass(cls: type[Tensor], data: Tensor, require_grad: bool = False) -> Any:
    """A leaf of a subclass that shares the value of `data`."""
    if data.view_transform & SPARSE:
        raise sparse_library().no_memory(data)
    made = Tensor.__new__(cls)
    become(made, data)
    if require_grad:
        check_can_require_grad(made._dtype)
        made.leaf_grad = True
    return made


def need_out_without_gradient(out: Tensor, result: Tensor) -> None:
    """Errors: RuntimeError where a gradient would be needed of what is written to an `out=` tensor."""
    if is_grad_enabled() and (out.requires_grad or result.requires_grad):
        raise GradientError(
            "functions with out=... arguments don't support automatic differentiation, but one of the arguments "
            "requires grad.",
            expected="tensors without gradient",
            got="requires_grad=True",
            fix="leave out= away, or use weft.no_grad()",
        )


def give_out(out: Tensor, result: Tensor) -> Tensor:
    """Give an `out=` tensor the value of a result, in its own dtype. One of another shape is resized, with a warning
    unless it was empty.

    Errors: RuntimeError where a gradient would be needed, or the dtype cannot hold the result.
    """
    if tapes.tape().mode.duals is not None and any(map(forward_ad.has_tangent, (out, result))):
        raise NotDefinedError(
            "Trying to use forward AD with an out= function, that does not support it because it is an out= function",
            expected="tensors without tangents",
            got="a dual tensor",
            fix="leave out= away",
        )
    need_out_without_gradient(out, result)
    if result._dtype.category > out._dtype.category:
        raise DTypeError(
            f"result type {type_name(result._dtype)} can't be cast to the desired output type {type_name(out._dtype)}",
            expected=f"a result that {out._dtype.name} can hold",
            got=result._dtype.name,
            fix=f"pass an out of dtype {result._dtype.name}",
        )
    if is_on_meta(out) != is_on_meta(result):
        raise DeviceError(
            f"Attempting to copy from device {result.device} to device {out.device}, but cross-device copies are not "
            "allowed!",
            expected=f"an out= on the device {result.device}",
            got=describe(out),
            fix="make out on the device of the operands",
        )
    made = cast(result, out._dtype)
    if out._shape == made._shape:
        return mutate(out, made)
    need_writable(out)
    if 0 not in out._shape:
        warnings.warn(
            f"An output with one or more elements was resized since it had shape {list(out._shape)}, which does not "
            f"match the required output shape {list(made._shape)}.",
            UserWarning,
            stacklevel=3,
        )
    if out._storage is not None and not out.requires_grad and _has_room(out, prod(made._shape)):
        return mutate(resize_(out, *made._shape), made)
    show_other(out, made)
    return out


def _has_room(tensor: Tensor, count: int) -> bool:
    """True if `count` elements fit into a tensor's memory from its start."""
    end = (tensor.offset + count) * tensor._dtype.itemsize
    return bool(end <= storage_of(tensor).node.nbytes)


def _grow(tensor: Tensor, count: int) -> None:
    """Make the memory of a tensor long enough for so many elements from where it begins, with zeros behind; all that
    show it go on doing so. Errors: RuntimeError where it belongs to others."""
    cell = storage_of(tensor)
    if cell.foreign is not None:
        raise ExportError(
            "Trying to resize storage that is not resizable",
            expected="memory of Weft",
            got="memory that is shared with NumPy",
            fix="clone the tensor first",
        )
    have = cell.node.numel
    kept = reshape(handle_of(cell).detach(), (have,))
    more = full((tensor.offset + count - have,), unwritten(tensor._dtype), tensor._dtype)
    replace_node(cell, value_of(concat((kept, more), 0)))


def _count_write(tensor: Tensor) -> None:
    """A tensor has been changed in place: it and all that count with it have another version."""
    cell = tensor._storage
    cell.version += 1
    tensor.version_seen = cell.version
    if tensor.counter is not None:
        tensor.counter.version += 1
        cell.apart += 1


def resize_(
    self: Tensor, *sizes: int | Sequence[int], memory_format: MemoryFormat | None = None
) -> Tensor:
    """Give the tensor another shape: its elements in row-major order (or laid out in the named format), with zeros
    behind where there are too few. It stays in its memory where that suffices, and as it is where it has the shape.

    Errors: RuntimeError where it requires grad, and where its memory is too small and belongs to others.
    """
    if self.requires_grad:
        raise GradientError(
            "cannot resize variables that require grad",
            expected="a tensor without gradient",
            got=describe(self),
            fix="use .detach().resize_(...), or .reshape(...) for the same number of elements",
        )
    need_writable(self)
    shape = arguments.sizes(sizes, "resize_")
    if min(shape, default=0) < 0 or prod(shape) > MOST_ELEMENTS:
        text = f"Storage size calculation overflowed with sizes={list(shape)}"
        if min(shape) < 0:
            text = f"Trying to create tensor with negative dimension {min(shape)}: {list(shape)}"
        raise ShapeError(
            text,
            expected=f"sizes >= 0 of at most {MOST_ELEMENTS} elements",
            got=str(list(shape)),
            fix="check how the size was computed",
        )
    need_room(shape, self._dtype)
    if shape == self._shape and memory_format is None:
        return self
    steps = None if memory_format is None else format_strides(shape, memory_format)
    steps = contiguous_strides(shape) if steps is None else steps
    need, have = prod(shape), prod(self._shape)
    shown, start = self, self.offset
    if not _has_room(self, need):
        if self.view_transform:  # memory of another type, or of numbers that are bent
            more = full((need - have,), unwritten(self._dtype), self._dtype)
            shown, start = concat((reshape(self.detach(), (have,)), more), 0), 0
        else:
            _grow(self, need)
    replace_value(self, view(OPS["strided"], shown, (start, steps), shape, steps, start))
    _count_write(self)
    return self


def detach_(self: Tensor) -> Tensor:
    """Forget the history: the tensor becomes a leaf without gradient. Errors: RuntimeError on a view."""
    if self.base is not None:
        raise GradientError(
            "Can't detach views in-place. Use detach() instead.",
            expected="a tensor that is no view",
            got=describe(self),
            fix="use .detach()",
        )
    if tapes.tape().mode.duals is not None:
        forward_ad.forget_tangents(self)
    set_edge(self, None)
    self.leaf_grad = False
    self.retains = False
    return self


def is_view(self: Tensor) -> bool:
    """True if the tensor is a view of another."""
    return self.base is not None


def is_inference(input: Tensor) -> bool:  # noqa: A002
    """True if the tensor was made in inference mode."""
    return bool(arguments.need_tensor("is_inference", input).inference)


def retains_grad(self: Tensor) -> bool:
    """True if `.grad` of this computed tensor is kept."""
    return bool(self.retains)


def output_nr(self: Tensor) -> int:
    """The number of the output of `grad_fn` that the tensor is."""
    edge = reachability.observed_edge(edge_for(self))
    if hasattr(edge, "number"):
        return int(edge.number)
    several = self.creation & KIND_OF_VIEW == MULTIPLE_OUTPUTS
    return int(self.creation >> OUTPUT_SHIFT) if several else 0


def detach(input: Tensor) -> Tensor:  # noqa: A002
    """The value without its history: `input.detach()`, as a function."""
    arguments.need_tensor("detach", input, "input")
    return input.detach()


def module_load(self: Tensor, other: Tensor, assign: bool = False) -> Any:
    """A tensor for `load_state_dict` to put in the place of this one, where parameters are swapped
    (`weft.__future__.set_swap_module_params_on_conversion`); subclasses override it.

    Args:
        other: the loaded tensor.
        assign: whether it is taken as it is. Default: False, its values are copied to this one.

    Returns:
        A tensor that is neither of the two.
    """
    return other.detach() if assign else self.copy_(other).detach()


FUNCTIONS: dict[str, Any] = {"detach": detach, "is_inference": is_inference}
METHODS: dict[str, Any] = {
    "resize": resize,
    "resize_as": resize_as,
    "resize_": resize_,
    "requires_grad_": requires_grad_,
    "module_load": module_load,
    "_cdata": property(identity),
    "detach_": detach_,
    "_is_view": is_view,
    "_make_subclass": staticmethod(make_subclass),
    "is_inference": is_inference,
    "retains_grad": property(retains_grad),
    "output_nr": property(output_nr),
}
