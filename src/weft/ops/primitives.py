# cython: language_level=3
"""The rows that are not elementwise, as functions on tensors: they work out shapes and record one node.

Derivative rules and the functional layer are written in these. Dimensions are non-negative and in range here, dtypes
already promoted: what a user may get wrong is checked in the functional layer. That operands fit each other's shapes is
checked here once more: kernels read and write as far as shapes say. Results never alias their operand in
the sense of PyTorch's views; views with aliasing are made by `weft.functional.shape.views`.
"""

from typing import TYPE_CHECKING, Any

import cython
from cython.cimports.weft.engine.frontend.meta import shows_meta
from cython.cimports.weft.engine.frontend.node_factory import count_elements
from cython.cimports.weft.engine.frontend.recorder import record, record_elementwise
from cython.cimports.weft.engine.frontend.tensor import Tensor
from cython.cimports.weft.engine.ir.dtype import DType
from cython.cimports.weft.engine.ir.primitive import Primitive

from weft._build.compiled import require
from weft.engine.frontend.node_factory import make_meta, make_scalar
from weft.engine.frontend.tensor_lifecycle import wrap_node
from weft.engine.ir import dtype as dtypes
from weft.engine.ir.strides import contiguous_strides
from weft.errors import ShapeError
from weft.ops.registry import OPS

if TYPE_CHECKING:
    from weft._typing import Scalar, TensorLike
    from weft.engine.backward.apply_vjp import At


require(__name__, cython.compiled)

Shape = tuple


def elementwise(name: str, *operands: TensorLike):
    """Record an elementwise row by name on tensors and Python numbers (at least one tensor)."""
    return record_elementwise(OPS[name], operands, None)


def conj(x: Tensor) -> Any:
    """The complex conjugate; the operand itself where it is real."""
    return record_elementwise(OPS["conj"], (x,), None) if x._dtype.category == 3 else x


def scalar(value: Scalar, dtype: DType):
    """A Python number as a zero-dimensional tensor, a run-time argument of kernels."""
    return wrap_node(make_scalar(value, dtype))


def full(shape: Shape, value: Scalar, dtype: DType):
    """One number in every place."""
    return expand(scalar(value, dtype), shape)


def without_memory(shape: Shape, dtype: DType, strides: Shape | None = None):
    """A tensor on the device meta. Strides are None for row-major order."""
    return wrap_node(make_meta(dtype, shape), None, strides)


def full_beside(x: Tensor, value: Scalar):
    """One number in every place, of the shape and dtype of `x` and on its device."""
    return without_memory(x._shape, x._dtype) if shows_meta(x) else full(x._shape, value, x._dtype)


def zeros_like(x: Tensor):
    """Zeros of the shape and dtype of `x`."""
    return full(x._shape, 0, x._dtype)


def misfit(name: str, why: str, shape: Shape) -> ShapeError:
    """The error of operands that do not fit each other: a function above has asked for what cannot be."""
    return ShapeError(
        f"{name}: {list(shape)}: {why}",
        expected="operands that fit each other",
        got=f"{list(shape)}, which {why}",
        fix="check the shapes at the call",
    )


@cython.cfunc
@cython.exceptval(-1)
def _need_region(
    name: str, whole: tuple, region: tuple, offset: cython.longlong, strides: tuple
) -> cython.int:
    """Errors: ShapeError for a strided region that reaches outside the elements of a shape."""
    low: cython.longlong = offset
    high: cython.longlong = offset
    axis: cython.Py_ssize_t
    size: cython.longlong
    stride: cython.longlong
    for axis in range(len(region)):
        size, stride = region[axis], strides[axis]
        if size == 0:
            return 0
        if stride > 0:
            high += (size - 1) * stride
        else:
            low += (size - 1) * stride
    if low < 0 or high >= count_elements(whole):
        raise misfit(name, f"has no region {list(region)} by {list(strides)} from {offset}", whole)
    return 0


