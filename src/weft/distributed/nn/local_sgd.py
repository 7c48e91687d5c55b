"""Local SGD: ranks train by themselves for some steps, and then take the mean of their parameters.

Lin, Stich, Patel and Jaggi, Don't use large mini-batches, use local SGD (2020): gradients are averaged over all ranks
at first (`post_localSGD_hook` of a `DistributedDataParallel`), and afterwards over a smaller group or not at all, while
an averager, called after each step (`PostLocalSGDOptimizer`), makes the parameters equal now and then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import weft
from weft.distributed.collectives.carrier import record
from weft.distributed.collectives.reduction import ReduceOp
from weft.distributed.group import Group
from weft.distributed.nn.comm_hooks import GradBucket, allreduce_hook, future_of
from weft.distributed.world import resolve
from weft.engine.frontend.tensor import Tensor
from weft.errors import ArgumentError
from weft.futures import Future
from weft.optim.optimizer import Optimizer

State = dict[str, Any]  # of an optimizer, or of a group of its parameters
Parameters = Iterable[Tensor] | Iterable[State]


class PostLocalSGDState:
    """The state of `post_localSGD_hook`.

    Args:
        process_group: the ranks that gradients are averaged over at first; None: all.
        subgroup: those that they are averaged over afterwards; None: all.
        start_localSGD_iter: how many backward passes there are at first.
        post_local_gradient_allreduce: average gradients over the subgroup afterwards; False: not at all.
    """

    def __init__(
        self,
        process_group: Group,
        subgroup: Group,
        start_localSGD_iter: int,
        post_local_gradient_allreduce: bool = True,
    ) -> None:
        self.process_group, self.subgroup = process_group, subgroup
        self.start_localSGD_iter = start_localSGD_iter
        self.post_local_gradient_allreduce = post_local_gradient_allreduce
        self.iter = 0

    def maybe_increase_iter(self, bucket: GradBucket) -> None:
        """Count a backward pass, at its last bucket.

        Args:
            bucket: gradients that are sent together.
        """
        self.iter += bucket.is_last()


def post_localSGD_hook(state: PostLocalSGDState, bucket: GradBucket) -> Future[Tensor]:
    """The mean over all ranks of gradients at first, then over fewer, or this rank's own.

    Args:
        state: a `PostLocalSGDState`, one for each model.
        bucket: the gradients.
    """
    is_first = state.iter < state.start_localSGD_iter
    state.maybe_increase_iter(bucket)
    if is_first:
        return allreduce_hook(state.process_group, bucket)
    if state.post_local_gradient_allreduce:
        return allreduce_hook(state.subgroup, bucket)
    return future_of(bucket.buffer())


class ModelAverager:
    """The base class of averagers, which take the mean of parameters.

    Args:
        process_group: the ranks; None: all.
    """

    def __init__(self, process_group: Group = None) -> None:
        self.process_group = process_group
        self.step = 0

    def average_parameters(self, params: Parameters) -> None:
        """Count a step, and take the mean where that is due.

        Args:
            params: the parameters, or groups of them.
        """
        raise NotImplementedError


class PeriodicModelAverager(ModelAverager):
    """The mean of parameters over the ranks, every few steps.

    Args:
        period: how many steps from one mean to the next.
        warmup_steps: how many steps there are before the first one.
        process_group: the ranks; None: all.

    Errors: ValueError for a period below 1, or steps below 0.
    """

    def __init__(self, period: int, warmup_steps: int = 0, process_group: Group = None) -> None:
        super().__init__(process_group)
        if period < 1 or warmup_steps < 0:
            raise ArgumentError(
                "period must be a positive value and warmup_steps must be non-negative",
                expected="period >= 1, warmup_steps >= 0",
                got=f"period={period}, warmup_steps={warmup_steps}",
                fix="pass period=4 to take the mean at every fourth step",
            )
        self.period, self.warmup_steps = period, warmup_steps

    def average_parameters(self, params: Parameters) -> None:
        """Count a step, and take the mean where that is due.

        Args:
            params: the parameters, or an optimizer's groups of them; on all ranks alike. Those without a gradient are
                left alone.
        """
        after = self.step - self.warmup_steps
        self.step += 1
        if after >= 0 and after % self.period == 0:
            average_parameters(params, self.process_group)


def average_parameters(params: Parameters, process_group: Group = None) -> None:
    """Replace parameters by their means over the ranks.

    Args:
        params: the parameters, or an optimizer's groups of them; on all ranks alike. Those without a gradient are left
            alone.
        process_group: the ranks; None: all.
    """
    group = resolve(process_group)
    with weft.no_grad():
        chosen = [p for p in _listed(params) if p.grad is not None]
        means = [record("all_reduce", p.detach(), group, ReduceOp.AVG) for p in chosen]
        for parameter, mean in zip(chosen, means, strict=True):
            parameter.copy_(mean)


def _listed(params: Parameters) -> list[Tensor]:
    """The parameters, also those of groups."""
    found: list[Tensor] = []
    for one in params:
        found += list(one["params"]) if isinstance(one, dict) else [one]
    return found


class PostLocalSGDOptimizer(Optimizer):
    """An optimizer whose steps an averager follows; its state has the averager's number of steps.

    Args:
        optim: the optimizer.
        averager: what takes means, such as a `PeriodicModelAverager`.
    """

    def __init__(self, optim: Optimizer, averager: ModelAverager) -> None:
        self.optim, self.averager = optim, averager
        self.param_groups = optim.param_groups

    @property
    def state(self) -> Any:  # type: ignore[override]
        """The optimizer's state."""
        return self.optim.state

    def state_dict(self) -> State:
        """The optimizer's state, and the averager's number of steps as `step`."""
        return {**self.optim.state_dict(), "step": self.averager.step}

    def load_state_dict(self, state_dict: State) -> None:
        """Load both; a state without `step` begins to count at 0.

        Args:
            state_dict: what `state_dict` gave.
        """
        own = dict(state_dict)
        self.averager.step = int(own.pop("step", 0))
        self.optim.load_state_dict(own)
        self.param_groups = self.optim.param_groups

    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """A step of the optimizer, and the mean where it is due.

        Args:
            closure: a function that computes the loss again; None: none.
        """
        loss = self.optim.step(closure)
        self.averager.average_parameters(self.param_groups)
        return loss

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients.

        Args:
            set_to_none: True: gradients become None; False: zeros. Default: True.
        """
        self.optim.zero_grad(set_to_none=set_to_none)

    def add_param_group(self, param_group: State) -> None:
        """Take more parameters.

        Args:
            param_group: parameters and their options, as a dictionary.
        """
        self.optim.add_param_group(param_group)

    def __repr__(self) -> str:
        return repr(self.optim)
