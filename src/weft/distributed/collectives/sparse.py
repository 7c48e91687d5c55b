"""Sums of sparse tensors over ranks, which may have different numbers of entries.

Ranks exchange how many entries each has, then indices and values; the sum is all entries, one rank's after the
other's, and coalesced, so that every rank adds them in the same order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

import weft
from weft.distributed.buffers import Received, as_bytes, elements
from weft.distributed.collectives.agreement import CollectiveCall
from weft.distributed.collectives.reduction import ReduceOp
from weft.distributed.collectives.steps import gathered
from weft.distributed.errors import ReductionError
from weft.distributed.group import ProcessGroup
from weft.distributed.progress import Steps
from weft.distributed.work import Work
from weft.engine.frontend.tensor import Tensor


def sum_sparse(
    tensor: Tensor, op: ReduceOp, group: ProcessGroup, call: CollectiveCall, async_op: bool
) -> Work | None:
    """Replace a sparse tensor by the sum of those of all ranks. Errors: ReductionError for another reduction."""
    if op is not ReduceOp.SUM:
        raise ReductionError(
            f"{call.name} does not support ReduceOp.{op.name} of sparse tensors",
            expected="SUM",
            got=op.name,
            fix="convert the tensor by to_dense()",
            where=call.where,
        )
    call = call._replace(terms=f"{call.terms}, {tensor.sparse_dim()} dimensions of it sparse")
    own = [tensor._indices().mT, tensor._values()]  # (nnz, sparse dimensions), (nnz, *dense ones)
    steps = _entries(group, call, own)

    def deliver(parts: Sequence[Tensor]) -> Tensor:
        places, values = parts
        total = weft.sparse_coo_tensor(places.mT, values, tensor.shape).coalesce()
        with weft.no_grad():
            tensor.copy_(total)
        return tensor

    return group.collective(call, steps, deliver, async_op)


def _entries(
    group: ProcessGroup, call: CollectiveCall, own: Sequence[Tensor]
) -> Steps[list[Tensor]]:
    """The rows of all ranks, one rank's after the other's, of each of some tensors with equally many rows."""
    counts = np.empty(group.size(), np.int64)
    own_count = as_bytes(np.array([len(own[0])], np.int64))
    yield from gathered(group, call, own_count, as_bytes(counts))
    total, found = int(counts.sum()), []
    for part in own:
        width = math.prod(part.shape[1:])
        received = Received(part.dtype, total * width)
        nbytes = (counts * width * part.dtype.itemsize).tolist()
        memory = as_bytes(received.elements)
        yield group.communicator.all_gather(as_bytes(elements(part)), memory, nbytes)
        found.append(received.tensor((total, *part.shape[1:])))
    return found