@cython.cfunc
def _call(name, tensors: tuple, params, dtype=None):
    """Record a row whose shape rule has to be asked."""
    op: Primitive = OPS[name]
    shapes: list = []
    for tensor in tensors:
        shapes.append(cython.cast(Tensor, tensor)._shape)
    shape: tuple = op.shape(params, *shapes)
    if dtype is None:
        dtype = cython.cast(Tensor, tensors[0])._dtype
    return record(op, tensors, params, shape, dtype)


def reduce(name: str, x: Tensor, axes: Shape, keepdim: bool = False, dtype: DType | None = None):
    """Reduce over `axes` (ascending): sum prod amax amin any all argmax argmin; a number (no axes) is its own sum."""
    if not axes and name == "sum" and (dtype is None or dtype is x._dtype):
        return x
    shape: tuple = _without(x._shape, axes, keepdim)
    params = (tuple(axes), bool(keepdim))
    return record(OPS[name], (x,), params, shape, x._dtype if dtype is None else dtype)


@cython.cfunc
def _without(shape: tuple, axes, keepdim: cython.bint) -> tuple:
    """The shape of a reduction's result."""
    sizes: list = []
    axis: cython.Py_ssize_t
    for axis in range(len(shape)):
        if axis not in axes:
            sizes.append(shape[axis])
        elif keepdim:
            sizes.append(1)
    return tuple(sizes)


def sum_to(x: Tensor, shape: Shape):
    """Sum over what broadcasting added: the transpose of `expand`."""
    have: tuple = x._shape
    if have == shape:
        return x
    lead = len(have) - len(shape)
    axes = tuple(
        axis
        for axis, size in enumerate(have)
        if axis < lead or (shape[axis - lead] == 1 and size != 1)
    )
    if axes:
        x = reduce("sum", x, axes, keepdim=True)
    return reshape(x, shape)


def reshape(x: Tensor, shape: Shape):
    """The same elements in row-major order under another shape."""
    if x._shape == shape:
        return x
    if count_elements(x._shape) != count_elements(shape):
        raise misfit("view", f"has another number of elements than {list(shape)}", x._shape)
    return record(OPS["view"], (x,), shape, shape, x._dtype)


def permute(x: Tensor, order: Shape):
    """Reorder dimensions."""
    moved: list = []
    still: cython.bint = True
    position: cython.Py_ssize_t
    axis: cython.Py_ssize_t
    for position in range(len(order)):
        axis = order[position]
        moved.append(x._shape[axis])
        if axis != position:
            still = False
    return x if still else record(OPS["permute"], (x,), order, tuple(moved), x._dtype)


def transpose(x: Tensor):
    """Swap the last two dimensions."""
    rank: cython.Py_ssize_t = len(x._shape)
    return permute(x, (1, 0) if rank == 2 else (*range(rank - 2), rank - 1, rank - 2))


def expand(x: Tensor, shape: Shape):
    """Repeat along new leading dimensions and dimensions of size 1, without copying."""
    if x._shape == shape:
        return x
    lead: cython.Py_ssize_t = len(shape) - len(x._shape)
    axis: cython.Py_ssize_t
    if lead < 0:
        raise misfit("expand", f"does not expand to {list(shape)}", x._shape)
    for axis in range(len(x._shape)):
        if x._shape[axis] != 1 and x._shape[axis] != shape[lead + axis]:
            raise misfit("expand", f"does not expand to {list(shape)}", x._shape)
    return record(OPS["expand"], (x,), shape, shape, x._dtype)


def unreduce(g: Tensor, at: At):
    """A reduced cotangent or result, brought back to the input's shape by broadcasting."""
    axes, keepdim = at.params
    shape = at.shapes[0]
    if not keepdim:
        kept = tuple(1 if axis in axes else size for axis, size in enumerate(shape))
        g = reshape(g, kept)
    return expand(g, shape)


def strided(x: Tensor, shape: Shape, offset: int, strides: Shape):
    """A strided region of `x` in row-major order."""
    _need_region("strided", x._shape, shape, offset, strides)
    return record(OPS["strided"], (x,), (offset, strides), shape, x.dtype)


