# ruff: noqa: A001, A002 - PyTorch's names
# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False, annotation_typing=False
"""Products: matmul in all ranks, mm, bmm, mv, dot, outer, linear.

Everything becomes the one `matmul` row (two dimensions and more, leading ones broadcast), vectors by reshaping.
Operands of different types raise: a product never promotes.
"""

from __future__ import annotations

import math
from typing import Any

import cython
from cython.cimports.weft.engine.frontend.recorder import record
from cython.cimports.weft.engine.frontend.tensor import Tensor
from cython.cimports.weft.engine.ir.dtype import DType
from cython.cimports.weft.engine.ir.primitive import Primitive

from weft._build.compiled import require
from weft.engine.api.api_function import records_one
from weft.engine.dispatch.type_names import C_NAMES, TYPE_NAMES, no_kernel_for
from weft.engine.frontend.recorder import cast
from weft.engine.ir import dtype as dtypes
from weft.engine.ir.strides import broadcast_shapes
from weft.errors import DTypeError, ShapeError, UnsupportedDTypeError
from weft.functional.support.variants import write_out
from weft.ops import OPS
from weft.ops.primitives import elementwise as call
from weft.ops.primitives import reduce, reshape, transpose
from weft.tensor.arguments import Shape, describe, need_tensor

require(__name__, cython.compiled)

LONG = 256  # elements of an inner product from which it is a sum: a product adds up one after the other
PACKED_ROWS = 8  # rows of integers from which packing a matrix pays
SMALL = 4096  # elements of a matrix of integers that is packed for any rows
_MATMUL = OPS["matmul"]
_LINEAR = OPS["linear"]
_LINEAR_BIAS = cython.declare(Primitive, OPS["linear_bias"])
_last_read = cython.declare(tuple, ())  # a shape that `linear` has read, and what it has made of it
_last_made = cython.declare(tuple, ())


# What PyTorch says of operands of two types, by the kernel that would have multiplied them.
_OTHER_TYPES = {
    "mm": "expected m1 and m2 to have the same dtype, but got: {c_a} != {c_b}",
    "mv": "addmv input tensors must have the same dtype, but got {b}, {a}, and {b}",
    "bmm": "expected scalar type {a} but found {b}",
    "dot": "dot : expected both vectors to have same dtype, but found {a} and {b}",
    "tensordot": "both inputs should have same dtype",
}


def _same_dtype(name: str, a: Tensor, b: Tensor, kernel: str = "") -> None:
    if a._dtype is b._dtype:
        return
    batches = len(b._shape) > 2 or name == "einsum"
    words = _OTHER_TYPES.get(kernel or name) or _OTHER_TYPES["bmm" if batches else "mm"]
    types = a._dtype.name, b._dtype.name
    raise DTypeError(
        words.format(
            a=TYPE_NAMES[types[0]],
            b=TYPE_NAMES[types[1]],
            c_a=C_NAMES[types[0]],
            c_b=C_NAMES[types[1]],
        ),
        expected="two operands of one dtype",
        got=f"{describe('a', a)}, {describe('b', b)}",
        fix="convert one with .to(other.dtype)",
        operation=name,
    )


def _mismatch(name: str, a: Tensor, b: Tensor, text: str) -> ShapeError:
    shape_a, shape_b = a._shape, b._shape
    inner = shape_b[-2] if len(shape_b) > 1 else shape_b[0]
    fix = (
        "pass b.mT"
        if len(shape_b) > 1 and shape_a[-1] == shape_b[-1]
        else f"build the layer with in_features={shape_a[-1]}"
    )
    return ShapeError(
        text,
        expected="a.shape[-1] == b.shape[-2]",
        got=f"{describe('a', a)}, {describe('b', b)} ({shape_a[-1]} != {inner})",
        fix=fix,
        operation=name,
    )


