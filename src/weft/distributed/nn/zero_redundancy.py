"""ZeroRedundancyOptimizer (ZeRO stage 1, Rajbhandari et al. 2020): each rank keeps the optimizer state of some
parameters, updates these, and sends them to the others.

Parameters are dealt out whole, the largest first, each to the rank that has least. An optimizer of the program's class
holds those of this rank; what ranks have updated travels as one broadcast for each rank and dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import weft
from weft.distributed.collectives.carrier import record
from weft.distributed.collectives.objects import gather_object
from weft.distributed.data_parallel.join import Joinable, JoinHook
from weft.distributed.group import Group, ProcessGroup
from weft.distributed.world import resolve
from weft.engine.frontend.tensor import Tensor
from weft.errors import GradientError, NotDefinedError
from weft.optim.optimizer import Group as Options
from weft.optim.optimizer import Optimizer

if TYPE_CHECKING:
    from weft._typing import Parameters


class ZeroRedundancyOptimizer(Optimizer, Joinable):
    """An optimizer whose state is shared out: each rank has that of its parameters, and updates them for all.

    Args:
        params: the parameters, on all ranks alike, or dictionaries of them with options of their own.
        optimizer_class: the class of the optimizer.
        process_group: the ranks; None: all.
        parameters_as_bucket_view: accepted, without effect: parameters are packed as they travel. Default: False.
        overlap_with_ddp: must be False: what is sent overlaps with what does not need it anyhow. Default: False.
        **defaults: the options of the optimizer.

    Raises:
        NotImplementedError for `overlap_with_ddp=True`; ValueError for no parameters.

    Example:
        >>> import weft
        >>> import weft.distributed as dist
        >>> from weft.distributed.optim import ZeroRedundancyOptimizer
        >>> dist.init_process_group()
        >>> model = weft.nn.parallel.DistributedDataParallel(weft.nn.Linear(3, 1))
        >>> optimizer = ZeroRedundancyOptimizer(model.parameters(), weft.optim.Adam, lr=0.1)
        >>> model(weft.ones(2, 3)).sum().backward()
        >>> optimizer.step()
        >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        params: Parameters,
        optimizer_class: Callable[..., Optimizer],
        process_group: Group = None,
        parameters_as_bucket_view: bool = False,
        overlap_with_ddp: bool = False,
        **defaults: object,
    ) -> None:
        if overlap_with_ddp:
            raise NotDefinedError(
                "ZeroRedundancyOptimizer: steps within the backward pass",
                expected="overlap_with_ddp=False",
                got="True",
                fix="leave it out: parameters that are sent overlap with what does not need them",
            )
        self.process_group: ProcessGroup = resolve(process_group)
        self.rank, self.world_size = self.process_group.rank(), self.process_group.size()
        self._owners: dict[int, int] = {}  # by the parameter's id
        self._sizes = [0] * self.world_size
        self._of_all_ranks: list[Options] | None = None  # states, after consolidate_state_dict
        super().__init__(params, defaults)
        self.optim = optimizer_class([self._own(group) for group in self.param_groups], **defaults)
        self._take_options(self.optim.param_groups, self.param_groups)

    # -- parameters and their ranks --------------------------------------------------------------------------------

    def add_param_group(self, param_group: Options) -> None:
        """Take more parameters, on all ranks alike.

        Args:
            param_group: parameters and their options, as a dictionary.
        """
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        for parameter in sorted(group["params"], key=lambda p: p.numel(), reverse=True):
            owner = self._sizes.index(min(self._sizes))
            self._owners[id(parameter)] = owner
            self._sizes[owner] += parameter.numel()
        if hasattr(self, "optim"):
            self.optim.add_param_group(self._own(group))
            self._take_options(self.optim.param_groups, self.param_groups)

    def _own(self, group: Options) -> Options:
        """A group with this rank's parameters alone."""
        return {**group, "params": self._of_rank(group, self.rank)}

    def _of_rank(self, group: Options, rank: int) -> list[Tensor]:
        return [p for p in group["params"] if self._owners[id(p)] == rank]

    @staticmethod
    def _take_options(given: list[Options], taken: list[Options]) -> None:
        """Have groups the options that others have."""
        for own, new in zip(taken, given, strict=True):
            own.update({key: value for key, value in new.items() if key != "params"})

    # -- steps -----------------------------------------------------------------------------------------------------

    def step(self, closure: Callable[[], object] | None = None, **options: object) -> Any:  # type: ignore[override]
        """Update this rank's parameters, and get those of the others.

        Args:
            closure: a function that computes the loss again; None: none.
            **options: what the optimizer's own `step` takes in addition.
        """
        self._take_options(self.param_groups, self.optim.param_groups)
        named: Options = options if closure is None else {"closure": closure, **options}
        loss = self.optim.step(**named)
        self._take_options(self.optim.param_groups, self.param_groups)
        with weft.no_grad():
            for rank, parameters in self._packed():
                self._send(rank, parameters)
        return loss

    def _packed(self) -> Iterator[tuple[int, list[Tensor]]]:
        """The parameters of each rank, by dtype."""
        everything = [p for group in self.param_groups for p in group["params"]]
        for rank in range(self.world_size):
            by_dtype: dict[object, list[Tensor]] = {}
            for parameter in everything:
                if self._owners[id(parameter)] == rank:
                    by_dtype.setdefault(parameter.dtype, []).append(parameter)
            yield from ((rank, parameters) for parameters in by_dtype.values())

    def _send(self, rank: int, parameters: list[Tensor]) -> None:
        """Have the parameters of a rank on all."""
        counts = [p.numel() for p in parameters]
        if rank == self.rank:
            flat = weft.cat([p.detach().reshape(-1) for p in parameters])
        else:
            flat = weft.empty(sum(counts), dtype=parameters[0].dtype)
        found = record("broadcast", flat, self.process_group, root=rank)
        if rank != self.rank:
            for parameter, part in zip(parameters, found.split(counts), strict=True):
                parameter.copy_(part.view(parameter.shape))

    # -- state -----------------------------------------------------------------------------------------------------

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Bring the state of all ranks to one, whose `state_dict` then has it; all ranks call it.

        Args:
            to: the rank in the world. Default: 0.
        """
        self._take_options(self.param_groups, self.optim.param_groups)
        is_there = self.process_group.ranks[self.rank] == to
        said: list[Any] | None = [None] * self.world_size if is_there else None
        gather_object(self.optim.state_dict(), said, dst=to, group=self.process_group)
        self._of_all_ranks = said

    def state_dict(self) -> Options:
        """The state of all ranks, as one optimizer has it, on the rank that `consolidate_state_dict` named.

        Raises:
            RuntimeError where it has not been brought here.
        """
        if self._of_all_ranks is None:
            raise GradientError(
                "Optimizer state has not been consolidated on this rank. Please call "
                f"`consolidate_state_dict(to={self.rank})` on all ranks beforehand if you meant to save the global "
                "state.",
                expected="consolidate_state_dict on all ranks",
                got=f"the state of rank {self.rank} alone",
                fix="call it before, and state_dict() on the rank that it names",
            )
        found = super().state_dict()
        numbers = self._numbers()
        for rank, own in enumerate(self._of_all_ranks):
            for number, parameter in self._numbered(rank).items():
                if number in own["state"]:
                    found["state"][numbers[id(parameter)]] = own["state"][number]
        found["state"] = dict(sorted(found["state"].items()))
        return found

    def _numbered(self, rank: int) -> dict[int, Tensor]:
        """The parameters of a rank by their numbers in the state of its optimizer."""
        parameters = (p for group in self.param_groups for p in self._of_rank(group, rank))
        return dict(enumerate(parameters))

    def load_state_dict(self, state_dict: Options) -> None:
        """Take over the state of all ranks, or of one optimizer; each rank keeps that of its parameters.

        Args:
            state_dict: what `state_dict` gave.

        Raises:
            ValueError for another number of groups or of parameters in a group.
        """
        super().load_state_dict({**state_dict, "state": {}})  # checks, and takes options
        listed = [number for group in state_dict["param_groups"] for number in group["params"]]
        parameters = [p for group in self.param_groups for p in group["params"]]
        by_parameter = {id(p): number for number, p in zip(listed, parameters, strict=True)}
        state = {
            number: state_dict["state"][by_parameter[id(parameter)]]
            for number, parameter in self._numbered(self.rank).items()
            if by_parameter[id(parameter)] in state_dict["state"]
        }
        own = self.optim.state_dict()
        self.optim.load_state_dict({**own, "state": state})
        self._take_options(self.param_groups, self.optim.param_groups)

    # -- join ------------------------------------------------------------------------------------------------------

    def join_hook(self, **kwargs: object) -> JoinHook:
        """The hook for a rank that has ended: it goes on with steps, whose gradients DistributedDataParallel brings.

        Args:
            **kwargs: accepted, without effect.
        """
        return _Steps(self)

    @property
    def join_device(self) -> weft.device:
        """The device of the parameters."""
        return weft.device("cpu")

    @property
    def join_process_group(self) -> ProcessGroup:
        """The group of the ranks."""
        return self.process_group


class _Steps(JoinHook):
    """Answers each step of the others by a step."""

    def __init__(self, optimizer: ZeroRedundancyOptimizer) -> None:
        self._optimizer = optimizer

    def main_hook(self) -> None:
        """Make one step."""
        self._optimizer.step()
