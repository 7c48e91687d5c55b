"""The layout that a new tensor is asked for: strided, or sparse without entries, where that has a meaning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft._typing import Shape
from weft.engine.api.argument_names import need_dense
from weft.engine.dispatch.core_hooks import sparse_library
from weft.engine.ir.dtype import DType
from weft.tensor.layout import jagged, sparse_coo, sparse_csc, sparse_csr, strided

if TYPE_CHECKING:
    from weft.tensor.layout import Layout


def is_dense(layout: Layout | None) -> bool:
    """True for no layout, and for those that are made as strided tensors."""
    return layout is None or layout is strided or layout is jagged


def without_entries(
    name: str, shape: Shape, dtype: DType, layout: Layout | None, requires_grad: bool
) -> Any:
    """A sparse tensor of zeros. Errors: NotImplementedError for layouts of blocks, and of rows of other than a
    matrix."""
    by_lines = (layout is sparse_csr or layout is sparse_csc) and len(shape) == 2
    if layout is not sparse_coo and not by_lines:
        need_dense(name, layout)
    made = sparse_library().sparse_coo_tensor(size=tuple(shape), dtype=dtype)
    made = made.to_sparse(layout=layout) if by_lines else made
    return made.requires_grad_() if requires_grad else made
