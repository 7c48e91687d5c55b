# ruff: noqa: A001, A002 - PyTorch's names
"""PyTorch's functions with an underscore in front: steps of larger functions, which a few programs name.

Each is composed of public functions; its docstring names those that a program should call instead.
"""

from __future__ import annotations

from builtins import slice as span
from collections.abc import Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

import weft
from weft._typing import Scalar
from weft.autograd.function import Function
from weft.compat.aten.backward import KERNELS
from weft.compat.aten.native import native_batch_norm
from weft.engine.api.api_function import publish
from weft.engine.frontend.recorder import cast
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir import dtype as dtypes
from weft.engine.ir.dtype import DType
from weft.errors import ArgumentError, DTypeError, NotDefinedError, ShapeError
from weft.functional.shape.concat import cat, stack
from weft.functional.support import host
from weft.functional.support.variants import given
from weft.nn import functional
from weft.nn.functional.activation import softmax
from weft.nn.functional.resampling import filtered, interpolate, resampled, resized_bytes
from weft.ops.primitives import elementwise as call
from weft.ops.primitives import full, reduce, where
from weft.tensor.arguments import as_dtype, describe, need_tensor, no_kernel, widen, wrap_dim

if TYPE_CHECKING:
    from weft.autograd.custom.context import FunctionCtx


def softmax_backward_data(
    grad_output: Tensor, output: Tensor, dim: int, input_dtype: DType, *, grad_input: object = None
) -> Any:
    """The cotangent of `softmax`'s input, given its output y: y (g - sum(g y)). Shapes: as `output`."""
    need_tensor("_softmax_backward_data", grad_output, "grad_output")
    axis = wrap_dim(dim, len(output._shape))
    g, y = widen(grad_output), widen(output)
    product = g * y
    total = reduce("sum", product, (axis,), True) if y._shape else product
    return given(grad_input, cast(product - y * total, as_dtype(input_dtype)))


def native_dropout_backward(grad_output: Tensor, mask: Tensor, scale: float) -> Any:
    """The cotangent of `native_dropout`'s input. Shapes: as `grad_output`. Errors: DTypeError."""
    if mask._dtype.category:
        raise DTypeError(
            f"Mask should be Bool Scalar Type, got {mask._dtype.name}",
            expected="a mask of dtype bool",
            got=describe("mask", mask),
            fix="use mask.bool()",
        )
    return grad_output * cast(mask, grad_output._dtype) * scale


def native_batch_norm_legit(
    input: Tensor, weight: Tensor, bias: Tensor, *rest: Any, out: Tensor | None = None
) -> Any:
    """`native_batch_norm`, also without running statistics:
    (input, weight, bias, [running_mean, running_var,] training, momentum, eps)."""
    running = rest[:2] if len(rest) == 5 else (None, None)
    training, momentum, eps = rest[-3:]
    training = training or running[0] is None
    return native_batch_norm(
        input, weight, bias, running[0], running[1], training, momentum, eps, out=out
    )


def batch_norm_with_update(
    input: Tensor,
    weight: Tensor,
    bias: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    momentum: float,
    eps: float,
    *,
    out: Tensor | None = None,
) -> Any:
    """`native_batch_norm` in training, and an empty reserve."""
    parts = native_batch_norm(
        input, weight, bias, running_mean, running_var, True, momentum, eps, out=out and out[:3]
    )
    reserve = full((0,), 0, dtypes.uint8) if out is None else out[3]
    return (*parts, reserve)


def upsample_bilinear2d_aa(
    input: Tensor,
    output_size: Any = None,
    align_corners: bool = False,
    scales_h: object = None,
    scales_w: Any = None,
    *,
    scale_factors: object = None,
) -> Any:
    """`nn.functional.interpolate` in mode bilinear with antialias=True. Shapes: (N, C, H, W) -> (N, C, h, w)."""
    if output_size is None:
        return interpolate(input, None, scale_factors, "bilinear", align_corners, antialias=True)
    wanted, factors = tuple(output_size), [scales_h, scales_w]
    if input._dtype is dtypes.uint8:
        return resized_bytes(input, wanted, factors, align_corners, "bilinear", True)
    for axis, (want, factor) in enumerate(zip(wanted, factors, strict=True), 2):
        taps = filtered(input._shape[axis], want, factor, align_corners, "bilinear")
        input = resampled(input, axis, taps)
    return input


