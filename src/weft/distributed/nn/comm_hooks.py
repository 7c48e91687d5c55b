"""Communication hooks: what `DistributedDataParallel.register_comm_hook` has a program say about averaging gradients.

A hook takes a bucket, a vector with the gradients of some parameters, and gives a future of the vector that they
become. Buckets are made for hooks only: without one, gradients are averaged as they are (`together`). The hooks here
record collectives, so that their futures are there at once and the engine says what is under way meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import Any, Protocol

import weft
from weft.distributed.collectives.carrier import record
from weft.distributed.collectives.together import gradients_anywhere
from weft.distributed.group import Group, ProcessGroup
from weft.distributed.world import resolve
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir.dtype import DType
from weft.errors import ArgumentError
from weft.futures import Future
from weft.tensor.modes import no_grad

Hook = Callable[[Any, "GradBucket"], Any]
BucketHook = Callable[["GradBucket"], Any]  # one that has its state
BUCKET_BYTES = 25 << 20


class GradBucket:
    """The gradients of some parameters of one dtype, one behind the other.

    Args:
        number: its place among the buckets of a backward.
        is_last: True for the last one.
        parameters: those that the gradients are of.
        grads: a gradient for each.
    """

    def __init__(
        self, number: int, is_last: bool, parameters: list[Tensor], grads: list[Tensor]
    ) -> None:
        self._number, self._is_last, self._parameters = number, is_last, parameters
        self._buffer: Tensor = weft.cat([grad.reshape(-1) for grad in grads])

    def index(self) -> int:
        """Its number among those of a backward."""
        return self._number

    def is_last(self) -> bool:
        """True for the last one of a backward."""
        return self._is_last

    def buffer(self) -> Tensor:
        """The gradients as a vector."""
        return self._buffer

    def set_buffer(self, tensor: Tensor) -> None:
        """Take another vector.

        Args:
            tensor: a vector of the size of the bucket.
        """
        self._buffer = tensor

    def parameters(self) -> list[Tensor]:
        """The parameters, in the order of the vector."""
        return self._parameters

    def gradients(self) -> list[Tensor]:
        """Their gradients: views of the vector."""
        return self.split(self._buffer)

    def split(self, vector: Tensor) -> list[Tensor]:
        """A vector's parts, of the shapes of the parameters.

        Args:
            vector: a vector of the size of the bucket.

        Raises:
            ValueError for one of another size.
        """
        sizes = [parameter.numel() for parameter in self._parameters]
        if vector.numel() != sum(sizes):
            raise ArgumentError(
                "DistributedDataParallel: a communication hook gives a vector of another size",
                expected=f"{sum(sizes)} elements, as bucket.buffer() has",
                got=str(list(vector.shape)),
                fix="give a future of the bucket's gradients, averaged",
            )
        parts = vector.reshape(-1).split(sizes)
        pairs = zip(parts, self._parameters, strict=True)
        return [part.view(parameter.shape) for part, parameter in pairs]


def _lots(parameters: Sequence[Tensor], most_bytes: int) -> Iterator[list[Tensor]]:
    """Parameters in buckets: neighbours of one dtype, up to a number of bytes."""
    lot: list[Tensor] = []
    held = 0
    for parameter in parameters:
        count = parameter.numel() * parameter.element_size()
        if lot and (parameter.dtype is not lot[0].dtype or held + count > most_bytes):
            yield lot
            lot, held = [], 0
        lot.append(parameter)
        held += count
    if lot:
        yield lot


def reduce_by_hook(
    group: ProcessGroup,
    parameters: Sequence[Tensor],
    hook: BucketHook,
    most_bytes: int = BUCKET_BYTES,
    absent: bool = False,
) -> None:
    """Give parameters as gradients what a hook makes of those of all ranks, the last parameters first. Those that no
    rank has stay missing; with `absent` this rank counts as one without gradients, and keeps those that it has."""
    with no_grad():
        anywhere = gradients_anywhere(group, parameters, absent)
        lots = list(_lots([parameters[index] for index in reversed(anywhere)], most_bytes))
        begun = []
        for number, lot in enumerate(lots):
            grads = [_own(parameter, absent) for parameter in lot]
            bucket = GradBucket(number, number == len(lots) - 1, lot, grads)
            begun.append((bucket, hook(bucket)))
        for bucket, future in begun:
            found = _value(future)
            for parameter, grad in zip(bucket.parameters(), bucket.split(found), strict=True):
                if not absent:
                    parameter.grad = grad.to(parameter.dtype)


def _own(parameter: Tensor, absent: bool) -> Tensor:
    grad = parameter.grad
    if grad is None or absent:
        return weft.zeros_like(parameter)
    return grad.to_dense() if grad.is_sparse else grad.detach()


def _value(future: object) -> Tensor:
    """The tensor that a hook has given a future of. Errors: ValueError for anything else."""
    found = future.wait() if isinstance(future, Future) else None
    if isinstance(found, list | tuple) and len(found) == 1:
        found = found[0]
    if isinstance(found, Tensor):
        return found
    raise ArgumentError(
        "DistributedDataParallel: a communication hook has to give a future of a tensor",
        expected="weft.futures.Future of a tensor",
        got=type(future).__name__ if found is None else f"a future of {type(found).__name__}",
        fix="return dist.all_reduce(bucket.buffer(), async_op=True).get_future() and the like",
    )


# -- hooks -----------------------------------------------------------------------------------------------------------


def future_of(tensor: Tensor) -> Future[Tensor]:
    """A future that has a value."""
    future: Future[Tensor] = Future()
    future.set_result(tensor)
    return future


def mean(group: ProcessGroup, vector: Tensor) -> Any:
    """The mean over the ranks."""
    return record("all_reduce", vector / group.size(), group)


def allreduce_hook(process_group: Group, bucket: GradBucket) -> Future[Tensor]:
    """The mean over the ranks, as without a hook.

    Args:
        process_group: the ranks.
        bucket: gradients that are sent together.
    """
    return future_of(mean(resolve(process_group), bucket.buffer()))


def noop_hook(_: object, bucket: GradBucket) -> Future[Tensor]:
    """This rank's own gradients: what a step takes without communication."""
    return future_of(bucket.buffer())


