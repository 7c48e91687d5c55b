"""Process groups: the ranks of each, and the way from a collective's steps to an operation under way."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Generator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol, cast

from weft.distributed.backends.protocol import Communicator, Request
from weft.distributed.collectives.agreement import CollectiveCall
from weft.distributed.collectives.counting import called
from weft.distributed.collectives.reduction import ReduceOp
from weft.distributed.peers import lost
from weft.distributed.progress import Channel, Operation, Steps
from weft.distributed.work import Deliver, Traced, Work
from weft.engine.devices import trace
from weft.engine.frontend.collective import recorded
from weft.engine.frontend.tensor import Tensor
from weft.engine.pipeline import driver
from weft.errors import ArgumentError, WeftError, user_line

if TYPE_CHECKING:
    from weft.distributed.world import World


class ProcessGroup:
    """Some processes of the world, in an order: their ranks, a communicator, and a time that they wait for each other.

    Groups are made by `init_process_group` and `new_group`, by all processes alike.

    Args:
        world: the processes of the program.
        ranks: the members by their ranks in the world, in order.
        communicator: what carries their bytes.
        name: the name by which the world knows the group.
        timeout: how many seconds members wait for each other.
        description: a text for people.

    Example:
        >>> import weft.distributed as dist
        >>> dist.init_process_group()
        >>> dist.group.WORLD.rank(), dist.group.WORLD.size()
        (0, 1)
        >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        world: World,
        ranks: tuple[int, ...],
        communicator: Communicator,
        name: str,
        timeout: float,
        description: str = "",
    ) -> None:
        self.world, self.ranks, self.communicator = world, ranks, communicator
        self.group_name, self.group_desc, self.timeout = name, description, timeout
        self.begun = self.finished = 0  # collectives of this group
        self.outgoing: list[Request] = []  # messages of the collective that runs, not waited for
        self._channel: Channel = Channel()
        self._sending: Channel = Channel()  # those of finished ones
        self._message_channels: dict[tuple[str, int, int], Channel] = {}

    def rank(self) -> int:
        """The number of this process in the group."""
        return self.communicator.rank

    def size(self) -> int:
        """The number of processes in the group."""
        return self.communicator.size

    def name(self) -> str:
        """The name of the backend."""
        return self.world.backend

    def __repr__(self) -> str:
        return f"ProcessGroup({self.group_name}, ranks={list(self.ranks)}, rank={self.rank()})"

    # -- ranks ---------------------------------------------------------------------------------------------------

    def group_rank(self, rank: int) -> int:
        """The number in the group of a process of the world.

        Args:
            rank: the rank in the world.

        Raises:
            ValueError for one outside the group.
        """
        if rank not in self.ranks:
            raise ArgumentError(
                f"Global rank {rank} is not part of group {self.group_name}",
                expected=f"one of {list(self.ranks)}",
                got=str(rank),
                fix="pass a rank of the world that belongs to the group",
            )
        return self.ranks.index(rank)

    def global_rank(self, group_rank: int) -> int:
        """The rank in the world of a member.

        Args:
            group_rank: the rank in the group.

        Raises:
            ValueError for a number outside the group.
        """
        if not 0 <= group_rank < self.size():
            raise ArgumentError(
                f"Group rank {group_rank} is not part of group {self.group_name}",
                expected=f"0 <= group rank < {self.size()}",
                got=str(group_rank),
                fix="pass the rank of a member",
            )
        return self.ranks[group_rank]

    def member(self, rank: int | None, group_rank: int | None, name: str) -> int:
        """The member that a call names by one of its two numbers.

        Args:
            rank: the rank in the world.
            group_rank: the rank in the group.
            name: how the call names the parameter, for errors.

        Raises:
            ValueError for none, both, or one outside.
        """
        if (rank is None) == (group_rank is None):
            raise ArgumentError(
                f"{name}: exactly one of the global rank and the group rank has to be given",
                expected=f"{name} or group_{name}",
                got="neither" if rank is None else "both",
                fix=f"pass {name}=, a rank of the world",
            )
        if rank is not None:
            return self.group_rank(rank)
        assert group_rank is not None
        return self.ranks.index(self.global_rank(group_rank))

    # -- PyTorch's methods, as hooks of its programs call them -----------------------------------------------------

    def allreduce(self, tensors: Sequence[Tensor] | Tensor, op: object = None) -> Work | None:
        """Begin to replace tensors by the combinations of those of all members, by default their sums.

        Args:
            tensors: a tensor, or a list of them.
            op: how they are combined, or options that say it; None: the sum.
        """
        listed = [tensors] if isinstance(tensors, Tensor) else tensors
        reduction = op if isinstance(op, ReduceOp) else getattr(op, "reduceOp", ReduceOp.SUM)
        return _functions().all_reduce_coalesced(listed, reduction, self, async_op=True)

    def monitored_barrier(
        self, timeout: timedelta | None = None, wait_all_ranks: bool = False
    ) -> None:
        """Wait until all members have come here, for at most `timeout`.

        Args:
            timeout: how long at most, a timedelta; None: the group's timeout.
            wait_all_ranks: True: name all members that have not come, not the first alone.
                Default: False.
        """
        _functions().monitored_barrier(self, timeout, wait_all_ranks)

    # -- operations ----------------------------------------------------------------------------------------------

    def collective(
        self,
        call: CollectiveCall,
        steps: Steps[object],
        deliver: Deliver | None = None,
        async_op: bool = False,
        timeout: float | None = None,
    ) -> Work | None:
        """Run the steps of a collective after those before it: wait for it, or give its handle. Those that have been
        recorded before begin first.

        Args:
            call: what the members agree on.
            steps: a generator of messages that are sent and waited for.
            deliver: is called with the result; None: nothing is.
            async_op: True: return a handle at once. Default: False.
            timeout: how long at most, in seconds; None: the group's timeout.
        """
        run_recorded()
        called(call.name)
        operation = self._operation(call, steps, self.timeout if timeout is None else timeout)
        return self._start(self._channel, operation, deliver, async_op, call)

    def begin(self, call: CollectiveCall, steps: Steps[object], count: int = 1) -> Work:
        """Begin collectives that have been recorded, `count` as one operation.

        Args:
            call: what the members agree on.
            steps: a generator of messages that are sent and waited for.
            count: how many collectives. Default: 1.
        """
        operation = self._operation(call, steps, self.timeout, count)
        work = self._start(self._channel, operation, None, True)
        assert work is not None
        return work

    def _operation(
        self, call: CollectiveCall, steps: Steps[object], timeout: float, count: int = 1
    ) -> Operation:
        """The next collectives of this group. Ranks may do more or fewer as one operation, and number them alike."""
        self._need_intact(call)
        self.begun += count
        key = (self.group_name, self.begun - 1)
        counted = self._counted(call, steps, count)
        return Operation(counted, call.name, call.where, self.ranks, timeout, key)

    def message(
        self,
        call: CollectiveCall,
        steps: Steps[object],
        peer: int | None,
        tag: int,
        deliver: Deliver | None = None,
    ) -> Work:
        """Run the steps of a message to or from a member (or anyone) after those before it on the same way.

        Args:
            call: what the members agree on.
            steps: a generator of messages that are sent and waited for.
            peer: the rank in the group of the other one; None: anyone.
            tag: a number that messages of both sides have in common.
            deliver: is called with the result; None: nothing is.
        """
        run_recorded()
        direction = (call.name.lstrip("i"), -1 if peer is None else peer, tag)
        channel = self._message_channels.setdefault(direction, Channel())
        ranks = self.ranks if peer is None else (self.ranks[peer],)
        operation = Operation(steps, call.name, call.where, ranks, self.timeout)
        name = "recvAnySource" if peer is None else direction[0]  # PyTorch's, in profiles
        work = self._start(channel, operation, deliver, True, call._replace(name=name))
        assert work is not None
        return work

    def _need_intact(self, call: CollectiveCall) -> None:
        """Errors: DistBackendError for a group that has lost a rank."""
        reason = self.world.peers.broken.get(self.group_name)
        if reason is not None:
            raise lost(call.name, reason, call.where)

    def _counted(
        self, call: CollectiveCall, steps: Steps[object], count: int
    ) -> Generator[Any, None, Any]:
        """The steps; what has ended on all ranks, well or with an error on all, counts as finished."""
        try:
            result = yield from steps
        except WeftError:
            self._finish(call, count)
            raise
        self._finish(call, count)
        return result

    def _finish(self, call: CollectiveCall, count: int) -> None:
        """Count collectives, now or as soon as the others have what this rank sent them."""
        left = [request for request in self.outgoing if not request.test()]
        self.outgoing = []
        if not left:
            self.finished += count
            return

        def until_sent() -> Steps[None]:
            yield from left
            self.finished += count

        operation = Operation(until_sent(), call.name, call.where, self.ranks, self.timeout)
        self.world.progress.follow(self._sending, operation)

    def _start(
        self,
        channel: Channel,
        operation: Operation,
        deliver: Deliver | None,
        async_op: bool,
        call: CollectiveCall | None = None,
    ) -> Work | None:
        progress = self.world.progress
        traced = None
        if call is not None and trace.is_on():
            traced = Traced(trace.clock(), f"{self.name()}:{call.name}", call.shapes)
        progress.start(channel, operation)
        work = Work(progress, operation, deliver, traced)
        if async_op:
            if not operation.done:
                progress.carry_on()
            return work
        work.wait()
        return None