def slice(
    input: Tensor, dim: int = 0, start: object = None, end: object = None, step: int = 1
) -> Any:
    """The elements from start to end along a dimension, as a view: `input[..., start:end:step]`."""
    axis = wrap_dim(dim, len(need_tensor("slice", input)._shape))
    return input[(span(None),) * axis + (span(start, end, step),)]


# -- parts and joints --------------------------------------------------------------------------------------------------


def unsafe_masked_index(input: Tensor, mask: Tensor, indices: list[Tensor], fill: Scalar) -> Any:
    """input[indices] where the mask holds, `fill` elsewhere. Shapes: as the indices broadcast."""
    places = tuple(None if p is None else p.clamp(0, s - 1) for p, s in _beside(input, indices))
    found = input[tuple(span(None) if p is None else p for p in places)]
    return where(mask, found, cast(full((), fill, found._dtype), found._dtype))


def unsafe_masked_index_put_accumulate(
    input: Tensor, mask: Tensor, indices: list[Tensor], values: Tensor
) -> Any:
    """A copy of input with values added at the indices where the mask holds. Shapes: as `input`."""
    if not input.numel():
        return call("clone", input)
    places = [None if p is None else p.clamp(0, s - 1) for p, s in _beside(input, indices)]
    kept = where(mask, values, cast(full((), 0, values._dtype), values._dtype))
    return input.index_put(tuple(p for p in places if p is not None), kept, True)


def _beside(input: Tensor, indices: list[Tensor]) -> Any:
    return zip(indices, input._shape, strict=False)


def chunk_cat(
    tensors: list[Tensor], dim: int, num_chunks: int, *, out: Tensor | None = None
) -> Any:
    """Each tensor in `num_chunks` pieces along a dimension (filled up with zeros), flattened behind it, and joined.

    Shapes: (*lead, n_i, ...) -> (*lead, num_chunks, sum of the sizes of the pieces). Errors: ArgumentError.
    """
    if num_chunks < 1 or not tensors:
        wanted = "a non-empty input tensor list" if num_chunks >= 1 else "positive num_chunks"
        raise ArgumentError(
            f"_chunk_cat expects {wanted}",
            expected="num_chunks >= 1, and tensors",
            got=f"num_chunks={num_chunks}, {len(tensors)} tensors",
            fix="pass at least one tensor and one chunk",
        )
    ranks = {len(x._shape) for x in tensors}
    full = all(x.numel() for x in tensors)
    if dim < 0 and len(ranks) > 1 or not full:
        wanted = (
            "non-negative dim when input tensors have different ndims"
            if full
            else "non-empty tensor"
        )
        raise ArgumentError(
            f"_chunk_cat expects {wanted}",
            expected="tensors with elements, of equal rank where dim < 0",
            got=", ".join(str(list(x._shape)) for x in tensors),
            fix="leave empty tensors out, or count dim from the front",
        )
    if dim >= min(ranks):
        raise ArgumentError(
            "_chunk_cat expects dim < ndim for all input tensors",
            expected=f"dim < {min(ranks)}",
            got=str(dim),
            fix="unsqueeze the smaller tensors",
        )
    if len({x._dtype for x in tensors}) > 1:
        raise DTypeError(
            "_chunk_cat expects all input tensors with the same dtype",
            expected="tensors of one type",
            got=", ".join(x._dtype.name for x in tensors),
            fix="convert them with .to()",
        )
    axis = wrap_dim(dim, min(ranks))
    if len({x._shape[:axis] for x in tensors}) > 1:
        raise ArgumentError(
            "_chunk_cat expects same sizes of 0,...,dim-1 dimensions for all tensors",
            expected="equal sizes before dim",
            got=", ".join(str(list(x._shape)) for x in tensors),
            fix="reshape the tensors",
        )
    return given(out, cat([_in_chunks(x, axis, num_chunks) for x in tensors], axis + 1))


