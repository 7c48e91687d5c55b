"""Join: loops of different lengths on the ranks. A rank that has ended answers the collectives of those that go on.

A `Joinable` says in `join_hook` what a rank does that has no more inputs: `main_hook` once for each step of the others,
and `post_hook` at the end. In each step, before its own collectives, it calls `Join.notify_join_context`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

import weft
from weft.distributed.collectives.operations import all_reduce
from weft.distributed.errors import DistError

if TYPE_CHECKING:
    from weft.distributed.group import ProcessGroup
    from weft.engine.frontend.tensor import Tensor


class JoinHook:
    """The part of a rank without inputs, for one joinable."""

    def main_hook(self) -> None:
        """Answer one step of the others."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """Do what is left when all have ended; `is_last_joiner` on those ranks that ended last.

        Args:
            is_last_joiner: this rank is among those that ran out of data last.
        """


class JoinConfig(NamedTuple):
    """The settings of a context for one joinable."""

    enable: bool = False
    throw_on_early_termination: bool = False
    is_first_joinable: bool = False
    options: dict[str, Any] = {}  # noqa: RUF012 - never changed


class Joinable(ABC):
    """Something with collectives in each step: DistributedDataParallel."""

    _join_config = JoinConfig()

    @abstractmethod
    def join_hook(self, **kwargs: object) -> JoinHook:
        """The hook for a rank that has ended; it gets the context's further arguments.

        Args:
            **kwargs: what `Join` was given.
        """

    @property
    @abstractmethod
    def join_device(self) -> weft.device:
        """The device of the context's own tensors."""

    @property
    @abstractmethod
    def join_process_group(self) -> ProcessGroup:
        """The group of the collectives."""


class Join:
    """A context for loops that may end at different steps on the ranks.

    Args:
        joinables: what has collectives in each step, in the order in which a step reaches them.
        enable: False for loops that are known to be equally long.
        throw_on_early_termination: raise on all ranks when the first one ends.
        **kwargs: handed on to each module's `join_hook`.

    Example:
        >>> import weft
        >>> import weft.distributed as dist
        >>> from weft.distributed.algorithms.join import Join
        >>> dist.init_process_group()
        >>> model = weft.nn.parallel.DistributedDataParallel(weft.nn.Linear(1, 1))
        >>> with Join([model]):  # ranks may have fewer batches than others
        ...     for x in weft.ones(2, 4, 1):
        ...         model(x).sum().backward()
        >>> model.module.bias.grad
        tensor([8.])
        >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        joinables: Sequence[Joinable],
        enable: bool = True,
        throw_on_early_termination: bool = False,
        **kwargs: Any,
    ) -> None:
        self._joinables, self._enable = list(joinables), enable
        self._throws = throw_on_early_termination
        self._group = joinables[0].join_process_group
        for number, joinable in enumerate(joinables):
            joinable._join_config = JoinConfig(enable, self._throws, number == 0, kwargs)
        self._hooks = [joinable.join_hook(**kwargs) for joinable in joinables]

    def __enter__(self) -> Join:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if self._enable and kind is None:
                self._answer_the_others()
        finally:
            for joinable in self._joinables:
                joinable._join_config = JoinConfig()

    def _answer_the_others(self) -> None:
        is_last = True
        while int(_counted(self._group, 0)) > 0:
            if self._throws:
                raise _ended_early(self._group)
            for hook in self._hooks:
                hook.main_hook()
            is_last = False
        for hook in self._hooks:
            hook.post_hook(is_last)

    @staticmethod
    def notify_join_context(joinable: Joinable) -> Tensor | None:
        """Say that this rank has inputs for another step; the number of ranks that have, or None outside a context.

        Args:
            joinable: the module or optimizer that communicates next.
        """
        config = joinable._join_config
        if not config.enable or not config.is_first_joinable:
            return None
        group = joinable.join_process_group
        active = _counted(group, 1)
        if config.throw_on_early_termination and int(active) < group.size():
            raise _ended_early(group)
        return active


def _counted(group: ProcessGroup, own: int) -> Tensor:
    """The number of ranks that go on."""
    count = weft.tensor([own])
    all_reduce(count, group=group)
    return count


def _ended_early(group: ProcessGroup) -> DistError:
    return DistError(
        f"Join: a rank of {list(group.ranks)} has no more inputs",
        expected="equally many steps on all ranks, with throw_on_early_termination=True",
        got="a rank that has ended",
        fix="leave throw_on_early_termination out, and the others go on",
    )
