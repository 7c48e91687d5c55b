"""The world of a program: its backend, its groups, and how it begins and ends.

`init_process_group` makes it. While it stands, the other ranks are told when this one fails or ends, and a launcher's
SIGTERM is raised as an error at the line that runs.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from collections.abc import Sequence
from datetime import timedelta
from types import FrameType, TracebackType
from zlib import crc32

from weft.distributed import launch
from weft.distributed.backends.local import LocalCommunicator
from weft.distributed.backends.protocol import Communicator
from weft.distributed.collectives.agreement import CollectiveCall, agree
from weft.distributed.errors import DistBackendError
from weft.distributed.group import (
    NON_GROUP_MEMBER,
    Group,
    NonMember,
    ProcessGroup,
    run_recorded,
    warn_non_member,
)
from weft.distributed.peers import Peers, lost
from weft.distributed.progress import Progress
from weft.errors import ArgumentError, DeviceError, GradientError, is_internal, user_line

default_pg_timeout = timedelta(minutes=30)
KEYS = 30_000  # tags that MPI has at least


class World:
    """All processes of a program."""

    def __init__(self, backend: str, communicator: Communicator, timeout: float) -> None:
        self.backend, self.failed = backend, False
        self.communicator = communicator.duplicate()
        self.peers = Peers(communicator.duplicate())
        self.progress = Progress(self.peers.look)
        self.groups: dict[str, ProcessGroup] = {}
        self._made = 0  # groups that all processes have made together
        ranks = tuple(range(communicator.size))
        self.group = self._add(ranks, self.communicator, timeout, "default_pg", "0")

    def _add(
        self,
        ranks: tuple[int, ...],
        communicator: Communicator,
        timeout: float,
        description: str,
        name: str,
    ) -> ProcessGroup:
        made = ProcessGroup(self, ranks, communicator, name, timeout, description)
        self.groups[name] = made
        return made

    def new_group(
        self, ranks: Sequence[int], timeout: float, description: str, alone: bool
    ) -> ProcessGroup | NonMember:
        """A group of some ranks, in their order; the processes outside get `NON_GROUP_MEMBER`. All agree on it first,
        or (`alone`) its members do without the others."""
        if alone:
            key = crc32(str(ranks).encode()) % KEYS
            name = f"{ranks} {sum(made.startswith(f'{ranks} ') for made in self.groups)}"
        else:
            call = CollectiveCall("new_group", f"of ranks {list(ranks)}", user_line())
            self.group.collective(call, agree(self.group, call))
            self._made += 1  # the same on all ranks, as names have to be
            key, name = self._made % KEYS, str(self._made)
        communicator = self.communicator.subgroup(ranks, key)
        if communicator is None:
            return NON_GROUP_MEMBER
        return self._add(tuple(ranks), communicator, timeout, description, name)

    def member_group(self, name: str) -> ProcessGroup:
        """The group of a name. Errors: DistBackendError for one that has ended."""
        if name in self.groups:
            return self.groups[name]
        raise DistBackendError(
            f"the process group {name} has ended",
            expected="collectives whose results are read before destroy_process_group",
            got="a collective that was recorded before, in a group that is gone",
            fix="read results first",
        )

    def leave(self, reason: str) -> None:
        """Tell the others that this rank takes no more part, and how far it came."""
        finished = {name: group.finished for name, group in self.groups.items()}
        self.peers.tell_all("gone", reason=reason, finished=finished)


_world: list[World] = []  # one, between init_process_group and destroy_process_group
_opened: dict[str, Communicator] = {}  # by address: what has been initialized, such as "mpi"
_ended: list[str] = []  # why this program is ending, where it fails


def current_world() -> World:
    """The world. Errors: ValueError before init_process_group."""
    if not _world:
        raise ArgumentError(
            "Default process group has not been initialized, please make sure to call init_process_group.",
            expected="init_process_group() before collective operations",
            got="no group",
            fix="ask is_initialized() first",
        )
    return _world[0]


def resolve(group: Group = None) -> ProcessGroup:
    """The group that an argument means: None is all processes."""
    found = current_world().group if group is None else group
    if isinstance(found, ProcessGroup):
        return found
    raise ArgumentError(
        "Invalid process group specified: this process is not in it",
        expected="a group of which this process is a member",
        got=repr(found),
        fix="ask get_rank(group) >= 0 first",
    )


def joined(group: Group, name: str) -> ProcessGroup | None:
    """The group of a collective, or None, with a warning, for a process outside it."""
    if isinstance(group, NonMember):
        warn_non_member(name)
        return None
    return resolve(group)


def is_initialized() -> bool:
    """True if `init_process_group` has been called, and `destroy_process_group` has not.

    Example:
        >>> import weft.distributed as dist
        >>> if not dist.is_initialized():
        ...     dist.init_process_group()
        >>> dist.is_initialized()
        True
        >>> dist.destroy_process_group()
    """
    return bool(_world)


def _get_default_group() -> ProcessGroup:
    """The group of all processes. Errors: ValueError before init_process_group."""
    return current_world().group


def seconds(timeout: timedelta | float | None, otherwise: float) -> float:
    """A time in seconds."""
    if isinstance(timeout, timedelta):
        return timeout.total_seconds()
    return otherwise if timeout is None else float(timeout)


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: timedelta | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: object = None,
    group_name: str = "",
    pg_options: object = None,
    device_id: object = None,
    **options: object,
) -> None:
    """Begin a program of several processes, or of one.

    The processes are those that `mpiexec` started; without it there is one. Any backend of PyTorch's that carries CPU
    tensors may be named ("mpi", "gloo", "cpu:gloo,cuda:nccl"); the one that is there is taken. Processes of a Ray
    cluster meet at an address, `init_process_group("ray", "ray://name", rank=0, world_size=2)`, as
    `weft.distributed.ray.Trainer` has them do.

    Args:
        backend: a name, which `get_backend` gives back; by default what is there.
        init_method: "ray://" and a name that no other program of the cluster uses; other places to meet are not needed,
            as the launcher has done that. So for `store`.
        timeout: how long a rank waits for the others in a collective, 30 minutes by default.
        world_size: the number of processes in Ray, else checked against it, as is the variable WORLD_SIZE.
        rank: the number of this process in Ray, else checked against it.
        store: accepted: nothing needs a place to meet; None: the same.
        group_name: accepted, without effect.
        pg_options: accepted, without effect; None: the same.
        device_id: accepted, without effect; None: the same.
        **options: accepted, without effect: further options of PyTorch's.

    Errors: RuntimeError where it has begun already, or other processes are asked for than there are.

    Example:
        >>> import weft.distributed as dist
        >>> dist.init_process_group()  # four processes under mpiexec -n 4; one without
        >>> dist.get_rank(), dist.get_world_size()
        (0, 1)
        >>> dist.destroy_process_group()
    """
    if _world:
        raise GradientError(
            "trying to initialize the default process group twice!",
            expected="one init_process_group, or destroy_process_group before the next",
            got="a group that stands",
            fix="ask is_initialized() first",
        )
    launch.name_ranks()
    if init_method is not None and init_method.startswith("ray://"):
        kind, communicator = "ray", _meet(init_method, world_size, rank)
    else:
        kind, communicator = _launched()
        _need_launched(communicator, world_size, rank)
    within = seconds(timeout, default_pg_timeout.total_seconds())
    _world.append(World(backend or kind, communicator, within))
    _watch_the_end()


def _launched() -> tuple[str, Communicator]:
    """All processes that the launcher started, or this one alone; and the name of the backend."""
    found = launch.launched()
    if found is None or found.size == 1:
        return "local", LocalCommunicator()
    if "mpi" not in _opened:
        from weft.distributed.backends.mpi import MpiCommunicator

        _opened["mpi"] = MpiCommunicator()
    return "mpi", _opened["mpi"]


def _meet(address: str, world_size: int, rank: int) -> Communicator:
    """The processes that meet at an address of Ray's. Errors: ValueError for a rank outside."""
    if not 0 <= rank < world_size:
        raise ArgumentError(
            "init_process_group: processes that meet at an address say how many they are, and which each is",
            expected="0 <= rank < world_size",
            got=f"world_size={world_size}, rank={rank}",
            fix="pass world_size= and rank=, or use weft.distributed.ray.Trainer",
        )
    if address not in _opened:
        from weft.distributed.backends.ray import RayCommunicator

        _opened[address] = RayCommunicator(address, rank, world_size)
    return _opened[address]


