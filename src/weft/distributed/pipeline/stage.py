"""A stage of a pipeline: the part of a model that one rank runs, microbatch by microbatch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import weft
from weft.distributed.group import Group
from weft.distributed.pipeline.messages import Post
from weft.distributed.world import resolve
from weft.engine.frontend.tensor import Tensor
from weft.errors import ArgumentError, ArgumentTypeError
from weft.nn.module.module import Module

Outputs = Any  # of a module: a tensor, or a tuple of some
Arguments = Sequence[Any]
Named = dict[str, Any]
Values = list[Tensor | None]
Loss = Callable[..., Tensor]


class PipelineStage:
    """The module that this rank runs as one stage of `num_stages`.

    Stage n lies on rank n of the group, modulo its size. Its outputs are the inputs of the next one; they may have
    other shapes for each microbatch.

    Args:
        submodule: from outputs of the stage before to those of this one.
        stage_index: the number of this stage.
        num_stages: of the whole model.
        device: the CPU.
        input_args, output_args: accepted; shapes travel with values.
        group: the ranks; by default all.
        dw_builder: accepted, without effect; None: the same.

    Example:
        >>> import weft
        >>> import weft.distributed as dist
        >>> from weft.distributed.pipelining import PipelineStage
        >>> dist.init_process_group()
        >>> stage = PipelineStage(weft.nn.Linear(3, 2), stage_index=0, num_stages=1, device="cpu")
        >>> stage.is_first, stage.is_last
        (True, True)
        >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        submodule: Module,
        stage_index: int,
        num_stages: int,
        device: object,
        input_args: object = None,
        output_args: object = None,
        group: Group = None,
        dw_builder: object = None,
    ) -> None:
        if not 0 <= stage_index < num_stages:
            raise ArgumentError(
                f"Stage index {stage_index} is out of range of {num_stages}",
                expected=f"0 <= stage_index < {num_stages}",
                got=str(stage_index),
                fix="number stages from 0",
            )
        self.submod, self.stage_index, self.num_stages = submodule, stage_index, num_stages
        self.device = weft.device(device) if isinstance(device, str) else device
        self.group = resolve(group)
        self.group_rank, self.group_size = self.group.rank(), self.group.size()
        self.post = Post(self.group)
        self._inputs: dict[int, Values] = {}
        self._outputs: dict[int, Values] = {}

    @property
    def is_first(self) -> bool:
        """True if it takes what `step` is given."""
        return self.stage_index == 0

    @property
    def is_last(self) -> bool:
        """True if its outputs are those of the model."""
        return self.stage_index == self.num_stages - 1

    def _rank_of(self, stage: int) -> int:
        return stage % self.group_size

    # -- microbatches ------------------------------------------------------------------------------------------------

    def forward(self, number: int, args: Arguments, named: Named, keeps: bool) -> Outputs:
        """The outputs for a microbatch, which go to the next stage. With `keeps` a backward follows.

        Args:
            number: of the microbatch.
            args: its arguments, at the first stage.
            named: its arguments by name.
            keeps: True: a backward follows.
        """
        inputs = list(args) if self.is_first else self._received()
        outputs = self.submod(*inputs, **named)
        values = _listed(outputs)
        if not self.is_last:
            self.post.send(values, self._rank_of(self.stage_index + 1), 2 * self.stage_index)
        if keeps:
            self._inputs[number] = [] if self.is_first else inputs
            self._outputs[number] = values
        return outputs

    def _received(self) -> list[Any]:
        before = self.stage_index - 1
        return self.post.receive(self._rank_of(before), 2 * before)

    def backward(self, number: int, loss: Tensor | None) -> None:
        """Backward for a microbatch: from the loss at the last stage, else from what the next one sends.

        Args:
            number: of the microbatch.
            loss: at the last stage; else None.
        """
        inputs, outputs = self._inputs.pop(number), self._outputs.pop(number)
        if self.is_last:
            assert loss is not None
            loss.backward()
        else:
            grads = self.post.receive(self._rank_of(self.stage_index + 1), 2 * self.stage_index + 1)
            pairs = [
                (output, grad)
                for output, grad in zip(outputs, grads, strict=True)
                if output is not None and output.requires_grad and grad is not None
            ]
            if pairs:
                weft.autograd.backward([output for output, _ in pairs], [grad for _, grad in pairs])
        if not self.is_first:
            before = self.stage_index - 1
            grads = [None if value is None else value.grad for value in inputs]
            self.post.send(grads, self._rank_of(before), 2 * before + 1)

    def scale_grads(self, factor: float) -> None:
        """Divide the gradients of parameters.

        Args:
            factor: the divisor.
        """
        if factor != 1:
            with weft.no_grad():
                for parameter in self.submod.parameters():
                    if parameter.grad is not None:
                        parameter.grad.div_(factor)

    def clear(self) -> None:
        """Forget microbatches that no backward has come to."""
        self._inputs, self._outputs = {}, {}


def _listed(outputs: Outputs) -> Values:
    """The outputs of a module as a list. Errors: TypeError for what cannot be sent."""
    values = list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]
    for value in values:
        if not isinstance(value, Tensor | None):
            raise ArgumentTypeError(
                f"a stage gives tensors to the next one, not {type(value).__name__}",
                expected="a tensor, or a tuple of tensors",
                got=type(value).__name__,
                fix="return tensors from the stage's forward",
            )
    return values
