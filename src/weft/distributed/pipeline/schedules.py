"""Schedules of pipelines: in which order the stages of a rank run forward and backward of microbatches.

A schedule is a list of steps for each rank. All of them run by one loop: values are received where a step needs them
and sent as soon as they are there, so that ranks wait only for what they use.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import weft
from weft.distributed.pipeline.stage import Loss, Named, Outputs, PipelineStage
from weft.engine.frontend.tensor import Tensor
from weft.errors import ArgumentError
from weft.utils._pytree import tree_flatten, tree_unflatten

Arguments = Sequence[Any]


class TensorChunkSpec(NamedTuple):
    """The dimension along which an argument is cut into microbatches."""

    split_dim: int = 0


class PipelineStep(NamedTuple):
    """One step of a rank: forward or backward of a microbatch in one of its stages."""

    is_forward: bool
    stage: int  # of those on this rank
    microbatch: int


class Schedule(ABC):
    """The steps of a pipeline, on this rank.

    Args:
        stage: the stage of this rank; for interleaved schedules a list of stages.
        n_microbatches: into how many parts a batch is cut.
        loss_fn: from output and target of a microbatch to its loss; without one there is no backward.
        args_chunk_spec, kwargs_chunk_spec: the dimensions along which arguments are cut; by default the first.
        output_merge_spec: accepted; outputs are put together along their first dimension.
        scale_grads: divide gradients by the number of microbatches, as for the mean of their losses.

    Errors: ValueError where the batch has fewer entries than there are microbatches.
    """

    def __init__(
        self,
        stage: PipelineStage | Sequence[PipelineStage],
        n_microbatches: int,
        loss_fn: Loss | None = None,
        args_chunk_spec: Sequence[TensorChunkSpec] | None = None,
        kwargs_chunk_spec: dict[str, TensorChunkSpec] | None = None,
        output_merge_spec: object = None,
        scale_grads: bool = True,
        **options: object,
    ) -> None:
        self._stages = [stage] if isinstance(stage, PipelineStage) else list(stage)
        self._count, self._loss_fn, self.scale_grads = n_microbatches, loss_fn, scale_grads
        self._args_spec, self._kwargs_spec = args_chunk_spec, kwargs_chunk_spec or {}
        for one in self._stages[1:]:
            one.post = self._stages[0].post
        self._ranks = self._stages[0].group_size
        self._rank = self._stages[0].group_rank

    @abstractmethod
    def steps(self) -> Iterator[PipelineStep]:
        """The steps of this rank, in their order."""

    def step(
        self,
        *args: Tensor,
        target: Tensor | None = None,
        losses: list[Tensor] | None = None,
        **kwargs: object,
    ) -> Outputs:
        """Forward and backward of a batch. The rank of the first stage passes the batch, that of the last one the
        target, and gets the outputs of the model; others get None. `losses` becomes the list of the microbatches'.

        Args:
            *args: the batch, on the rank of the first stage.
            target: what the loss compares with, on the rank of the last stage; None: on others.
            losses: a list that is filled; None: they are not wanted.
            **kwargs: arguments of the batch by name.
        """
        trains = self._loss_fn is not None and weft.is_grad_enabled()
        return self._run(args, kwargs, target, losses, trains)

    def eval(
        self,
        *args: Tensor,
        target: Tensor | None = None,
        losses: list[Tensor] | None = None,
        **kwargs: object,
    ) -> Outputs:
        """The same without a backward.

        Args:
            *args: the batch, on the rank of the first stage.
            target: what the loss compares with, on the rank of the last stage; None: on others.
            losses: a list that is filled; None: they are not wanted.
            **kwargs: arguments of the batch by name.
        """
        with weft.no_grad():
            return self._run(args, kwargs, target, losses, False)

    def _run(
        self,
        args: Arguments,
        kwargs: Named,
        target: Tensor | None,
        losses: list[Tensor] | None,
        trains: bool,
    ) -> Outputs:
        batch = _Batch(self, args, kwargs, target)
        for step in self.steps():
            stage = self._stages[step.stage]
            if step.is_forward:
                batch.forward(stage, step.microbatch, trains)
            elif trains:
                stage.backward(step.microbatch, batch.losses.get(step.microbatch))
        self._stages[0].post.finish()
        for stage in self._stages:
            stage.clear()
            if trains:
                stage.scale_grads(self._count if self.scale_grads else 1)
        if losses is not None and batch.losses:
            losses[:] = [batch.losses[number] for number in sorted(batch.losses)]
        return _merged([batch.outputs[number] for number in sorted(batch.outputs)])

    # -- microbatches ------------------------------------------------------------------------------------------------

    def cut_args(self, args: Arguments) -> list[list[Any]]:
        """Positional arguments for each microbatch.

        Args:
            args: the arguments of the batch.
        """
        specs = (self._args_spec if args else None) or [TensorChunkSpec()] * len(args)
        columns = [self._cut(value, spec) for value, spec in zip(args, specs, strict=True)]
        return [list(row) for row in zip(*columns, strict=True)] if columns else [[]] * self._count

    def cut_kwargs(self, kwargs: Named) -> list[Named]:
        """Arguments by name for each microbatch.

        Args:
            kwargs: the arguments of the batch, by name.
        """
        columns = {
            name: self._cut(value, self._kwargs_spec.get(name, TensorChunkSpec()))
            for name, value in kwargs.items()
        }
        return [{name: column[n] for name, column in columns.items()} for n in range(self._count)]

    def _cut(self, value: object, spec: object) -> list[Any]:
        if not isinstance(value, Tensor) or not isinstance(spec, TensorChunkSpec):
            return [value] * self._count
        if value.shape[spec.split_dim] < self._count:
            raise ArgumentError(
                f"a batch of {value.shape[spec.split_dim]} cannot be cut into {self._count} microbatches",
                expected=f"at least {self._count} entries along dimension {spec.split_dim}",
                got=str(list(value.shape)),
                fix="pass fewer n_microbatches",
            )
        return list(value.tensor_split(self._count, spec.split_dim))


class _Batch:
    """A batch on its way through the stages of this rank."""

    def __init__(
        self, schedule: Schedule, args: Arguments, kwargs: Named, target: Tensor | None
    ) -> None:
        self._args, self._kwargs = schedule.cut_args(args), schedule.cut_kwargs(kwargs)
        self._targets = schedule.cut_kwargs({} if target is None else {"target": target})
        self._loss_fn = schedule._loss_fn
        self.outputs: dict[int, Outputs] = {}
        self.losses: dict[int, Tensor] = {}

    def forward(self, stage: PipelineStage, number: int, trains: bool) -> None:
        """Forward of a microbatch in a stage; after the last one, its loss."""
        outputs = stage.forward(number, self._args[number], self._kwargs[number], trains)
        if not stage.is_last:
            return
        self.outputs[number] = outputs
        if self._loss_fn is not None and self._targets[number]:
            self.losses[number] = self._loss_fn(outputs, self._targets[number]["target"])


def _merged(outputs: list[Outputs]) -> Outputs:
    """The outputs of microbatches as those of the batch; None on ranks without the last stage."""
    if not outputs:
        return None
    rows = [tree_flatten(output) for output in outputs]
    columns = zip(*(leaves for leaves, _ in rows), strict=True)
    return tree_unflatten([_joined(column) for column in columns], rows[0][1])


def _joined(column: Arguments) -> Any:
    """The values of one output: tensors one behind the other, others those of the first microbatch."""
    if not isinstance(column[0], Tensor):
        return column[0]
    return weft.stack(list(column)) if column[0].ndim == 0 else weft.cat(list(column))


# -- schedules of one stage on each rank -------------------------------------------------------------------------------


class PipelineScheduleSingle(Schedule):
    """A schedule of one stage on each rank."""


class PipelineScheduleMulti(Schedule):
    """A schedule of several stages on each rank: every `group_size`-th one."""


class ScheduleGPipe(PipelineScheduleSingle):
    """All microbatches forward, then all backward (Huang et al. 2019).

    Args:
        stage: the stage of this rank, or its stages.
        n_microbatches: into how many microbatches a batch is cut.
        loss_fn: a function (output, target); None: there is no backward.
        args_chunk_spec: along which dimension each argument is cut; None: the first.
        kwargs_chunk_spec: the same of arguments by name; None: the first.
        output_merge_spec: accepted: outputs are joined along their first dimension; None:
            the same.
        scale_grads: True: gradients are divided by the number of microbatches, as for the
            mean of their losses. Default: True.
        **options: accepted, without effect.

    Example:
        >>> import weft
        >>> import weft.distributed as dist
        >>> from weft.distributed.pipelining import PipelineStage, ScheduleGPipe
        >>> dist.init_process_group()
        >>> stage = PipelineStage(weft.nn.Linear(3, 2), stage_index=0, num_stages=1, device="cpu")
        >>> schedule = ScheduleGPipe(stage, n_microbatches=4, loss_fn=weft.nn.functional.mse_loss)
        >>> losses = []
        >>> schedule.step(weft.ones(8, 3), target=weft.zeros(8, 2), losses=losses).shape, len(losses)
        (weft.Size([8, 2]), 4)
        >>> dist.destroy_process_group()
    """

    def steps(self) -> Iterator[PipelineStep]:
        """The steps of this rank."""
        for number in range(self._count):
            yield PipelineStep(True, 0, number)
        for number in range(self._count):
            yield PipelineStep(False, 0, number)


class Schedule1F1B(PipelineScheduleSingle):
    """As many forward as stages are behind this one, then backward and forward in turn (Narayanan et al. 2019): a stage
    keeps no more microbatches than stages follow it, and itself.

    Args:
        stage: the stage of this rank, or its stages.
        n_microbatches: into how many microbatches a batch is cut.
        loss_fn: a function (output, target); None: there is no backward.
        args_chunk_spec: along which dimension each argument is cut; None: the first.
        kwargs_chunk_spec: the same of arguments by name; None: the first.
        output_merge_spec: accepted: outputs are joined along their first dimension; None:
            the same.
        scale_grads: True: gradients are divided by the number of microbatches, as for the
            mean of their losses. Default: True.
        **options: accepted, without effect.

    Example:
        >>> import weft
        >>> import weft.distributed as dist
        >>> from weft.distributed.pipelining import PipelineStage, Schedule1F1B
        >>> dist.init_process_group()
        >>> stage = PipelineStage(weft.nn.Linear(3, 2), stage_index=0, num_stages=1, device="cpu")
        >>> schedule = Schedule1F1B(stage, n_microbatches=4, loss_fn=weft.nn.functional.mse_loss)
        >>> schedule.step(weft.ones(8, 3), target=weft.zeros(8, 2)).shape
        weft.Size([8, 2])
        >>> dist.destroy_process_group()
    """

    def steps(self) -> Iterator[PipelineStep]:
        """The steps of this rank."""
        stage = self._stages[0]
        ahead = min(self._count, stage.num_stages - stage.stage_index)
        for number in range(ahead):
            yield PipelineStep(True, 0, number)
        for number in range(self._count):
            yield PipelineStep(False, 0, number)
            if number + ahead < self._count:
                yield PipelineStep(True, 0, number + ahead)


# -- schedules of several stages on each rank --------------------------------------------------------------------------


class ScheduleLoopedBFS(PipelineScheduleMulti):
    """All microbatches forward through each stage in turn, then backward (Lamy-Poirier 2022).

    Args:
        stage: the stage of this rank, or its stages.
        n_microbatches: into how many microbatches a batch is cut.
        loss_fn: a function (output, target); None: there is no backward.
        args_chunk_spec: along which dimension each argument is cut; None: the first.
        kwargs_chunk_spec: the same of arguments by name; None: the first.
        output_merge_spec: accepted: outputs are joined along their first dimension; None:
            the same.
        scale_grads: True: gradients are divided by the number of microbatches, as for the
            mean of their losses. Default: True.
        **options: accepted, without effect.
    """

    def steps(self) -> Iterator[PipelineStep]:
        """The steps of this rank."""
        count = len(self._stages)
        yield from (PipelineStep(True, s, n) for s in range(count) for n in range(self._count))
        yield from (
            PipelineStep(False, s, n) for s in reversed(range(count)) for n in range(self._count)
        )


class ScheduleInterleaved1F1B(PipelineScheduleMulti):
    """1F1B over several stages on each rank, in rounds of as many microbatches as ranks (Narayanan et al. 2021).

    Args:
        stage: the stage of this rank, or its stages.
        n_microbatches: into how many microbatches a batch is cut.
        loss_fn: a function (output, target); None: there is no backward.
        args_chunk_spec: along which dimension each argument is cut; None: the first.
        kwargs_chunk_spec: the same of arguments by name; None: the first.
        output_merge_spec: accepted: outputs are joined along their first dimension; None:
            the same.
        scale_grads: True: gradients are divided by the number of microbatches, as for the
            mean of their losses. Default: True.
        **options: accepted, without effect.

    Raises:
        ValueError for a number of microbatches that rounds do not divide.
    """

    def steps(self) -> Iterator[PipelineStep]:
        """The steps of this rank."""
        ranks, count = self._ranks, len(self._stages)
        rounds = max(1, self._count // ranks)
        width = self._count // rounds
        if self._count % rounds:
            raise ArgumentError(
                f"Interleaved 1F1B requires the number of microbatches to be a multiple of the number of rounds "
                f"({rounds})",
                expected=f"a multiple of {ranks}",
                got=str(self._count),
                fix=f"pass n_microbatches={rounds * ranks}",
            )
        total = count * self._count
        ahead = min((count - 1) * width + 2 * (ranks - 1 - self._rank), total)
        forwards = [self._nth(n, width, count) for n in range(total)]
        backwards = [PipelineStep(False, count - 1 - s, n) for _, s, n in forwards]
        yield from forwards[:ahead]
        for number in range(total):
            if ahead + number < total:
                yield forwards[ahead + number]
            yield backwards[number]

    @staticmethod
    def _nth(number: int, width: int, count: int) -> PipelineStep:
        """The forward of a number: rounds of microbatches, through the stages of this rank one after the other."""
        rest, place = divmod(number, width)
        round_number, stage = divmod(rest, count)
        return PipelineStep(True, stage, round_number * width + place)
