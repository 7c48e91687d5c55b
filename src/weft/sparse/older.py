"""Sparse matrices by diagonals, and PyTorch's old constructors: `sparse.FloatTensor(indices, values, size)`."""

from __future__ import annotations

import warnings
from typing import Any

import weft
from weft.errors import ArgumentError, ShapeError
from weft.sparse.making import sparse_coo_tensor


def spdiags(diagonals: Any, offsets: Any, shape: Any, layout: object = None) -> Any:
    """A sparse matrix whose diagonals are rows of `diagonals`; element j of a row is in column j.

    Args: `offsets` has the diagonal of each row: 0 the main one, above it positive, below negative. `layout` is None,
    `weft.sparse_coo` or `weft.sparse_csr`. Shapes: (d, k), (d,) -> `shape`. Errors: ValueError for an offset that
    comes twice, ShapeError for other shapes."""
    rows = weft.atleast_2d(diagonals)
    steps = weft.atleast_1d(offsets).tolist()
    if len(shape) != 2 or len(steps) != rows.shape[0]:
        raise ShapeError(
            "Number of diagonals (first dimension of diagonals) must match the number of offsets, and shape have two",
            expected=f"{rows.shape[0]} offsets, a shape of two sizes",
            got=f"{len(steps)} offsets, shape {tuple(shape)}",
            fix="pass an offset for each row of diagonals",
        )
    if len(set(steps)) != len(steps):
        raise ArgumentError(
            "Offset tensor contains duplicate values",
            expected="different offsets",
            got=str(steps),
            fix="add the rows of one offset before",
        )
    width = min(rows.shape[1], shape[1])
    columns = weft.arange(width).repeat(len(steps))
    lines = columns - weft.tensor(steps).repeat_interleave(width)
    inside = (lines >= 0) & (lines < shape[0])
    places = weft.stack([lines[inside], columns[inside]])
    made = sparse_coo_tensor(places, rows[:, :width].reshape(-1)[inside], tuple(shape))
    return made.to_sparse(layout=layout) if layout is not None else made


def _older(name: str, dtype: Any) -> Any:
    def make(*args: Any, device: Any = None) -> Any:
        warnings.warn(
            f"weft.sparse.{name}() is deprecated. Please use weft.sparse_coo_tensor(..., dtype=).",
            UserWarning,
            stacklevel=2,
        )
        if len(args) >= 2 and isinstance(args[0], weft.Tensor):
            return sparse_coo_tensor(*args, dtype=dtype)
        size = args[0] if len(args) == 1 and isinstance(args[0], tuple | list) else args
        return sparse_coo_tensor(size=tuple(size), dtype=dtype)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"A sparse {dtype.name} tensor of indices, values and a size, or one of a size without entries."
    return make


_TYPES = {
    "BFloat16": weft.bfloat16, "Byte": weft.uint8, "Char": weft.int8, "Double": weft.float64, "Float": weft.float32,
    "Half": weft.float16, "Int": weft.int32, "Long": weft.int64, "Short": weft.int16,
}  # fmt: skip
TYPES: dict[str, Any] = {
    f"{name}Tensor": _older(f"{name}Tensor", dtype) for name, dtype in _TYPES.items()
}