def product(a: Tensor, b: Tensor, name: str = "matmul") -> Any:
    """The matmul row on operands of two dimensions and more, checked."""
    shape_a, shape_b = a._shape, b._shape
    if a._dtype is not b._dtype:
        _same_dtype(name, a, b)
    if shape_a[-1] != shape_b[-2]:
        if len(shape_a) == 2 or len(shape_b) == 2:
            rows = shape_a[-2] if len(shape_a) == 2 else math.prod(shape_a[:-1])
            text = f"mat1 and mat2 shapes cannot be multiplied ({rows}x{shape_a[-1]} and {shape_b[-2]}x{shape_b[-1]})"
        else:
            text = (
                f"Expected size for first two dimensions of batch2 tensor to be: [{math.prod(shape_a[:-2])}, "
                f"{shape_a[-1]}] but got: [{math.prod(shape_b[:-2])}, {shape_b[-2]}]."
            )
        raise _mismatch(name, a, b, text)
    if (a._dtype.category < 2 or a._dtype.itemsize == 2) and not _is_whole_product(a, b):
        return _unusual_product(a, b)
    if len(shape_a) == 2 and len(shape_b) == 2:
        lead: Shape = ()
    else:
        lead = (
            shape_a[:-2]
            if shape_a[:-2] == shape_b[:-2]
            else broadcast_shapes([shape_a[:-2], shape_b[:-2]], name)
        )
    return record(_MATMUL, (a, b), None, (*lead, shape_a[-2], shape_b[-1]), a._dtype)


def _is_whole_product(a: Tensor, b: Tensor) -> bool:
    """True if operands are integers whose product is worth its kernel, which may have to pack the right one."""
    rows, (size, columns) = a._shape[-2], b._shape[-2:]
    if a._dtype.category != 1 or rows < 2 or columns < 2:
        return False
    return rows >= PACKED_ROWS or size * columns <= SMALL


def _unusual_product(a: Tensor, b: Tensor) -> Any:
    """Products that the GEMM family lacks, or is slow at: half types run in float32 and round once, integers multiply
    and sum."""
    if a._dtype.category == 2:
        return cast(product(cast(a, dtypes.float32), cast(b, dtypes.float32)), a._dtype)
    if a._dtype.category == 0:
        raise UnsupportedDTypeError(
            no_kernel_for("addmm_impl_cpu_", "bool"),
            expected="numeric operands",
            got=describe("a", a),
            fix="convert with .float() first",
        )
    left = reshape(a, (*a._shape, 1))
    right = reshape(b, (*b._shape[:-2], 1, *b._shape[-2:]))
    terms = left * right  # (..., m, k, 1) * (..., 1, k, n) -> (..., m, k, n)
    return reduce("sum", terms, (len(terms._shape) - 2,))


