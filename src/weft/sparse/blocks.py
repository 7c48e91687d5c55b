"""Sparse matrices of blocks (BSR, BSC): a matrix of blocks by coordinates, each of which is a small dense matrix.

`places` of such a tensor says which block (of which batch), `entries` (blocks, rows of one, columns of one, *dense
sizes) what it holds. As a grid it is an ordinary tensor by coordinates whose first dense dimensions are those of a
block: what is known of these serves here.
"""

from __future__ import annotations

import weft
from weft import Tensor
from weft.sparse.tensor import SparseTensor, make

Size = tuple[int, int]


def block_size(tensor: SparseTensor) -> Size | None:
    """The sizes of a block; None for a tensor of single elements."""
    if tensor.layout is not weft.sparse_bsr and tensor.layout is not weft.sparse_bsc:
        return None
    return int(tensor.entries.shape[1]), int(tensor.entries.shape[2])


def tiled(shape: tuple[int, ...], size: Size, batches: int) -> tuple[int, ...]:
    """The shape of a grid of blocks: (*batch, m, n, *dense) -> (*batch, m / b, n / c, b, c, *dense)."""
    down, across = shape[batches] // size[0], shape[batches + 1] // size[1]
    return *shape[:batches], down, across, *size, *shape[batches + 2 :]


def grid(tensor: SparseTensor) -> SparseTensor:
    """The blocks as entries by coordinates. Shapes: (*batch, m, n, *dense) -> (*batch, m / b, n / c, b, c, *dense)."""
    rows, columns = tensor.entries.shape[1:3]
    shape = tiled(tuple(tensor.shape), (int(rows), int(columns)), tensor.batch_dim)
    return make(tensor.places, tensor.entries, shape, tensor.layout is weft.sparse_bsr)


def to_grid(dense: Tensor, size: Size, batches: int = 0) -> Tensor:
    """The blocks of dense matrices. Shapes: (*batch, m, n, *dense) -> (*batch, m / b, n / c, b, c, *dense)."""
    shape = tiled(tuple(dense.shape), size, batches)
    down, across = shape[batches : batches + 2]
    tiles = dense.reshape(*shape[:batches], down, size[0], across, size[1], *shape[batches + 4 :])
    return tiles.transpose(batches + 1, batches + 2)


def from_grid(blocks: Tensor, batches: int = 0) -> Tensor:
    """The dense matrices of blocks. Shapes: (*batch, m / b, n / c, b, c, *dense) -> (*batch, m, n, *dense)."""
    down, across, rows, columns = blocks.shape[batches : batches + 4]
    lines = blocks.transpose(batches + 1, batches + 2)  # -> (*batch, m / b, b, n / c, c, *dense)
    shape = blocks.shape[:batches], blocks.shape[batches + 4 :]
    return lines.reshape(*shape[0], down * rows, across * columns, *shape[1])


def elements(tensor: SparseTensor) -> SparseTensor:
    """All elements of all blocks by coordinates, zeros too, in the order of the blocks. Shapes: those of the tensor."""
    rows, columns = (int(size) for size in tensor.entries.shape[1:3])
    inside = weft.meshgrid(weft.arange(rows), weft.arange(columns), indexing="ij")
    batch = tensor.places[: tensor.batch_dim].repeat_interleave(rows * columns, 1)
    within = [
        (line.reshape(-1, 1) * step + place.reshape(1, -1)).reshape(1, -1)
        for line, step, place in zip(tensor.places[-2:], (rows, columns), inside, strict=True)
    ]
    entries = tensor.entries.flatten(0, 2)
    return make(weft.cat([batch, *within]), entries, tensor.shape)
