"""Types of parameters, under one name each: the unions that many signatures share.

They are for annotations only, which are strings: nothing is imported here that is not there anyway.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

if TYPE_CHECKING:
    from types import EllipsisType

    import numpy as np

    from weft.engine.frontend.tensor import Tensor
    from weft.engine.ir.dtype import DType
    from weft.engine.ir.grad_edges import AccumulateGrad, OutputEdge
    from weft.engine.ir.node import Node
    from weft.tensor.device import device

Shape: TypeAlias = tuple[int, ...]
Shapes: TypeAlias = Sequence[Shape]
Dims: TypeAlias = int | Sequence[int] | None  # a dimension, several, or all of them
Scalar: TypeAlias = int | float | complex
TensorLike: TypeAlias = "Tensor | Scalar"
# A tensor, as a function that Cython compiles takes it: it checks its argument itself, and says what is wrong with it.
TensorArgument: TypeAlias = "Tensor"
# What stands between the brackets of `x[...]`.
IndexItem: TypeAlias = "Tensor | Array | Sequence[Any] | int | slice | EllipsisType | None"
Index: TypeAlias = "IndexItem | tuple[IndexItem, ...]"
Array: TypeAlias = "np.ndarray[Any, Any]"
DTypeLike: TypeAlias = "DType | type[bool] | type[int] | type[float] | type[complex]"
DeviceLike: TypeAlias = "device | str | int"
# Where the cotangent of an input goes.
GradientEdge: TypeAlias = "Node | OutputEdge | AccumulateGrad | None"
# What optimizers are given: parameters, with names or without, or groups of them with options.
Parameters: TypeAlias = "Iterable[Tensor] | Iterable[tuple[str, Tensor]] | Iterable[dict[str, Any]]"


class FactoryOptions(TypedDict, total=False):
    """Keywords that layers pass on to the functions that create their parameters."""

    device: DeviceLike | None
    dtype: DType | None
