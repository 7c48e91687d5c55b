"""PowerSGD: a communication hook that sends gradients of matrices as products of two narrow ones.

Vogels, Karimireddy and Jaggi, PowerSGD: practical low-rank gradient compression for distributed optimization (2019).
A step of power iteration with a matrix Q that all ranks have alike: the mean over ranks of P = M Q, made orthonormal,
then that of Q = M^T P, and P Q^T is the gradient. What it lacks is added to the next gradient (error feedback), and Q
is where the next step begins (warm start). Both means go by collectives that are recorded, so that those of all
matrices of one kind go together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import weft
from weft.distributed.collectives.carrier import record
from weft.distributed.collectives.reduction import ReduceOp
from weft.distributed.group import Group, ProcessGroup
from weft.distributed.nn.comm_hooks import GradBucket, allreduce_hook, future_of, mean
from weft.distributed.world import resolve
from weft.engine.frontend.tensor import Tensor
from weft.errors import ArgumentError
from weft.functional.linalg.decompositions import qr
from weft.futures import Future


class PowerSGDState:
    """The state of `powerSGD_hook`: its settings, and what it keeps from one backward to the next.

    Args:
        process_group: the ranks; None: all.
        matrix_approximation_rank: the columns of the narrow matrices.
        start_powerSGD_iter: how many backward passes send whole gradients first.
        min_compression_rate: matrices that would shrink less are sent whole.
        use_error_feedback: add what a gradient lost to the next one.
        warm_start: begin with the last step's matrices, not with random ones.
        orthogonalization_epsilon: what is added to the norm of a column before it is divided by it.
        random_seed: that of the random matrices, the same on all ranks.
        compression_stats_logging_frequency: accepted, without effect: nothing is logged.
        batch_tensors_with_same_shape: accepted, without effect: the engine joins what can go together.

    Errors: ValueError for a start in the first two passes with error feedback or warm start, as the parameters are
    still put into other buckets then.
    """

    def __init__(
        self,
        process_group: Group,
        matrix_approximation_rank: int = 1,
        start_powerSGD_iter: int = 1_000,
        min_compression_rate: float = 2,
        use_error_feedback: bool = True,
        warm_start: bool = True,
        orthogonalization_epsilon: float = 0,
        random_seed: int = 0,
        compression_stats_logging_frequency: int = 10_000,
        batch_tensors_with_same_shape: bool = False,
    ) -> None:
        if (use_error_feedback or warm_start) and start_powerSGD_iter <= 1:
            raise ArgumentError(
                "Expect `start_powerSGD_iter` > 1 if `use_error_feedback` or `warm_start` is enabled, because PowerSGD "
                "can only be applied after the first two iterations in DDP.",
                expected="start_powerSGD_iter >= 2",
                got=str(start_powerSGD_iter),
                fix="pass start_powerSGD_iter=2",
            )
        self.process_group = process_group
        self.matrix_approximation_rank = matrix_approximation_rank
        self.start_powerSGD_iter = start_powerSGD_iter
        self.min_compression_rate = min_compression_rate
        self.use_error_feedback, self.warm_start = use_error_feedback, warm_start
        self.orthogonalization_epsilon = orthogonalization_epsilon
        self.iter = 0
        self.error_dict: dict[int, Tensor] = {}  # by bucket, what its gradients have lost
        self.q_memory_dict: dict[int, list[Tensor]] = {}  # by bucket, the last matrices Q
        self.total_numel_before_compression = self.total_numel_after_compression = 0
        self._generator = weft.Generator().manual_seed(random_seed)

    def maybe_increase_iter(self, bucket: GradBucket) -> None:
        """Count a backward pass, at its last bucket.

        Args:
            bucket: gradients that are sent together.
        """
        self.iter += bucket.is_last()

    def compression_stats(self) -> tuple[float, int, int]:
        """The compression so far: the rate, the elements before it, and those that were sent."""
        before, after = self.total_numel_before_compression, self.total_numel_after_compression
        return (before / after if after else 0.0), before, after

    def shrinks(self, rows: int, columns: int) -> bool:
        """True if a matrix is to be sent as two narrow ones.

        Args:
            rows: the number of rows of the matrix.
            columns: the number of columns of the matrix.
        """
        sent = (rows + columns) * self.matrix_approximation_rank
        return sent * self.min_compression_rate < rows * columns

    def starts(self, number: int, matrices: Sequence[Tensor]) -> list[Any]:
        """Orthonormal columns to begin with for each matrix of a bucket: the last ones, or random ones.

        Args:
            number: the number of the bucket.
            matrices: the gradients as matrices.
        """
        kept = self.q_memory_dict.get(number) if self.warm_start else None
        found = []
        for place, matrix in enumerate(matrices):
            rank = min(*matrix.shape, self.matrix_approximation_rank)
            if kept is None:
                start = weft.randn(matrix.shape[1], rank, generator=self._generator)
                found.append(self.orthonormal(start.to(matrix.dtype)))
            else:
                found.append(self.orthonormal(kept[place]))
        return found

    def orthonormal(self, columns: Tensor) -> Any:
        """The columns of a matrix, made orthonormal: by Householder's reflections, also where they depend on each
        other, or with an epsilon one after the other (Gram and Schmidt).

        Args:
            columns: the columns that are made orthogonal and of length 1.
        """
        least = self.orthogonalization_epsilon
        if not least:
            return qr(columns.float())[0].to(columns.dtype)
        found: list[Any] = []
        for column in columns.unbind(1):
            for other in found:
                column = column - other * (column * other).sum()
            norm = column.square().sum().sqrt()
            found.append(column / (norm + least))
        return weft.stack(found, 1)


def powerSGD_hook(state: PowerSGDState, bucket: GradBucket) -> Future[Tensor]:
    """The mean over the ranks of gradients, those of matrices by their best approximations of a low rank.

    Args:
        state: a `PowerSGDState`, one for each model.
        bucket: the gradients; those of vectors, and of matrices that hardly shrink, are sent whole.
    """
    if _is_early(state, bucket):
        return allreduce_hook(state.process_group, bucket)
    group, vector = resolve(state.process_group), _with_lost(state, bucket)
    parts = bucket.split(vector)
    matrices = [part.reshape(part.shape[0], -1) if part.ndim > 1 else None for part in parts]
    chosen = [m if m is not None and state.shrinks(*m.shape) else None for m in matrices]
    narrow = iter(_approximated(state, bucket.index(), [m for m in chosen if m is not None], group))
    found = [
        mean(group, part) if matrix is None else next(narrow).reshape(part.shape)
        for part, matrix in zip(parts, chosen, strict=True)
    ]
    sizes = [p.numel() if m is None else sum(m.shape) * state.matrix_approximation_rank
             for p, m in zip(parts, chosen, strict=True)]  # fmt: skip
    kept = [part if m is None else one for part, m, one in zip(parts, chosen, found, strict=True)]
    return _ended(state, bucket, vector, _flat(found), _flat(kept), sum(sizes))


def batched_powerSGD_hook(state: PowerSGDState, bucket: GradBucket) -> Future[Tensor]:
    """The mean over the ranks of gradients: all of a bucket as one square matrix, by an approximation of a low rank.

    Args:
        state: a `PowerSGDState`, one for each model.
        bucket: the gradients.
    """
    if _is_early(state, bucket):
        return allreduce_hook(state.process_group, bucket)
    group, vector = resolve(state.process_group), _with_lost(state, bucket)
    side = math.ceil(math.sqrt(vector.numel()))
    padding = vector.new_zeros(side * side - vector.numel())
    square = weft.cat([vector, padding]).reshape(side, side)
    (found,) = _approximated(state, bucket.index(), [square], group)
    flat = found.reshape(-1)[: vector.numel()]
    return _ended(state, bucket, vector, flat, flat, 2 * side * state.matrix_approximation_rank)


def _is_early(state: PowerSGDState, bucket: GradBucket) -> bool:
    """True if gradients are sent whole yet; such a pass is counted."""
    if state.iter >= state.start_powerSGD_iter:
        return False
    state.maybe_increase_iter(bucket)
    return True


def _with_lost(state: PowerSGDState, bucket: GradBucket) -> Tensor:
    """A bucket's gradients with what those before have lost."""
    vector = bucket.buffer()
    lost = state.error_dict.get(bucket.index()) if state.use_error_feedback else None
    return vector if lost is None or lost.shape != vector.shape else vector + lost