def _compressed(dtype: DType, process_group: Group, bucket: GradBucket) -> Future[Tensor]:
    vector = bucket.buffer()
    return future_of(mean(resolve(process_group), vector.to(dtype)).to(vector.dtype))


def fp16_compress_hook(process_group: Group, bucket: GradBucket) -> Future[Tensor]:
    """The mean over the ranks of gradients that are sent as float16.

    Args:
        process_group: the ranks.
        bucket: gradients that are sent together.
    """
    return _compressed(weft.float16, process_group, bucket)


def bf16_compress_hook(process_group: Group, bucket: GradBucket) -> Future[Tensor]:
    """The mean over the ranks of gradients that are sent as bfloat16.

    Args:
        process_group: the ranks.
        bucket: gradients that are sent together.
    """
    return _compressed(weft.bfloat16, process_group, bucket)


def _wrapped(dtype: DType, hook: Hook) -> Hook:
    def compressed(state: object, bucket: GradBucket) -> Future[Tensor]:
        before = bucket.buffer().dtype
        bucket.set_buffer(bucket.buffer().to(dtype))
        return future_of(_value(hook(state, bucket)).to(before))

    return compressed


def fp16_compress_wrapper(hook: Hook) -> Hook:
    """A hook that does what another one does on gradients as float16.

    Args:
        hook: the hook whose gradients are sent in fewer bits.
    """
    return _wrapped(weft.float16, hook)


def bf16_compress_wrapper(hook: Hook) -> Hook:
    """A hook that does what another one does on gradients as bfloat16.

    Args:
        hook: the hook whose gradients are sent in fewer bits.
    """
    return _wrapped(weft.bfloat16, hook)


class Hooked(Protocol):
    """A `DistributedDataParallel`."""

    def register_comm_hook(self, state: object, hook: Hook) -> None:
        """Have a function average gradients."""


class DDPCommHookType(Enum):
    """Names of hooks."""

    ALLREDUCE = "allreduce"
    FP16_COMPRESS = "fp16_compress"
    BF16_COMPRESS = "bf16_compress"
    NOOP = "noop"


_HOOKS: dict[DDPCommHookType, Hook] = {
    DDPCommHookType.ALLREDUCE: allreduce_hook,
    DDPCommHookType.FP16_COMPRESS: fp16_compress_hook,
    DDPCommHookType.BF16_COMPRESS: bf16_compress_hook,
    DDPCommHookType.NOOP: noop_hook,
}


def register_ddp_comm_hook(
    comm_hook_type: DDPCommHookType, model: Hooked, state: Group = None
) -> None:
    """Have a model's gradients averaged by the hook of a name; `state` is a group, by default all ranks.

    Args:
        comm_hook_type: the hook, by its member of `DDPCommHookType`.
        model: the module that DistributedDataParallel wraps.
        state: what the hook is given first; None: nothing.
    """
    model.register_comm_hook(state, _HOOKS[comm_hook_type])
