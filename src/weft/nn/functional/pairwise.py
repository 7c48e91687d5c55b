"""Functions of pairs of vectors: the bilinear form of two, the distances between all rows of a matrix."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.engine.api.call_cache import composed_of_primitives
from weft.engine.frontend.tensor import Tensor
from weft.errors import ShapeError
from weft.functional.linalg.einsum import einsum
from weft.functional.linalg.norms import check_order, no_points, vector_norm
from weft.functional.support import host
from weft.ops.primitives import reshape
from weft.tensor.arguments import describe, need_tensor


def _check_operands(input1: Tensor, input2: Tensor, weight: Tensor) -> None:
    """Errors: ShapeError where the operands of a bilinear map do not fit each other."""
    first, second, size = input1._shape, input2._shape, weight._shape
    if len(first) != len(second):
        text = f"bilinear(): input dimensions do not match: got {len(first)} and {len(second)}"
    elif len(size) != 3:
        text = f"bilinear(): weight must have 3 dimensions, got {len(size)}"
    else:
        pairs = enumerate(zip(first[:-1], second[:-1], strict=True))
        apart = next(((at, a, b) for at, (a, b) in pairs if a != b), None)
        if apart is not None:
            text = (
                "bilinear(): input batch dimensions do not match at dim {}: got {} and {}".format(
                    *apart
                )
            )
        elif first[-1] != size[1]:
            text = f"bilinear(): input1 size does not match weight size: got {first[-1]} but expected {size[1]}"
        elif second[-1] != size[2]:
            text = f"bilinear(): input2 size does not match weight size: got {second[-1]} but expected {size[2]}"
        else:
            return
    raise ShapeError(
        text,
        expected="inputs (*, a) and (*, b) with a weight (o, a, b)",
        got=f"{describe('input1', input1)}, {describe('input2', input2)}, {describe('weight', weight)}",
        fix="check the sizes of the layer",
    )


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Any:
    """input1^T weight_k input2 for each output k. Shapes: (*, a), (*, b), (o, a, b) -> (*, o)."""
    _check_operands(input1, input2, weight)
    result = einsum("...i,oij,...j->...o", input1, weight, input2)
    return result if bias is None else result + bias


@composed_of_primitives
def pdist(input: Tensor, p: float = 2) -> Any:
    """The p-norm distances between the rows i < j. Shapes: (n, d) -> (n (n - 1) / 2). Errors: ShapeError."""
    need_tensor("pdist", input)
    if len(input._shape) != 2:
        raise ShapeError(
            f"pdist only supports 2D tensors, got: {len(input._shape)}D",
            expected="points (n, d)",
            got=describe("input", input),
            fix="use cdist for points in batches",
        )
    check_order("pdist", p)
    if input._dtype.name not in ("float32", "float64"):
        raise no_points("pdist", "", input)
    count, width = input._shape
    first, second = np.triu_indices(count, 1)
    # (n, n, d), fused away
    apart = reshape(input, (count, 1, width)) - reshape(input, (1, count, width))
    distances = reshape(vector_norm(apart, p, -1), (count * count,))
    return distances.index_select(0, host.from_numpy(first * count + second))


__all__ = ["bilinear", "pdist"]