def _in_chunks(x: Tensor, axis: int, count: int) -> Any:
    """(*lead, n, ...) -> (*lead, count, rest)."""
    size = -(-x._shape[axis] // count)
    missing = size * count - x._shape[axis]
    if missing:
        room = (*x._shape[:axis], missing, *x._shape[axis + 1 :])
        x = cat([x, x.new_zeros(room)], axis)
    return x.reshape(*x._shape[:axis], count, -1)


def segment_reduce(
    data: Tensor,
    reduce: str,
    *,
    lengths: Tensor | None = None,
    indices: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: Scalar | None = None,
) -> Any:
    """Consecutive segments along an axis, each reduced ("sum", "mean", "prod", "max", "min"), starting from `initial`.
    Reads the lengths or offsets. Shapes: lengths (*lead, segments), or offsets (*lead, segments + 1)."""
    if (lengths is None) == (offsets is None) or reduce not in _STARTS:
        raise ArgumentError(
            "segment_reduce(): Either lengths or offsets must be defined."
            if reduce in _STARTS
            else f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}",
            expected="one of the two, and sum, mean, prod, max or min",
            got=f"lengths={lengths is not None}, offsets={offsets is not None}, {reduce!r}",
            fix="pass lengths=",
        )
    given = offsets if lengths is None else lengths
    assert given is not None
    if given._dtype.category != 1:
        raise no_kernel("_segment_reduce_lengths_cpu_kernel1", given, "integers", ".long()")
    given_ends = host.to_numpy(given)
    ends = given_ends if lengths is None else np.cumsum(given_ends, -1)
    if lengths is not None:
        ends = np.concatenate([np.zeros((*ends.shape[:-1], 1), ends.dtype), ends], -1)
    _check_segments(ends, data._shape[axis], lengths is None, unsafe)
    return _segments(data, ends, axis, reduce, initial)


def _check_segments(ends: np.ndarray, size: int, by_offsets: bool, unsafe: bool) -> None:
    """Errors: ShapeError for segments of less than nothing, beyond the data, or, by lengths, not of all of it."""
    problem = ""
    if (np.diff(ends) < 0).any():
        problem = "offsets must not decrease" if by_offsets else "lengths contains negative value!"
    elif by_offsets and ((ends < 0) | (ends > size)).any():
        problem = f"offsets must be between 0 and {size}"
    elif not by_offsets and ((ends[..., -1] > size) | (ends[..., -1] != size) & (not unsafe)).any():
        problem = (
            "segment_reduce(): Expected all rows of lengths along axis to sum to "
            "data.size(lengths.dim()-1) when !unsafe."
        )
    if problem:
        raise ShapeError(
            problem,
            expected=f"segments of the {size} elements along the axis, one behind the other",
            got=f"segments that end at {ends[..., 1:].tolist()}",
            fix="check the offsets" if by_offsets else "check the lengths",
        )


_STARTS = {"sum": 0, "mean": 0, "prod": 1, "max": -float("inf"), "min": float("inf")}


def _segments(
    x: Tensor, ends: np.ndarray, axis: int, kind: str, initial: float | complex | None
) -> Any:
    """The segments of the rows in front of an axis, one row after the other."""
    if axis:
        rows = [
            _segments(part, end, axis - 1, kind, initial) for part, end in zip(x, ends, strict=True)
        ]
        return stack(rows, 0)
    if kind in ("sum", "mean"):
        return _sums(x, ends, kind == "mean", initial)
    found = [
        _segment(x[int(start) : int(end)], kind, initial)
        for start, end in zip(ends[:-1], ends[1:], strict=True)
    ]
    return stack(found, 0)


def _sums(x: Tensor, ends: np.ndarray, mean: bool, initial: float | complex | None) -> Any:
    """Sums or means of all segments at once: each element is added where its segment is, halves in float32."""
    counts = np.diff(ends)
    segments = host.from_numpy(np.repeat(np.arange(len(counts)), counts))
    start = widen(full((len(counts), *x._shape[1:]), 0 if initial is None else initial, x._dtype))
    total = start.index_add(0, segments, widen(x[int(ends[0]) : int(ends[-1])]))
    if not mean:
        return cast(total, x._dtype)
    kept = 1 if initial is not None else 0  # an empty segment is nan, or what it starts from
    sizes = host.from_numpy(np.maximum(counts, kept), total._dtype)
    means = total / sizes.reshape((-1, *(1,) * (len(x._shape) - 1)))
    return cast(means, x._dtype) if start._dtype is not x._dtype else means


