"""Collective operations of a group of one: what is sent comes back.

They take tensors, lists of one tensor, or objects, and copy if the operation has a place for what it receives. With
`async_op` an operation answers with what is done already.
"""

from __future__ import annotations

from typing import Any

from weft._typing import DeviceLike
from weft.engine.frontend.tensor import Tensor
from weft.errors import ArgumentError, DeviceError, GradientError
from weft.futures import Future

__all__ = [
    "Work", "all_gather", "all_gather_into_tensor", "all_gather_object", "all_gather_single", "all_reduce",
    "all_to_all", "all_to_all_single", "barrier", "broadcast", "broadcast_object_list", "gather", "gather_object",
    "reduce", "reduce_scatter", "reduce_scatter_single", "reduce_scatter_tensor", "scatter", "scatter_object_list",
]  # fmt: skip
started: list[str] = []  # the backend's name, once a group has begun


def need_group() -> None:
    """Errors: RuntimeError before init_process_group."""
    if not started:
        raise GradientError(
            "Default process group has not been initialized, please make sure to call init_process_group.",
            expected="init_process_group() before collective operations",
            got="no group",
            fix="ask is_initialized() first",
        )


class Work:
    """An operation that was begun, and is done."""

    def __init__(self, result: object = None) -> None:
        self._result = result

    def wait(self, timeout: object = None) -> bool:
        """Nothing is waited for."""
        return True

    def is_completed(self) -> bool:
        """Yes."""
        return True

    is_success = is_completed

    def result(self) -> list[Any]:
        """The result of the operation."""
        return [self._result]

    def get_future(self) -> Future[Any]:
        """A future that holds the result."""
        made: Future[Any] = Future()
        made.set_result(self.result())
        return made


def _done(result: object, async_op: bool) -> Work | None:
    return Work(result) if async_op else None


def _only(name: str, parts: Any) -> Any:
    """The one entry of a list for the processes. Errors: ValueError for more or less."""
    need_group()
    if len(parts) != 1:
        raise ArgumentError(
            f"{name}: a list of {len(parts)} for one process",
            expected="one entry: the world size is 1",
            got=f"{len(parts)} entries",
            fix="make the list by get_world_size()",
        )
    return parts[0]


def _from_itself(name: str, rank: object) -> None:
    need_group()
    if rank not in (None, 0):
        raise DeviceError(
            f"{name}: there is no process {rank}",
            expected="rank 0, the only one",
            got=f"rank {rank}",
            fix="run one process",
        )


def barrier(group: object = None, async_op: bool = False, device_ids: object = None) -> Work | None:
    """Nobody to wait for."""
    need_group()
    return _done(None, async_op)


def all_reduce(
    tensor: Tensor, op: object = None, group: object = None, async_op: bool = False
) -> Work | None:
    """The sum over one process is what it has."""
    need_group()
    return _done(tensor, async_op)


def reduce(
    tensor: Tensor,
    dst: int | None = None,
    op: object = None,
    group: object = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """As `all_reduce`. Errors: RuntimeError for a process that is not there, here and below."""
    _from_itself("reduce", dst)
    return _done(tensor, async_op)


def broadcast(
    tensor: Tensor,
    src: int | None = None,
    group: object = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Send this process's tensor to itself."""
    _from_itself("broadcast", src)
    return _done(tensor, async_op)


def all_gather(
    tensor_list: object, tensor: Tensor, group: object = None, async_op: bool = False
) -> Work | None:
    """Put this process's tensor into the one entry of the list."""
    return _done(_only("all_gather", tensor_list).copy_(tensor.detach()), async_op)


def all_gather_into_tensor(
    output_tensor: Any, input_tensor: Any, group: object = None, async_op: bool = False
) -> Work | None:
    """Copy this process's tensor to the output."""
    need_group()
    output_tensor.view(input_tensor.shape).copy_(input_tensor.detach())
    return _done(output_tensor, async_op)


all_gather_single = all_gather_into_tensor


def gather(
    tensor: Tensor,
    gather_list: list[Tensor] | None = None,
    dst: int | None = None,
    group: object = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Put this process's tensor into the one entry of the list."""
    _from_itself("gather", dst)
    return _done(_only("gather", gather_list or []).copy_(tensor.detach()), async_op)


def scatter(
    tensor: Tensor,
    scatter_list: list[Tensor] | None = None,
    src: int | None = None,
    group: object = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """The one entry of the list."""
    _from_itself("scatter", src)
    return _done(tensor.copy_(_only("scatter", scatter_list or []).detach()), async_op)


def reduce_scatter(
    output: Any, input_list: object, op: object = None, group: object = None, async_op: bool = False
) -> Work | None:
    """The one entry of the list."""
    return _done(output.copy_(_only("reduce_scatter", input_list).detach()), async_op)


def reduce_scatter_tensor(
    output: object, input: Tensor, op: object = None, group: object = None, async_op: bool = False
) -> Work | None:
    """Copy this process's tensor to the output."""
    return all_gather_into_tensor(output, input, group, async_op)


reduce_scatter_single = reduce_scatter_tensor


def all_to_all(
    output_tensor_list: object,
    input_tensor_list: object,
    group: object = None,
    async_op: bool = False,
) -> Work | None:
    """From the one entry of a list to that of another."""
    sent = _only("all_to_all", input_tensor_list)
    return _done(_only("all_to_all", output_tensor_list).copy_(sent.detach()), async_op)


def all_to_all_single(
    output: Any,
    input: Tensor,
    output_split_sizes: object = None,
    input_split_sizes: object = None,
    group: object = None,
    async_op: bool = False,
) -> Work | None:
    """Copy this process's tensor to the output."""
    need_group()
    return _done(output.copy_(input.detach()), async_op)


def all_gather_object(object_list: Any, obj: object, group: object = None) -> None:
    """Put this process's object into the one entry of the list."""
    _only("all_gather_object", object_list)
    object_list[0] = obj


def gather_object(
    obj: object,
    object_gather_list: object = None,
    dst: int | None = None,
    group: object = None,
    group_dst: int | None = None,
) -> None:
    """Put this process's object into the one entry of the list."""
    _from_itself("gather_object", dst)
    all_gather_object(object_gather_list or [], obj)


def scatter_object_list(
    scatter_object_output_list: Any,
    scatter_object_input_list: object = None,
    src: int | None = None,
    group: object = None,
    group_src: int | None = None,
) -> None:
    """The one entry of the list."""
    _from_itself("scatter_object_list", src)
    scatter_object_output_list[0] = _only("scatter_object_list", scatter_object_input_list or [])


def broadcast_object_list(
    object_list: object,
    src: int | None = None,
    group: object = None,
    device: DeviceLike | None = None,
    group_src: int | None = None,
) -> None:
    """As it is."""
    _from_itself("broadcast_object_list", src)
