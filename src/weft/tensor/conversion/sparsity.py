"""Sparsity of dense tensors, and the way to sparse ones: `to_sparse`, `to_dense`, `sparse_mask`.

A sparse tensor has methods of its own (`weft.sparse`), which is imported when one is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft._typing import Shape
from weft.engine.dispatch.core_hooks import sparse_library
from weft.engine.frontend.recorder import cast
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir.dtype import DType
from weft.errors import ArgumentError, ArgumentTypeError
from weft.tensor.arguments import as_dtype, describe
from weft.tensor.layout import sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr, strided

if TYPE_CHECKING:
    from weft.tensor.layout import Layout


def _library() -> Any:
    return sparse_library()


def to_sparse(
    self: Tensor,
    sparse_dim: int | None = None,
    *,
    layout: Layout | None = None,
    blocksize: Shape | None = None,
    dense_dim: int | None = None,
) -> Any:
    """The entries that are not zero, with their indices; gradients flow back.

    Cost: reads the tensor. Errors: NotDefinedError for a layout other than sparse_coo and sparse_csr.
    """
    return _library().to_sparse(
        self, sparse_dim, layout=layout, blocksize=blocksize, dense_dim=dense_dim
    )


def to_sparse_coo(self: Tensor) -> Any:
    """The entries that are not zero, with an index for each dimension."""
    return _library().to_sparse(self, layout=sparse_coo)


def to_sparse_csr(self: Tensor, dense_dim: int | None = None) -> Any:
    """The entries of a matrix that are not zero, by compressed rows."""
    return _library().to_sparse(self, layout=sparse_csr, dense_dim=dense_dim)


def to_sparse_csc(self: Tensor, dense_dim: int | None = None) -> Any:
    """The entries of a matrix that are not zero, by compressed columns."""
    return _library().to_sparse(self, layout=sparse_csc, dense_dim=dense_dim)


def to_sparse_bsr(self: Tensor, blocksize: Shape, dense_dim: int | None = None) -> Any:
    """The blocks of a matrix that are not zero, by compressed rows."""
    return _library().to_sparse(self, layout=sparse_bsr, blocksize=blocksize, dense_dim=dense_dim)


def to_sparse_bsc(self: Tensor, blocksize: Shape, dense_dim: int | None = None) -> Any:
    """The blocks of a matrix that are not zero, by compressed columns."""
    return _library().to_sparse(self, layout=sparse_bsc, blocksize=blocksize, dense_dim=dense_dim)


def to_dense(
    self: Tensor, dtype: DType | None = None, *, masked_grad: bool | None = None
) -> Tensor:
    """The tensor itself, in another dtype where one is given."""
    return self if dtype is None else cast(self, as_dtype(dtype))  # type: ignore[no-any-return]


def sparse_mask(self: Tensor, mask: Tensor) -> Any:
    """The values at the places where a sparse tensor of the same shape has entries."""
    if not isinstance(mask, Tensor) or mask.layout is strided:  # type: ignore[attr-defined]
        raise ArgumentTypeError(
            "sparse_mask(): mask must be a sparse tensor",
            expected="a sparse tensor of the same shape",
            got=type(mask).__name__,
            fix="use weft.where(mask, x, 0) with a dense mask",
        )
    return _library().sparse_mask(self, mask)


def sparse_dim(self: Tensor) -> int:
    """The number of dimensions that are indexed: 0."""
    return 0


def dense_dim(self: Tensor) -> int:
    """The number of dimensions of the values: all."""
    return len(self._shape)


def _refused(name: str) -> Any:
    def refuse(self: Tensor) -> Any:
        raise ArgumentError(
            f"{name} expected sparse coordinate tensor layout but got Strided",
            expected="a sparse tensor",
            got=describe("self", self),
            fix="convert it with .to_sparse()",
        )

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = "Refuse: the tensor is dense. Errors: RuntimeError."
    return refuse


_OF_SPARSE = (
    "coalesce", "is_coalesced", "indices", "values", "_indices", "_values", "_nnz", "crow_indices",
    "col_indices", "ccol_indices", "row_indices",
)  # fmt: skip
METHODS: dict[str, Any] = {
    "to_sparse": to_sparse,
    "to_sparse_coo": to_sparse_coo,
    "to_sparse_csr": to_sparse_csr,
    "to_sparse_csc": to_sparse_csc,
    "to_sparse_bsr": to_sparse_bsr,
    "to_sparse_bsc": to_sparse_bsc,
    "to_dense": to_dense,
    "sparse_mask": sparse_mask,
    "sparse_dim": sparse_dim,
    "dense_dim": dense_dim,
    "is_sparse": property(lambda self: False),
    "is_sparse_csr": property(lambda self: False),
    **{name: _refused(name) for name in _OF_SPARSE},
}