def _segment(x: Tensor, kind: str, initial: float | complex | None) -> Any:
    start = full(x._shape[1:], _STARTS[kind] if initial is None else initial, x._dtype)
    if not x._shape[0]:
        return start + x.sum(0)  # nothing, of which it depends all the same
    return start * x.prod(0) if kind == "prod" else _Extreme.apply(x, start, kind)


class _Extreme(Function):
    """The largest or the smallest of the elements of a segment and a start. Its gradient goes, in equal parts, to the
    elements that are the result: to none if it is the start alone. (n, *) , (*) -> (*)"""

    @staticmethod
    def forward(ctx: FunctionCtx, x: Tensor, start: Tensor, kind: str) -> Any:
        best = x.amax(0) if kind == "max" else x.amin(0)
        best = call("maximum" if kind == "max" else "minimum", best, start)
        ctx.save_for_backward(x, best)
        return best

    @staticmethod
    def backward(ctx: FunctionCtx, g: Tensor) -> Any:
        x, best = ctx.saved_tensors
        chosen = (x == best) | (x.isnan() & best.isnan())
        count = chosen.sum(0).clamp(min=1)
        return where(chosen, g / count, 0), None, None


def safe_softmax(self: Tensor, dim: int, dtype: DType | None = None) -> Any:
    """`softmax`, with zeros where all elements along the dimension are minus infinity. Shapes: as `self`."""
    need_tensor("_safe_softmax", self, "self")
    axis = wrap_dim(dim, len(self._shape))
    if not self._shape:
        return softmax(self, axis, dtype)
    masked = reduce("all", call("eq", self, -float("inf")), (axis,), True)
    shares = softmax(where(masked, 0, self), axis, dtype)
    return where(masked, 0, shares)


def max_pool2d_with_indices_backward(
    grad_output: Tensor,
    self: Tensor,
    kernel_size: list[int],
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    ceil_mode: bool,
    indices: Tensor,
) -> Any:
    """The cotangent of `max_pool2d`'s input, by the places of the largest.

    Shapes: (*, h, w), (*, H, W) -> (*, H, W).
    """
    *lead, high, wide = need_tensor("max_pool2d_with_indices_backward", self, "self", 2)._shape
    start = grad_output.new_zeros((*lead, high * wide))
    flat = (*lead, indices._shape[-2] * indices._shape[-1])
    found = start.scatter_add(-1, indices.reshape(flat), grad_output.reshape(flat))
    found = found.reshape(self._shape)
    # Of second order, `self` gets zeros: which elements are the largest does not change.
    found = where(self.new_zeros(self._shape, dtype=dtypes.bool_), self, found)
    channels_last = not self.is_contiguous() and self.is_contiguous(
        memory_format=weft.channels_last
    )
    return found.contiguous(memory_format=weft.channels_last) if channels_last else found


