"""Sparse matrices of blocks (BSR, BSC): a matrix of blocks by coordinates, each of which is a small dense matrix.

`places` of such a tensor says which block, `entries` (blocks, rows of one, columns of one) what it holds. As a grid it
is an ordinary tensor by coordinates whose dense dimensions are those of a block: what is known of these serves here.
"""

from __future__ import annotations

from typing import Any

import weft
from weft import Tensor
from weft.sparse.tensor import SparseTensor, make

Size = tuple[int, int]


def block_size(tensor: SparseTensor) -> Size | None:
    """The sizes of a block; None for a tensor of single elements."""
    if tensor.layout is not weft.sparse_bsr and tensor.layout is not weft.sparse_bsc:
        return None
    return int(tensor.entries.shape[1]), int(tensor.entries.shape[2])


def grid(tensor: SparseTensor) -> SparseTensor:
    """The blocks as entries by coordinates. Shapes: (m, n) -> (m / b, n / c, b, c)."""
    rows, columns = tensor.entries.shape[1:]
    shape = (tensor.shape[0] // rows, tensor.shape[1] // columns, rows, columns)
    return make(tensor.places, tensor.entries, shape, tensor.layout is weft.sparse_bsr)


def to_grid(dense: Tensor, size: Size) -> Any:
    """The blocks of a dense matrix. Shapes: (m, n) -> (m / b, n / c, b, c)."""
    rows, columns = size
    tiles = dense.reshape(dense.shape[0] // rows, rows, dense.shape[1] // columns, columns)
    return tiles.permute(0, 2, 1, 3)


def from_grid(blocks: Tensor) -> Any:
    """The dense matrix of blocks. Shapes: (m / b, n / c, b, c) -> (m, n)."""
    down, across, rows, columns = blocks.shape
    return blocks.permute(0, 2, 1, 3).reshape(down * rows, across * columns)


def elements(tensor: SparseTensor) -> SparseTensor:
    """All elements of all blocks by coordinates, zeros too, in the order of the blocks. Shapes: (m, n) -> the same."""
    rows, columns = tensor.entries.shape[1:]
    inside = weft.meshgrid(weft.arange(rows), weft.arange(columns), indexing="ij")
    places = [
        (line.reshape(-1, 1) * step + within.reshape(1, -1)).reshape(-1)
        for line, step, within in zip(tensor.places, (rows, columns), inside, strict=True)
    ]
    return make(weft.stack(places), tensor.entries.reshape(-1), tensor.shape)