def _need_launched(communicator: Communicator, world_size: int, rank: int) -> None:
    """Errors: RuntimeError where other processes are meant than there are."""
    if world_size == -1:
        world_size = int(os.environ.get("WORLD_SIZE", communicator.size))
    if rank == -1:
        rank = int(os.environ.get("RANK", communicator.rank))
    if (world_size, rank) != (communicator.size, communicator.rank):
        raise DeviceError(
            f"init_process_group: this is process {communicator.rank} of {communicator.size}",
            expected=f"world_size={communicator.size}, rank={communicator.rank}, as the launcher started it",
            got=f"world_size={world_size}, rank={rank}",
            fix=f"start the program with mpiexec -n {max(world_size, 1)}",
        )


def destroy_process_group(group: Group = None) -> None:
    """End a group; without an argument all of them. The ranks need not come to it at the same time.

    Args:
        group: the group; None: all of them.

    Example:
        >>> import weft.distributed as dist
        >>> dist.init_process_group()
        >>> dist.destroy_process_group()
        >>> dist.is_initialized()
        False
    """
    world = current_world()
    run_recorded()
    if group is None or group is world.group:
        world.progress.drain()
        world.leave(f"rank {world.communicator.rank} has called destroy_process_group")
        _world.clear()
    elif isinstance(group, ProcessGroup):
        world.groups.pop(group.group_name, None)