class Packet:
    """A function under PyTorch's names of its overloads: `.default`, `.Tensor`."""

    def __init__(self, function: Callable[..., object]) -> None:
        self._function = function
        self.__name__ = function.__name__

    def __call__(self, *args: object, **kwargs: object) -> Any:
        return self._function(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self._function


class Aten:
    """`weft.ops.aten`: the functions by the names that PyTorch's graphs have for them. Those of `weft` come before
    those of `nn.functional`, which take arguments in another order; methods are last. `linalg_qr` is `linalg.qr`."""

    def __getattr__(self, name: str) -> Packet:
        package, _, member = name.partition("_")
        places = [(place, name) for place in (_ATEN, weft, functional, weft.Tensor)]
        places += [(getattr(weft, package), member)] if package in ("fft", "linalg") else []
        for place, key in places if not name.startswith("__") else ():
            found = getattr(place, key, None)
            if callable(found) and not isinstance(found, type):
                return Packet(found)
        raise AttributeError(f"weft.ops.aten has no function {name!r}")


aten = Aten()
FUNCTIONS: dict[str, Any] = {
    f"_{function.__name__}": function
    for function in (
        softmax_backward_data,
        native_batch_norm_legit,
        batch_norm_with_update,
        upsample_bilinear2d_aa,
        unsafe_masked_index,
        unsafe_masked_index_put_accumulate,
        chunk_cat,
        segment_reduce,
        safe_softmax,
    )
}


def tanh_backward(grad_output: Tensor, output: Tensor) -> Any:
    """The cotangent of `tanh`'s input, by its result."""
    return grad_output * (1 - output * output)


def sigmoid_backward(grad_output: Tensor, output: Tensor) -> Any:
    """The cotangent of `sigmoid`'s input, by its result."""
    return grad_output * output * (1 - output)


def threshold_backward(grad_output: Tensor, self: Tensor, threshold: Scalar) -> Any:
    """The cotangent of `threshold`'s input; of `relu`'s where the threshold is 0."""
    return weft.where(self <= threshold, 0, grad_output)


def log_softmax_backward_data(
    grad_output: Tensor, output: Tensor, dim: int, input_dtype: DType
) -> Any:
    """The cotangent of `log_softmax`'s input, by its result y: g - exp(y) sum(g)."""
    return (grad_output - output.exp() * grad_output.sum(dim, keepdim=True)).to(input_dtype)


def _backward_of(function: Callable[..., object]) -> Callable[..., object]:
    def backward(grad_output: Tensor, self: Tensor, *args: object, **kwargs: object) -> object:
        _, vjp = weft.func.vjp(lambda x: function(x, *args, **kwargs), self)
        return vjp(grad_output)[0]

    backward.__name__ = f"{function.__name__}_backward"
    backward.__doc__ = f"The cotangent of `{function.__name__}`'s input."
    return backward


# Functions whose derivative PyTorch has under a name of its own: it takes the cotangent, then what the function takes.
_DERIVED = "gelu glu hardsigmoid hardswish hardtanh leaky_relu mish silu softplus"


def _to_copy(input: Tensor, *, dtype: DType | None = None, **placed: object) -> Any:
    """A copy, of another type where one is given."""
    return input.to(input.dtype if dtype is None else dtype, copy=True)


def alias(input: Tensor) -> Any:
    """Another handle of the same values."""
    return input.view(input.shape)


def index(input: Tensor, indices: Any) -> Any:
    """`input[indices]`, where None takes all of a dimension."""
    return input[tuple(span(None) if place is None else place for place in indices)]


def _only_on_gpu(name: str) -> Callable[..., NoReturn]:
    def refused(*arguments: object, **options: object) -> NoReturn:
        raise NotDefinedError(
            f"{name}: a kernel of a GPU, or of numbers of 8 bits, which are not here",
            expected="matmul, or nn.functional.scaled_dot_product_attention",
            got=name,
            fix="call the function that it is a kernel of",
        )

    refused.__name__ = refused.__qualname__ = name
    refused.__doc__ = "Errors: NotImplementedError."
    return refused


_scaled_mm, _scaled_mm_v2 = _only_on_gpu("_scaled_mm"), _only_on_gpu("_scaled_mm_v2")
_ATTENTION = ("_flash_attention_forward", "_efficient_attention_forward")
_ATEN = SimpleNamespace(
    **KERNELS,
    **{name: _only_on_gpu(name) for name in _ATTENTION},
    **{f"{name}_backward": _backward_of(getattr(functional, name)) for name in _DERIVED.split()},
    _log_softmax_backward_data=log_softmax_backward_data,
    sigmoid_backward=sigmoid_backward,
    tanh_backward=tanh_backward,
    threshold_backward=threshold_backward,
    **FUNCTIONS,
    max_pool2d_with_indices_backward=max_pool2d_with_indices_backward,
    _to_copy=_to_copy,
    alias=alias,
    index=index,
    _sparse_addmm=weft.addmm,
    _pin_memory=weft.Tensor.pin_memory,
)
for _name, _function in FUNCTIONS.items():
    _function.__name__ = _name
globals().update(FUNCTIONS)
publish(globals())
