"""The interface of distributed programs for one process: rank 0 of 1. Collective operations leave values as they are.

Programs ask before they know how many processes they are; the answers are those of a group of one. Larger groups are
refused. Start with `collectives`.
"""

from __future__ import annotations

import sys
from typing import NoReturn

from weft._build.lazy import gather as _gather
from weft._build.lazy import join as _join
from weft._typing import Shape
from weft.distributed import absent
from weft.distributed.collectives import *  # noqa: F403 - PyTorch's names
from weft.distributed.collectives import need_group, started
from weft.errors import DeviceError


def is_available() -> bool:
    """True if groups of several processes can be made: no. A group of one can, which programs that ask do without."""
    return False


def is_initialized() -> bool:
    """True if `init_process_group` has been called."""
    return bool(started)


def is_nccl_available() -> bool:
    """No: there are no such devices."""
    return False


def is_gloo_available() -> bool:
    """No: there is one process."""
    return False


is_mpi_available = is_ucc_available = is_xccl_available = is_gloo_available


def is_backend_available(backend: str) -> bool:
    """No: there is one process."""
    return False


def is_torchelastic_launched() -> bool:
    """No."""
    return False


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: object = None,
    world_size: int = -1,
    rank: int = -1,
    **options: object,
) -> None:
    """Begin as rank 0 of 1. Errors: RuntimeError for more processes."""
    import os

    if world_size == -1:
        world_size = int(os.environ.get("WORLD_SIZE", "1"))
    if world_size != 1 or rank > 0:
        raise DeviceError(
            f"init_process_group: {world_size} processes",
            expected="world_size=1, rank=0: there is one process",
            got=f"world_size={world_size}, rank={rank}",
            fix="run one process",
        )
    started[:] = [backend or "gloo"]


def destroy_process_group(group: object = None) -> None:
    """End the group of one."""
    started.clear()


def get_backend(group: object = None) -> str:
    """The name that was given."""
    need_group()
    return started[0]


def get_rank(group: object = None) -> int:
    """0, where there is a group. Errors: RuntimeError before init_process_group."""
    need_group()
    return 0


def get_world_size(group: object = None) -> int:
    """1, where there is a group. Errors: RuntimeError before init_process_group."""
    need_group()
    return 1


def new_group(ranks: object = None, **options: object) -> None:
    """The group of one."""
    need_group()


def get_process_group_ranks(group: object = None) -> list[int]:
    """The processes of the group: 0."""
    need_group()
    return [0]


def get_global_rank(group: object, group_rank: int) -> int:
    """The number of a process of the group among all: its own."""
    need_group()
    return group_rank


class ReduceOp:
    """Names of reductions."""

    SUM, PRODUCT, MIN, MAX, AVG = "sum", "product", "min", "max", "avg"


class Backend(str):
    """The name of what sends tensors between processes."""

    UNDEFINED, GLOO, NCCL, MPI, UCC, XCCL = "undefined", "gloo", "nccl", "mpi", "ucc", "xccl"


class group:  # noqa: N801 - PyTorch's name
    """The group of all: None stands for it."""

    WORLD = None


GroupMember = group


class ProcessGroup:
    """No object is one: there is one process. Errors: RuntimeError when one is made."""

    def __init__(self, *arguments: object, **options: object) -> None:
        raise DeviceError(
            f"{type(self).__name__}: there is one process",
            expected="a program of one process",
            got=f"a {type(self).__name__}",
            fix="run one process, without groups and meshes",
        )


class DeviceMesh(ProcessGroup):
    """No object is one."""


class Store(ProcessGroup):
    """No object is one."""


def init_device_mesh(device_type: str, mesh_shape: Shape, **options: object) -> NoReturn:
    """Errors: RuntimeError, there is one process."""
    raise absent.refusal("init_device_mesh")


globals().update({name: getattr(absent, name) for name in absent.SENT.split()})
_join(
    sys.modules[__name__],
    {
        "device_mesh": {"DeviceMesh": DeviceMesh, "init_device_mesh": init_device_mesh},
        "distributed_c10d": {k: v for k, v in globals().items() if k[:2] != "__"},
    },
)
_gather(sys.modules[__name__], absent.MODULES)
