"""The standard's linear algebra, and the products that its main namespace has too.

Arrays come in, types joined by the standard's lattice; arrays, or named tuples of them, go out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import weft
from weft.array_api import reductions
from weft.array_api.arguments import Axes, axes_of, joined, need_array, one_axis, refuse
from weft.array_api.manipulation import matrix_transpose
from weft.engine.api.api_function import all_public
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir.dtype import DType

algebra: Any = weft.linalg


class EighResult(NamedTuple):
    """The result of `eigh`."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class QRResult(NamedTuple):
    """The result of `qr`."""

    Q: Tensor
    R: Tensor


class SlogdetResult(NamedTuple):
    """The result of `slogdet`."""

    sign: Tensor
    logabsdet: Tensor


class SVDResult(NamedTuple):
    """The result of `svd`."""

    U: Tensor
    S: Tensor
    Vh: Tensor


def matmul(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The matrix product; leading axes broadcast."""
    return weft.matmul(*joined("matmul", x1, x2))


def tensordot(
    x1: Tensor, x2: Tensor, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2
) -> Tensor:
    """The sum of products over axes of the one array and axes of the other."""
    one, other = joined("tensordot", x1, x2)
    return weft.tensordot(one, other, dims=axes)


def vecdot(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """The dot product along an axis, the first array conjugated."""
    one, other = joined("vecdot", x1, x2)
    for x in (one, other):
        one_axis("vecdot", x.ndim, axis)
    if one.shape[axis] != other.shape[axis]:
        sizes = f"{one.shape[axis]} and {other.shape[axis]}"
        refuse(
            "vecdot", "lengths differ", "one length along the axis", sizes, "choose another axis"
        )
    dtype = one.dtype
    return weft.sum(weft.conj(one) * other, axis, dtype=dtype)


def cholesky(x: Tensor, /, *, upper: bool = False) -> Tensor:
    """The triangular factor of a positive definite matrix. Errors: RuntimeError on others."""
    return algebra.cholesky(need_array("cholesky", x), upper=upper)


def cross(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """The cross product of vectors of size 3 along an axis."""
    one, other = joined("cross", x1, x2)
    for x in (one, other):
        if x.shape[one_axis("cross", x.ndim, axis)] != 3:
            refuse("cross", f"axis {axis}", "size 3", x.shape[axis], "choose another axis")
    return algebra.cross(*weft.broadcast_tensors(one, other), dim=axis)


def det(x: Tensor, /) -> Tensor:
    """The determinant."""
    return algebra.det(need_array("det", x))


def diagonal(x: Tensor, /, *, offset: int = 0) -> Tensor:
    """The diagonal of matrices."""
    return weft.diagonal(need_array("diagonal", x), offset, -2, -1)


def eigh(x: Tensor, /) -> EighResult:
    """Eigenvalues, ascending, and eigenvectors of a symmetric or Hermitian matrix."""
    return EighResult(*algebra.eigh(need_array("eigh", x)))


def eigvalsh(x: Tensor, /) -> Tensor:
    """Eigenvalues of a symmetric or Hermitian matrix, ascending."""
    return algebra.eigvalsh(need_array("eigvalsh", x))


def inv(x: Tensor, /) -> Tensor:
    """The inverse. Errors: RuntimeError on singular matrices."""
    return algebra.inv(need_array("inv", x))


def matrix_norm(
    x: Tensor,
    /,
    *,
    keepdims: bool = False,
    ord: float | str | None = "fro",  # noqa: A002
) -> Tensor:
    """A norm of matrices."""
    need_array("matrix_norm", x)
    return algebra.matrix_norm(x, "fro" if ord is None else ord, keepdim=keepdims)


def matrix_power(x: Tensor, n: int, /) -> Tensor:
    """A matrix multiplied by itself; its inverse where `n` is negative."""
    return algebra.matrix_power(need_array("matrix_power", x), n)


def matrix_rank(x: Tensor, /, *, rtol: float | Tensor | None = None) -> Tensor:
    """The number of singular values above `rtol` times the largest."""
    return algebra.matrix_rank(need_array("matrix_rank", x), rtol=rtol)


def outer(x1: Tensor, x2: Tensor, /) -> Tensor:
    """All products of an element of the one vector and an element of the other."""
    return weft.outer(*joined("outer", x1, x2))


def pinv(x: Tensor, /, *, rtol: float | Tensor | None = None) -> Tensor:
    """The pseudoinverse; singular values below `rtol` times the largest count as 0."""
    return algebra.pinv(need_array("pinv", x), rtol=rtol)


def qr(x: Tensor, /, *, mode: str = "reduced") -> QRResult:
    """An orthonormal and a triangular factor. Errors: ValueError on another mode."""
    if mode not in ("reduced", "complete"):
        refuse("qr", "mode", "'reduced' or 'complete'", repr(mode), "choose one of these")
    return QRResult(*algebra.qr(need_array("qr", x), mode))


def slogdet(x: Tensor, /) -> SlogdetResult:
    """Sign and logarithm of the size of the determinant."""
    return SlogdetResult(*algebra.slogdet(need_array("slogdet", x)))


def solve(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The solution of linear systems; a vector on the right has one axis. Errors: RuntimeError on singular matrices."""
    matrix, right = joined("solve", x1, x2)
    if right.ndim != 1:
        return algebra.solve(matrix, right)
    return algebra.solve(matrix, right.unsqueeze(-1)).squeeze(-1)


def svd(x: Tensor, /, *, full_matrices: bool = True) -> SVDResult:
    """The singular value decomposition."""
    return SVDResult(*algebra.svd(need_array("svd", x), full_matrices=full_matrices))


def svdvals(x: Tensor, /) -> Tensor:
    """The singular values, the largest first."""
    return algebra.svdvals(need_array("svdvals", x))


def trace(x: Tensor, /, *, offset: int = 0, dtype: DType | None = None) -> Tensor:
    """The sum of the diagonal of matrices."""
    return reductions.sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)


def vector_norm(
    x: Tensor,
    /,
    *,
    axis: Axes = None,
    keepdims: bool = False,
    ord: float = 2,  # noqa: A002
) -> Tensor:
    """A norm of vectors along axes."""
    axes = axes_of("vector_norm", need_array("vector_norm", x), axis)
    if not axes:
        size = weft.abs(x)
        return (size != 0).to(size.dtype) if ord == 0 else size
    return algebra.vector_norm(x, ord, axes, keepdims)


__all__ = [
    "cholesky", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "matmul", "matrix_norm", "matrix_power",
    "matrix_rank", "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve", "svd", "svdvals", "tensordot",
    "trace", "vecdot", "vector_norm",
]  # fmt: skip
globals().update(all_public({name: globals()[name] for name in __all__}))