def matmul(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Any:
    """The matrix product: dot for two vectors, otherwise over the last two dimensions, leading ones broadcast.

    Shapes: (..., m, k) @ (..., k, n) -> (..., m, n). Errors: ShapeError, DTypeError.
    """
    if not isinstance(input, Tensor) or not isinstance(other, Tensor):
        need_tensor("matmul", input)
        need_tensor("matmul", other, "other", 2)
    rank_a, rank_b = len(input._shape), len(other._shape)
    matrices = rank_a >= 2 and rank_b >= 2
    result = product(input, other) if matrices else _vector_product(input, other, rank_a, rank_b)
    return result if out is None else write_out(out, result)


def _vector_product(a: Tensor, b: Tensor, rank_a: int, rank_b: int) -> Any:
    if not rank_a or not rank_b:
        raise ShapeError(
            f"both arguments to matmul need to be at least 1D, but they are {rank_a}D and {rank_b}D",
            expected="vectors or matrices",
            got=f"{describe('a', a)}, {describe('b', b)}",
            fix="use * to multiply by a number",
        )
    if rank_a == 1 and rank_b == 1:
        return dot(a, b)
    if rank_b == 1:
        _same_dtype("matmul", a, b, "mv")
        if a._shape[-1] != b._shape[0]:
            raise _mismatch(
                "matmul",
                a,
                b,
                f"size mismatch, got input ({math.prod(a._shape[:-1])}), mat "
                f"({math.prod(a._shape[:-1])}x{a._shape[-1]}), vec ({b._shape[0]})",
            )
        result = product(a, reshape(b, (b._shape[0], 1)))  # (..., m, k) @ (k, 1) -> (..., m, 1)
        return reshape(result, result._shape[:-1])
    result = product(reshape(a, (1, a._shape[0])), b)  # (1, k) @ (..., k, n) -> (..., 1, n)
    return reshape(result, (*result._shape[:-2], result._shape[-1]))


def matmul_operator(a: object, b: object) -> Any:
    """`a @ b`: NotImplemented where one is no tensor."""
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return matmul(a, b)
    return NotImplemented


def _need_rank(name: str, tensor: Tensor, rank: int, argument: str, text: str) -> None:
    if len(need_tensor(name, tensor, argument)._shape) != rank:
        raise ShapeError(
            text,
            expected=f"{rank} dimensions",
            got=describe(argument, tensor),
            fix="use weft.matmul",
        )


def mm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Any:
    """The product of two matrices. Shapes: (m, k), (k, n) -> (m, n)."""
    _need_rank("mm", input, 2, "self", "self must be a matrix")
    _need_rank("mm", mat2, 2, "mat2", "mat2 must be a matrix")
    result = product(input, mat2, "mm")
    return result if out is None else write_out(out, result)


def bmm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Any:
    """Products of matrices in a batch. Shapes: (b, m, k), (b, k, n) -> (b, m, n)."""
    _need_rank("bmm", input, 3, "batch1", "batch1 must be a 3D tensor")
    _need_rank("bmm", mat2, 3, "batch2", "batch2 must be a 3D tensor")
    if input._shape[0] != mat2._shape[0]:
        raise ShapeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{input._shape[0]}, "
            f"{input._shape[2]}] but got: [{mat2._shape[0]}, {mat2._shape[1]}].",
            expected="equal batch sizes",
            got=f"{describe('input', input)}, {describe('mat2', mat2)}",
            fix="expand one of them, or use weft.matmul",
        )
    result = product(input, mat2, "bmm")
    return result if out is None else write_out(out, result)


def mv(input: Tensor, vec: Tensor, *, out: Tensor | None = None) -> Any:
    """The product of a matrix and a vector."""
    need_tensor("mv", input, "input", 1)
    need_tensor("mv", vec, "vec", 2)
    _need_rank(
        "mv",
        input,
        2,
        "input",
        f"vector + matrix @ vector expected, got 1, {len(input._shape)}, {len(vec._shape)}",
    )
    result = matmul(input, vec)
    return result if out is None else write_out(out, result)


def dot(input: Tensor, tensor: Tensor, *, out: Tensor | None = None) -> Any:
    """The inner product of two vectors; of long ones a sum of products, which is added up in several lanes."""
    need_tensor("dot", input, "input", 1)
    need_tensor("dot", tensor, "tensor", 2)
    if len(input._shape) != 1 or len(tensor._shape) != 1:
        raise ShapeError(
            f"1D tensors expected, but got {len(input._shape)}D and {len(tensor._shape)}D tensors",
            expected="two vectors",
            got=f"{describe('input', input)}, {describe('tensor', tensor)}",
            fix="use weft.matmul",
        )
    _same_dtype("dot", input, tensor)
    if input._shape != tensor._shape:
        raise ShapeError(
            "inconsistent tensor size, expected tensor "
            f"{list(input._shape)} and src {list(tensor._shape)} to have the same number of elements, but "
            f"got {input._shape[0]} and {tensor._shape[0]} elements respectively",
            expected="vectors of one length",
            got=f"{describe('input', input)}, {describe('tensor', tensor)}",
            fix="cut or pad one",
        )
    result = inner_product(input, tensor, "dot")
    return result if out is None else write_out(out, result)


def inner_product(x: Tensor, y: Tensor, name: str) -> Any:
    """The sum of the products of two vectors of one length."""
    size = x._shape[0]
    if size >= LONG and x._dtype is y._dtype and x._dtype.name in ("float32", "float64"):
        return reduce("sum", x * y, (0,))
    return reshape(product(reshape(x, (1, size)), reshape(y, (size, 1)), name), ())


def vdot(input: Tensor, other: Tensor) -> Any:
    """dot(conj(input), other)."""
    need_tensor("vdot", input, "input", 1)
    need_tensor("vdot", other, "other", 2)
    return dot(call("conj", input) if input._dtype.is_complex else input, other)


