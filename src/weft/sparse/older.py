"""Sparse matrices by diagonals, and PyTorch's old constructors: `sparse.FloatTensor(indices, values, size)`."""

from __future__ import annotations

import warnings
from typing import Any

import weft
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir.dtype import DType
from weft.errors import ArgumentError, ArgumentTypeError, ShapeError, rooted
from weft.sparse.making import sparse_coo_tensor
from weft.tensor.legacy_constructors import TensorType
from weft.tensor.size import Size


def spdiags(diagonals: Any, offsets: Any, shape: Any, layout: object = None) -> Any:
    """A sparse matrix whose diagonals are rows of `diagonals`; element j of a row is in column j.

    Args: `offsets` has the diagonal of each row: 0 the main one, above it positive, below negative. `layout` is None,
    `weft.sparse_coo` or `weft.sparse_csr`. Shapes: (d, k), (d,) -> `shape`. Errors: ValueError for an offset that
    comes twice, ShapeError for other shapes."""
    rows = weft.atleast_2d(diagonals)
    steps = weft.atleast_1d(offsets).tolist()
    if len(shape) != 2:
        raise ShapeError(
            "Output shape must be 2d",
            expected="two sizes",
            got=f"shape {tuple(shape)}",
            fix="pass the rows and columns of the matrix",
        )
    if len(steps) != rows.shape[0]:
        raise ShapeError(
            "Number of diagonals (first dimension of diagonals) must match the number of offsets, and shape have two",
            expected=f"{rows.shape[0]} offsets",
            got=f"{len(steps)} offsets",
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


class SparseTensorType(TensorType):
    """An old constructor such as `sparse.FloatTensor`; its `dtype` is what its instances have.

    Args:
        *arguments: indices, values and perhaps a size; or a size, of a tensor without entries.
        **keywords: `device`, where it lies.
    """

    def __init__(self, name: str, dtype: DType) -> None:
        super().__init__(name, dtype)
        self.__module__ = "weft.sparse"

    def __call__(self, *arguments: object, **keywords: object) -> Any:
        given, instead = _signatures(arguments)
        device: Any = keywords.pop("device", None)
        warnings.warn(
            f"torch.sparse.SparseTensor({given}) is deprecated.  Please use torch.sparse_coo_tensor({instead}).",
            UserWarning,
            stacklevel=2,
        )
        if len(arguments) >= 2 and isinstance(arguments[0], Tensor):
            parts: Any = arguments
            return sparse_coo_tensor(*parts, device=device)
        first = arguments[0] if arguments else 0
        size: Any = first if isinstance(first, Size) else arguments or (0,)
        if not all(isinstance(one, int) for one in size):
            raise ArgumentTypeError(
                "torch.sparse.SparseTensor(sequence) only accepts sizes.  Please use torch.sparse_coo_tensor() or "
                "construct a strided tensor and convert it to sparse via to_sparse.",
                expected="indices, values and a size, or a size alone",
                got=f"a {type(first).__name__}",
                fix="use weft.tensor(...).to_sparse()",
            )
        return sparse_coo_tensor(size=tuple(size), dtype=self.dtype, device=device)

    def __instancecheck__(self, value: Tensor | int) -> bool:
        return (
            isinstance(value, Tensor)
            and value.layout is weft.sparse_coo
            and value.dtype is self.dtype
        )

    def __repr__(self) -> str:
        return rooted(f"weft.sparse.{self.__name__}")


def _signatures(arguments: tuple[object, ...]) -> tuple[str, str]:
    """The parameters of an old constructor as it was called, and those of the function in its place."""
    if not arguments:
        return "", "(0,), dtype="
    parts = ("indices", "values", "shape") if isinstance(arguments[0], Tensor) else ("shape",)
    words = ", ".join(parts[: len(arguments)])
    return f"{words}, *, device=", f"{words}, dtype=, device="


_TYPES = {
    "BFloat16": weft.bfloat16, "Byte": weft.uint8, "Char": weft.int8, "Double": weft.float64, "Float": weft.float32,
    "Half": weft.float16, "Int": weft.int32, "Long": weft.int64, "Short": weft.int16,
}  # fmt: skip
TYPES: dict[str, Any] = {
    f"{name}Tensor": SparseTensorType(f"{name}Tensor", dtype) for name, dtype in _TYPES.items()
}