def put(base: Tensor, new: Tensor, offset: int, strides: Shape):
    """`base` with the strided region replaced by `new`: the inverse of every view row."""
    _need_region("put", base._shape, new._shape, offset, strides)
    return record(OPS["put"], (base, new), (offset, strides), base._shape, base._dtype)


def embed(g: Tensor, shape: Shape, offset: int, strides: Shape):
    """`g` in a strided region of zeros; `g` in another shape where that is all of it."""
    if _is_whole(g._shape, shape, offset, strides):
        return reshape(g, shape)
    return put(full(shape, 0, g.dtype), g, offset, strides)


@cython.cfunc
def _is_whole(region: tuple, shape: tuple, offset: int, strides: tuple) -> cython.bint:
    """True if a region is all elements of a shape in their order."""
    if offset != 0 or count_elements(region) != count_elements(shape):
        return False
    pairs = zip(region, strides, contiguous_strides(region), strict=True)
    return all([size == 1 or stride == own for size, stride, own in pairs])


def slice_axis(x: Tensor, axis: int, start: int, length: int, step: int = 1):
    """`length` elements along an axis."""
    if length > 0 and not (start >= 0 and 0 <= start + (length - 1) * step < x._shape[axis]):
        raise misfit("slice", f"has no {length} elements from {start} along {axis}", x._shape)
    params = (axis, start, length, step)
    return record(OPS["slice"], (x,), params, resized(x._shape, axis, length), x._dtype)


@cython.ccall
def resized(shape: tuple, axis: cython.Py_ssize_t, size) -> tuple:
    """A shape with another size along an axis: what the shape rules of slices and joins say."""
    sizes: list = list(shape)
    sizes[axis] = size
    return tuple(sizes)


def flip(x: Tensor, axes: Shape):
    """Reverse the order along axes."""
    return _call("flip", (x,), axes)


def concat(tensors: tuple[Tensor, ...], axis: int):
    """Join along an axis."""
    first: Tensor = tensors[0]
    size: cython.longlong = 0
    for tensor in tensors:
        other: tuple = cython.cast(Tensor, tensor)._shape
        size += cython.cast(cython.longlong, other[axis])
        if other[:axis] != first._shape[:axis] or other[axis + 1 :] != first._shape[axis + 1 :]:
            raise misfit("cat", f"does not fit {list(first._shape)} along {axis}", other)
    return record(OPS["cat"], tensors, (axis,), resized(first._shape, axis, size), first._dtype)


def pad(x: Tensor, widths: tuple[tuple[int, int], ...], value: Scalar = 0):
    """Surround with a constant: (before, after) per dimension, non-negative."""
    shape = tuple(lo + size + hi for size, (lo, hi) in zip(x.shape, widths, strict=True))
    strides = contiguous_strides(shape)
    offset = sum(lo * stride for (lo, _), stride in zip(widths, strides, strict=True))
    return put(full(shape, value, x.dtype), x, offset, strides)


def gather(x: Tensor, axis: int, index: Tensor):
    """out[i][j] = x[index[i][j]][j] along an axis."""
    return _call("gather", (x, index), (axis,))


def scatter_add(base: Tensor, axis: int, index: Tensor, source: Tensor):
    """`base` with source added at index along an axis, in the stable order of the source's elements."""
    return _call("scatter_add", (base, index, source), (axis,))


def scatter(base: Tensor, axis: int, index: Tensor, source: Tensor):
    """`base` with source stored at index along an axis; where indices repeat, the last one stays."""
    return _call("scatter", (base, index, source), (axis,))


def scatter_extremum(base: Tensor, axis: int, index: Tensor, source: Tensor, largest: bool):
    """`base` with the larger (or smaller) of each element and what source holds for it; nan is the extremum."""
    name = "scatter_maximum" if largest else "scatter_minimum"
    return _call(name, (base, index, source), (axis,))


