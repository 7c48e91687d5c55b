"""Questions about processes and groups: who am I, how many are we, who is in a group."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta
from enum import IntEnum
from importlib.util import find_spec
from typing import Self

from weft.distributed.group import NON_GROUP_MEMBER, Group, NonMember, ProcessGroup
from weft.distributed.world import current_world, new_group, resolve
from weft.errors import ArgumentError


def is_available() -> bool:
    """True: there is always a group of one.

    Example:
        >>> import weft.distributed as dist
        >>> dist.is_available()
        True
    """
    return True


def is_mpi_available() -> bool:
    """True if mpi4py is installed."""
    return find_spec("mpi4py") is not None


def is_gloo_available() -> bool:
    """True: a program that names gloo gets the backend that is there."""
    return True


def is_nccl_available() -> bool:
    """False: there are no such devices.

    Example:
        >>> import weft.distributed as dist
        >>> "nccl" if dist.is_nccl_available() else "gloo"
        'gloo'
    """
    return False


is_ucc_available = is_xccl_available = is_nccl_available


def is_backend_available(backend: str) -> bool:
    """True for "mpi" where mpi4py is installed, and for "gloo".

    Args:
        backend: a name, such as "mpi".

    Example:
        >>> import weft.distributed as dist
        >>> dist.is_backend_available("nccl")
        False
    """
    return {"mpi": is_mpi_available, "gloo": is_gloo_available}.get(backend, is_nccl_available)()


def is_torchelastic_launched() -> bool:
    """False.

    Example:
        >>> import weft.distributed as dist
        >>> dist.is_torchelastic_launched()
        False
    """
    return False


def get_backend(group: Group = None) -> str:
    """The name that `init_process_group` was given.

    Args:
        group: the group; None: all processes.

    Example:
        >>> import weft.distributed as dist
        >>> dist.init_process_group("gloo")
        >>> dist.get_backend()
        'gloo'
        >>> dist.destroy_process_group()
    """
    return resolve(group).world.backend


def get_backend_config(group: Group = None) -> str:
    """The backend by device.

    Args:
        group: the group; None: all processes.

    Example:
        >>> import weft.distributed as dist
        >>> dist.init_process_group("gloo")
        >>> dist.get_backend_config()
        'cpu:gloo'
        >>> dist.destroy_process_group()
    """
    return f"cpu:{get_backend(group)}"


def get_default_backend_for_device(device: object) -> str:
    """ "gloo", PyTorch's name for what carries CPU tensors.

    Args:
        device: any device.

    Example:
        >>> import weft.distributed as dist
        >>> dist.get_default_backend_for_device("cpu")
        'gloo'
    """
    return "gloo"


def get_rank(group: Group = None) -> int:
    """The number of this process in a group, in the world by default; -1 for one outside.

    Args:
        group: the group; None: all processes.

    Errors: RuntimeError before init_process_group.

    Example:
        >>> import weft.distributed as dist
        >>> dist.init_process_group()
        >>> if dist.get_rank() == 0:  # one process prints, not all
        ...     print("training begins")
        training begins
        >>> dist.destroy_process_group()
    """
    current_world()
    return -1 if isinstance(group, NonMember) else resolve(group).rank()


def get_world_size(group: Group = None) -> int:
    """The number of processes in a group, in the world by default; -1 outside of it.

    Args:
        group: the group; None: all processes.

    Errors: RuntimeError before init_process_group.

    Example:
        >>> import weft.distributed as dist
        >>> dist.init_process_group()
        >>> 64 // dist.get_world_size()  # this process's share of a batch of 64
        64
        >>> dist.destroy_process_group()
    """
    current_world()
    return -1 if isinstance(group, NonMember) else resolve(group).size()


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """The number of this process among those of its machine.

    Args:
        fallback_rank: the answer where the environment has no LOCAL_RANK; None: that is an error.

    Errors: RuntimeError where nobody has said.

    Example:
        >>> import weft.distributed as dist
        >>> dist.get_node_local_rank(fallback_rank=0)  # for a process that nobody launched
        0
    """
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if fallback_rank is not None:
        return int(fallback_rank)
    raise ArgumentError(
        "LOCAL_RANK is not in the environment. Consider passing fallback_rank",
        expected="a program started with mpiexec, or LOCAL_RANK",
        got="neither",
        fix="pass fallback_rank=0",
    )


def get_process_group_ranks(group: Group = None) -> list[int]:
    """The ranks in the world of a group's members.

    Args:
        group: the group; None: all processes.

    Example:
        >>> import weft.distributed as dist
        >>> dist.init_process_group()
        >>> dist.get_process_group_ranks(dist.new_group([0]))
        [0]
        >>> dist.destroy_process_group()
    """
    return list(resolve(group).ranks)


def get_group_rank(group: Group, global_rank: int) -> int:
    """The number in a group of a process of the world.

    Args:
        group: the group; None: all processes.
        global_rank: the rank in the world.

    Errors: ValueError for one outside.

    Example:
        >>> import weft.distributed as dist
        >>> dist.init_process_group()
        >>> dist.get_group_rank(dist.group.WORLD, 0)
        0
        >>> dist.destroy_process_group()
    """
    return resolve(group).group_rank(global_rank)


def get_global_rank(group: Group, group_rank: int) -> int:
    """The rank in the world of a member of a group.

    Args:
        group: the group; None: all processes.
        group_rank: the number in the group.

    Errors: ValueError for a number outside.

    Example:
        >>> import weft.distributed as dist
        >>> dist.init_process_group()
        >>> dist.get_global_rank(dist.group.WORLD, 0)  # the number that rank 0 of the group has among all
        0
        >>> dist.destroy_process_group()
    """
    return resolve(group).global_rank(group_rank)


def get_pg_count() -> int:
    """The number of groups that this process is in.

    Example:
        >>> import weft.distributed as dist
        >>> dist.init_process_group()
        >>> dist.get_pg_count()
        1
        >>> dist.destroy_process_group()
    """
    return len(current_world().groups)


def _rank_not_in_group(group: Group) -> bool:
    """True if this process is no member of a group."""
    return isinstance(group, NonMember)


def new_subgroups_by_enumeration(
    ranks_per_subgroup_list: Sequence[Sequence[int]],
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: object = None,
    group_desc: str | None = None,
) -> tuple[ProcessGroup | NonMember, list[ProcessGroup | NonMember]]:
    """A group for each list of ranks, no rank in two of them; this process's own, and all.

    Args:
        ranks_per_subgroup_list: the ranks of each group.
        timeout: how long members wait for each other; None: as the world's do.
        backend: accepted: a group has the backend of the world; None: the same.
        pg_options: accepted, without effect; None: the same.
        group_desc: a text that describes the group; None: none.

    Example:
        >>> import weft.distributed as dist
        >>> dist.init_process_group()
        >>> mine, all_groups = dist.new_subgroups_by_enumeration([[0]])
        >>> dist.get_process_group_ranks(mine)
        [0]
        >>> dist.destroy_process_group()
    """
    flat = [rank for ranks in ranks_per_subgroup_list for rank in ranks]
    if not flat or len(set(flat)) < len(flat):
        raise ArgumentError(
            "new_subgroups_by_enumeration: each rank belongs to one subgroup",
            expected="lists of different ranks",
            got=str([list(ranks) for ranks in ranks_per_subgroup_list]),
            fix="name each rank once",
        )
    made = [new_group(ranks, timeout, backend, pg_options) for ranks in ranks_per_subgroup_list]
    own = next((group for group in made if isinstance(group, ProcessGroup)), NON_GROUP_MEMBER)
    return own, made


def new_subgroups(
    group_size: int | None = None,
    group: Group = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: object = None,
    group_desc: str | None = None,
) -> tuple[ProcessGroup | NonMember, list[ProcessGroup | NonMember]]:
    """Groups of `group_size` consecutive ranks, by default as many as a machine has; this process's own, and all.

    Args:
        group_size: how many ranks a group has; None: as many as a machine has.
        group: the group that is divided; None: all processes.
        timeout: how long members wait for each other; None: as the world's do.
        backend: accepted: a group has the backend of the world; None: the same.
        pg_options: accepted, without effect; None: the same.
        group_desc: a text that describes the group; None: none.

    Example:
        >>> import weft.distributed as dist
        >>> dist.init_process_group()
        >>> mine, all_groups = dist.new_subgroups(group_size=1)
        >>> dist.get_process_group_ranks(mine), len(all_groups)
        ([0], 1)
        >>> dist.destroy_process_group()
    """
    ranks = get_process_group_ranks(group)
    size = int(os.environ.get("LOCAL_WORLD_SIZE", len(ranks))) if group_size is None else group_size
    if size < 1 or len(ranks) % size:
        raise ArgumentError(
            f"The world size {len(ranks)} must be divisible by group_size={size}",
            expected=f"a divisor of {len(ranks)}",
            got=str(size),
            fix="pass a group_size that divides the number of ranks",
        )
    lists = [ranks[first : first + size] for first in range(0, len(ranks), size)]
    if len(ranks) < get_world_size():  # ranks outside divide groups of their own, or call nothing
        return _subgroups_of_members(lists, timeout)
    return new_subgroups_by_enumeration(lists, timeout, backend, pg_options, group_desc)


def _subgroups_of_members(
    lists: Sequence[Sequence[int]], timeout: timedelta | None
) -> tuple[ProcessGroup | NonMember, list[ProcessGroup | NonMember]]:
    """A group for each list of ranks, made by its members alone; this process's own, and all."""
    made = [
        new_group(ranks, timeout, use_local_synchronization=True)
        if get_rank() in ranks
        else NON_GROUP_MEMBER
        for ranks in lists
    ]
    own = next((group for group in made if isinstance(group, ProcessGroup)), NON_GROUP_MEMBER)
    return own, made