class _Functions(Protocol):
    """The functions of this package that methods of groups stand for."""

    def all_reduce_coalesced(
        self, tensors: Sequence[Tensor], op: ReduceOp, group: ProcessGroup, async_op: bool
    ) -> Work | None: ...

    def monitored_barrier(
        self, group: ProcessGroup, timeout: timedelta | None, wait_all_ranks: bool
    ) -> None: ...


def _functions() -> _Functions:
    """The package, whose functions take groups: they lie above."""
    return cast(_Functions, sys.modules["weft.distributed"])


def run_recorded() -> None:
    """Run what has been recorded, if there are collectives in it: the other ranks wait for them."""
    if recorded:
        driver.flush()


class NonMember:
    """A group that this process is not in, as `new_group` gives it; collectives on it do nothing."""

    ranks: tuple[int, ...] = ()

    def __repr__(self) -> str:
        return "GroupMember.NON_GROUP_MEMBER"

    def rank(self) -> int:
        """-1."""
        return -1

    def size(self) -> int:
        """-1."""
        return -1


NON_GROUP_MEMBER = NonMember()
Group = ProcessGroup | NonMember | None  # None is the group of all processes


def warn_non_member(name: str) -> None:
    """Warn that a process calls a collective of a group that it is not in."""
    text = f"Running {name} on a group that this process does not belong to, at {user_line()}: nothing is done."
    warnings.warn(text, stacklevel=4)