def new_group(
    ranks: Sequence[int] | None = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: object = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: object = None,
    sort_ranks: bool = True,
) -> ProcessGroup | NonMember:
    """A group of some ranks, all by default; all processes call it alike, or (`use_local_synchronization`) the members.

    Args:
        ranks: the members by their ranks in the world; None: all.
        timeout: how long its members wait for each other; by default as the world's.
        backend: accepted: a group has the backend of the world; None: the same.
        pg_options: accepted, without effect; None: the same.
        use_local_synchronization: True: only the members call it; False: all processes do.
        group_desc: a text that describes the group; None: none.
        device_id: accepted, without effect; None: the same.
        sort_ranks: number the members in the order of ranks, else in the order given.

    Errors: ValueError for a rank that is not there, or twice.

    Example:
        >>> import weft
        >>> import weft.distributed as dist
        >>> dist.init_process_group()
        >>> pair = dist.new_group([0])  # all ranks call it, members and others
        >>> x = weft.ones(2)
        >>> dist.all_reduce(x, group=pair)
        >>> x
        tensor([1., 1.])
        >>> dist.destroy_process_group()
    """
    world = current_world()
    chosen = list(range(world.group.size()) if ranks is None else ranks)
    if len(set(chosen)) < len(chosen) or not set(chosen) <= set(world.group.ranks):
        raise ArgumentError(
            "new_group: the new group's ranks should be unique ranks of the world",
            expected=f"different numbers within 0 .. {world.group.size() - 1}",
            got=str(chosen),
            fix="name each process once",
        )
    chosen = sorted(chosen) if sort_ranks else chosen
    within = seconds(timeout, world.group.timeout)
    return world.new_group(chosen, within, group_desc or "", use_local_synchronization)


# -- the end ---------------------------------------------------------------------------------------


def _watch_the_end() -> None:
    """Once: have failures, signals and the end of the program told to the other ranks."""
    if _ended or getattr(_watch_the_end, "done", False):
        return
    _watch_the_end.done = True  # type: ignore[attr-defined]
    hook = sys.excepthook

    def failed(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        tell_failure(kind, error, trace)
        hook(kind, error, trace)

    sys.excepthook = failed
    atexit.register(_farewell)
    is_main = threading.current_thread() is threading.main_thread()
    if "mpi" in _opened and is_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _on_sigterm)


def tell_failure(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Tell the other ranks that this one fails, with the user's line."""
    line = ""
    while trace is not None:
        code = trace.tb_frame.f_code
        if not is_internal(code.co_filename):
            line = f" at {os.path.basename(code.co_filename)}:{trace.tb_lineno} in {code.co_name}"
        trace = trace.tb_next
    summary = (str(error).splitlines() or [""])[0]
    _ended.append(f"{kind.__name__}{line}: {summary}".rstrip(": "))
    if _world:
        _world[0].leave(f"rank {_world[0].communicator.rank} has failed with {_ended[0]}")


def _on_sigterm(number: int, frame: FrameType | None) -> None:
    """The launcher ends the program, most often because a rank has died: raise that where this rank is, for what it
    waits for if it does."""
    if _ended:
        return
    reason = _world[0].peers.loss() if _world else ""
    waited_for = _world[0].progress.waited_for() if _world else None
    if reason and waited_for is not None:
        raise lost(waited_for.what, reason, waited_for.where)
    raise DistBackendError(
        f"the launcher ends this program (SIGTERM): {reason or 'for a reason of its own'}",
        expected="all ranks at work",
        got=reason or "SIGTERM",
        fix="see what that rank printed",
    )


def _farewell() -> None:
    """At the end of the program: together with the others, or at once after a failure."""
    broken = bool(_world and _world[0].peers.broken)
    if _world and not _ended:
        world = _world[0]
        if not broken:
            run_recorded()
            world.progress.drain()
        world.leave(f"rank {world.communicator.rank} has ended its program")
        world.progress.forget()
    for communicator in _opened.values():
        communicator.close(orderly=not _ended and not broken)