class Backend(str):
    """The name of what carries tensors between processes, in lower case.

    Args:
        name: the name in any case, as "MPI".

    Errors: ValueError for what is no text.
    """

    def __new__(cls, name: str) -> Self:
        if not isinstance(name, str):
            raise ArgumentError(
                f"Backend constructor parameter must be string-ish, but got {name!r}",
                expected="a name, as 'mpi'",
                got=type(name).__name__,
                fix="pass the name as text",
            )
        return super().__new__(cls, name.lower())

    UNDEFINED, GLOO, NCCL, MPI, UCC, XCCL = "undefined", "gloo", "nccl", "mpi", "ucc", "xccl"


class DebugLevel(IntEnum):
    """A level of checks. Calls of ranks are compared at each of them."""

    OFF, INFO, DETAIL = 0, 1, 2


class _Level:
    """The level that stands."""

    now = DebugLevel.OFF


def get_debug_level() -> DebugLevel:
    """The level that stands.

    Example:
        >>> import weft.distributed as dist
        >>> dist.get_debug_level()
        <DebugLevel.OFF: 0>
    """
    return _Level.now


def set_debug_level(level: DebugLevel) -> None:
    """Keep a level.

    Args:
        level: a `DebugLevel`.
    """
    _Level.now = DebugLevel(level)