def scatter_product(base: Tensor, axis: int, index: Tensor, source: Tensor):
    """`base` times what source holds for each element, in stable order; without a derivative."""
    return _call("scatter_product", (base, index, source), (axis,))


def take(x: Tensor, axis: int, index: Tensor):
    """Whole slices of an axis, by an index of any shape, which replaces the axis."""
    return _call("take", (x, index), (axis,))


def take_add(base: Tensor, axis: int, index: Tensor, source: Tensor):
    """`base` with slices of source added at index along an axis: the transpose of `take`, in stable order."""
    return _call("take_add", (base, index, source), (axis,))


def take_put(base: Tensor, axis: int, index: Tensor, source: Tensor):
    """`base` with slices along an axis replaced by those of source; the last of repeated indices stays."""
    return write_slices(OPS["take_put"], base, axis, index, source)


def write_slices(op: Primitive, base: Tensor, axis: int, index: Tensor, source: Tensor):
    """`take_put` under the name of a row that is called otherwise."""
    shape: tuple = op.shape((axis,), base._shape, index._shape, source._shape)
    return record(op, (base, index, source), (axis,), shape, base._dtype)


def resample(x: Tensor, axis: int, index: Tensor, weights: Tensor):
    """Along an axis, for each column of an index (taps, places), the sum of the elements there times their weights."""
    return _call("resample", (x, index, weights), (axis, x._shape[axis]))


def resample_transposed(x: Tensor, axis: int, index: Tensor, weights: Tensor, size: int):
    """The transpose of `resample`: elements times weights, added to zeros where the index of their place points."""
    return _call("resample_transposed", (x, index, weights), (axis, size))


def resample_products(x: Tensor, axis: int, index: Tensor, cotangent: Tensor):
    """The derivative of `resample` by its weights: for each tap the product of its elements with a cotangent's."""
    return _call("resample_products", (x, index, cotangent), (axis, x._shape[axis]))


def resample_largest(x: Tensor, axis: int, index: Tensor):
    """Along an axis, for each column of an index (taps, places), where it points at the largest; -1 without a tap."""
    return _call("resample_largest", (x, index), (axis, x._shape[axis]), dtypes.int64)


def matmul(a: Tensor, b: Tensor):
    """Matrix product over the last two dimensions of operands of rank >= 2; leading dimensions broadcast."""
    return _call("matmul", (a, b), None)  # (..., m, k) @ (..., k, n) -> (..., m, n)


def linear(x: Tensor, weight: Tensor):
    """x @ weight.T over the last dimension of x, of any rank from one up."""
    return _call("linear", (x, weight), None)  # (..., k), (n, k) -> (..., n)


def iota(shape: Shape, skip: int = 0):
    """The row-major position of each element within the dimensions after the first `skip`, as int64."""
    return record(OPS["iota"], (), (shape, skip), shape, dtypes.int64)


def cumulate(name: str, x: Tensor, axis: int):
    """cumsum or cumprod along an axis."""
    return _call(name, (x,), (axis,))


def order(x: Tensor, axis: int, kept: int, descending: bool = False):
    """The first `kept` places of a stable sort along an axis, int64; nan is the largest element."""
    return _call("order", (x,), (axis, kept, bool(descending)), dtypes.int64)


def nth_place(x: Tensor, axis: int, number: int, nan: int = 0, first: bool = False):
    """The place of element `number` of the ascending order along an axis, which is kept, int64; `nan` says what nan
    does (`weft.ops.structure.ordering`), `first` asks for the first of equal elements."""
    return _call("nth_place", (x,), (axis, number, nan, bool(first)), dtypes.int64)


def running_place(x: Tensor, axis: int, smallest: bool):
    """The position of the running maximum (or minimum) along an axis, the last of equal ones, int64."""
    return _call("running_place", (x,), (axis, bool(smallest)), dtypes.int64)


def where(condition: TensorLike, a: TensorLike, b: TensorLike):
    """a where the condition holds, else b."""
    return record_elementwise(OPS["where"], (condition, a, b), None)