def _approximated(
    state: PowerSGDState, number: int, matrices: list[Tensor], group: ProcessGroup
) -> list[Any]:
    """The means over the ranks of matrices, as far as narrow ones have them."""
    right = state.starts(number, matrices)
    left = [m @ q for m, q in zip(matrices, right, strict=True)]  # (n, m) @ (m, rank) -> (n, rank)
    left = [state.orthonormal(record("all_reduce", p, group, ReduceOp.SUM)) for p in left]
    right = [mean(group, m.mT @ p) for m, p in zip(matrices, left, strict=True)]
    if state.warm_start:
        state.q_memory_dict[number] = right
    return [p @ q.mT for p, q in zip(left, right, strict=True)]


def _flat(parts: Sequence[Tensor]) -> Any:
    return weft.cat([part.reshape(-1) for part in parts])


def _ended(
    state: PowerSGDState,
    bucket: GradBucket,
    vector: Tensor,
    found: Tensor,
    sent: Tensor,
    count: int,
) -> Future[Tensor]:
    """The future of a bucket's gradients; what they lack of this rank's is kept."""
    if state.use_error_feedback:
        state.error_dict[bucket.index()] = vector - sent
    state.total_numel_before_compression += vector.numel()
    state.total_numel_after_compression += count
    state.maybe_increase_iter(bucket)
    return future_of(found)