def set_debug_level_from_env() -> None:
    """Keep the level that the variable TORCH_DISTRIBUTED_DEBUG names. Errors: KeyError for a name of none."""
    _Level.now = DebugLevel[os.environ.get("TORCH_DISTRIBUTED_DEBUG", "OFF").upper()]


class _Groups:
    """The group of all processes as an attribute, and what stands for a group that this process is not in."""

    NON_GROUP_MEMBER = NON_GROUP_MEMBER

    @property
    def WORLD(self) -> ProcessGroup | None:  # noqa: N802 - PyTorch's name
        """The group of all processes; None before init_process_group, which is the same to every collective."""
        from weft.distributed.world import is_initialized

        return current_world().group if is_initialized() else None


group = GroupMember = _Groups()


def split_group(
    parent_pg: Group = None,
    split_ranks: Sequence[Sequence[int]] | None = None,
    timeout: timedelta | None = None,
    pg_options: object = None,
    group_desc: str | None = None,
) -> ProcessGroup | None:
    """The part of a group that this process is in, of several that all its members make alike; None outside of all.

    Args:
        parent_pg: the group; None: all processes.
        split_ranks: for each part its members, by their numbers in the group.
        timeout: how long members wait for each other; None: as long as those of the group do.
        pg_options: accepted, without effect; None: the same.
        group_desc: a text that describes the parts; None: none.

    Errors: ValueError for no part, and for a number that is not in the group, or in two parts.

    Example:
        >>> import weft.distributed as dist
        >>> dist.init_process_group()
        >>> part = dist.split_group(split_ranks=[[0]])
        >>> dist.get_world_size(part)
        1
        >>> dist.destroy_process_group()
    """
    parent = resolve(parent_pg)
    parts = [list(part) for part in split_ranks or ()]
    flat = [number for part in parts for number in part]
    if not flat or len(set(flat)) < len(flat):
        raise ArgumentError(
            "split_group: split_ranks has to name parts that do not overlap",
            expected="lists of different numbers",
            got=str(parts),
            fix="name each member once, as [[0, 1], [2, 3]]",
        )
    within = timedelta(seconds=parent.timeout) if timeout is None else timeout
    found = None
    for part in parts:
        members = [parent.global_rank(number) for number in part]
        if parent.world.group.rank() in members:
            made = new_group(members, within, None, None, True, group_desc, None, False)
            found = made if isinstance(made, ProcessGroup) else None
    return found