def outer(input: Tensor, vec2: Tensor, *, out: Tensor | None = None) -> Any:
    """All products of the elements of two vectors. Shapes: (n), (m) -> (n, m)."""
    need_tensor("outer", input, "input", 1)
    need_tensor("outer", vec2, "vec2", 2)
    _need_rank(
        "outer",
        input,
        1,
        "input",
        f"outer: Expected 1-D argument self, but got {len(input._shape)}-D",
    )
    _need_rank(
        "outer", vec2, 1, "vec2", f"outer: Expected 1-D argument vec2, but got {len(vec2._shape)}-D"
    )
    result = reshape(input, (input._shape[0], 1)) * vec2
    return result if out is None else write_out(out, result)


def _plain(a: Tensor, b: Tensor) -> bool:
    """True if the GEMM family takes both operands as they are."""
    return a._dtype is b._dtype and a._dtype.category >= 2 and a._dtype.itemsize != 2


@cython.cfunc
@cython.locals(input=Tensor, weight=Tensor, added=Tensor, dtype=DType)
def _joined(input: Tensor, weight: Tensor, bias: object) -> Any:
    """`linear` where the product's kernel adds the bias and all sizes fit; None elsewhere."""
    global _last_read, _last_made
    if not isinstance(bias, Tensor):
        return None
    added = bias
    dtype = input._dtype
    if (
        weight._dtype is not dtype
        or added._dtype is not dtype
        or dtype.category != 2
        or dtype.itemsize == 2
        or len(weight._shape) != 2
        or not input._shape
        or input._shape[-1] != weight._shape[1]
        or len(added._shape) != 1
        or added._shape[0] != weight._shape[0]
    ):
        return None
    if len(input._shape) == 1:
        shape = added._shape
    elif input._shape is _last_read and _last_made[-1] == added._shape[0]:
        shape = _last_made
    else:
        shape = _last_made = (*input._shape[:-1], added._shape[0])
        _last_read = input._shape
    return record(_LINEAR_BIAS, (input, weight, added), None, shape, dtype)


@records_one
def linear(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, *, out: Tensor | None = None
) -> Any:
    """input @ weight.T + bias. Shapes: (*, in), (out, in), (out) -> (*, out). Errors: ShapeError, DTypeError."""
    if out is not None:
        return write_out(out, linear(input, weight, bias))
    if not isinstance(input, Tensor) or not isinstance(weight, Tensor):
        need_tensor("linear", input)
        need_tensor("linear", weight, "weight", 2)
    joined = None if bias is None else _joined(input, weight, bias)
    if joined is not None:
        return joined
    read, shape = input._shape, weight._shape  # (*, in), (out, in)
    if len(shape) == 2 and len(read) > 0 and _plain(input, weight):
        if read[-1] != shape[1]:
            text = (
                f"mat1 and mat2 shapes cannot be multiplied ({math.prod(read[:-1])}x{read[-1]} and "
                f"{shape[1]}x{shape[0]})"
            )
            raise _mismatch("linear", input, transpose(weight), text)
        shape = (*read[:-1], shape[0])
        result = record(_LINEAR, (input, weight), None, shape, input._dtype)
    elif len(weight._shape) < 2:
        result = matmul(input, weight)
    elif len(weight._shape) > 2:
        raise ShapeError(
            f"linear: t() expects a tensor with <= 2 dimensions, but self is {len(weight._shape)}D",
            expected="a weight of shape (out, in)",
            got=describe("weight", weight),
            fix="use input @ weight.mT for a weight per batch",
        )
    else:
        result = matmul(input, transpose(weight))  # (*, in) @ (in, out) -> (*, out)
    return result if bias is None else result + bias


FUNCTIONS: dict[str, Any] = {
    function.__name__: function for function in (matmul, mm, bmm, mv, dot, vdot, outer)
}
FUNCTIONS["ger"] = outer
METHODS: dict[str, Any] = dict(FUNCTIONS)
FUNCTIONS["dsmm"] = mm
HOOKS = {"matmul": matmul_operator}
LINALG: dict[str, Any] = {"matmul": matmul}
