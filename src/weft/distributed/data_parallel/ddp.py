"""DistributedDataParallel: one model on every rank, with gradients averaged at the end of each backward.

Every rank may take other branches, depths and batch sizes and leave parameters unused, and nothing is declared: the
average is taken over all parameters in their order, once a backward has gone through an output of the model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import weft
from weft.autograd.variable import Variable
from weft.distributed.collectives.operations import all_reduce
from weft.distributed.collectives.reduction import ReduceOp
from weft.distributed.collectives.together import (
    average_gradients,
    broadcast_together,
    mean_of_sums,
)
from weft.distributed.data_parallel.blocks import PairwiseSum, blocks_of_rank
from weft.distributed.data_parallel.join import Join, Joinable, JoinHook
from weft.distributed.device_mesh import DeviceMesh
from weft.distributed.group import ProcessGroup
from weft.distributed.nn.comm_hooks import BUCKET_BYTES, GradBucket, Hook, reduce_by_hook
from weft.distributed.world import resolve
from weft.engine.frontend.tensor import Tensor
from weft.errors import ArgumentError, ArgumentTypeError, GradientError
from weft.nn.module.module import Module
from weft.utils._pytree import tree_leaves


class DistributedDataParallel(Module, Joinable):
    """Calls the module it holds as `module`; after `backward` all ranks have the mean of their gradients.

    Ranks begin with the parameters and buffers of the first rank of the group. A parameter that some ranks did not use
    counts as zeros there; one that none used keeps what it had.

    Args:
        module: the same on all ranks.
        process_group: the ranks that train together; by default all.
        broadcast_buffers: begin a forward with the buffers of the first rank, if the one before was to synchronize
            gradients: so evaluation begins with them too.
        init_sync: begin with the parameters of the first rank.
        device_mesh: a mesh of one dimension, instead of a group.
        deterministic: train with the same bits on any number of ranks. A global batch is cut into `block_count` blocks,
            of which each rank has a power of two, those numbered `blocks` (`BlockSampler`). Each backward is of one
            block; when this rank's are done, its gradients are the mean over the batch.
        block_count: 8 by default: the same bits on 1, 2, 4 and 8 ranks.
        bucket_cap_mb: the most MiB of gradients that a communication hook gets at once, 25 by default; without a hook
            there are no buckets.
        device_ids, output_device, dim, find_unused_parameters, static_graph, gradient_as_bucket_view: accepted; there
            is nothing to choose.

    Errors: RuntimeError before `init_process_group`, for a module without parameters that require a gradient, and on
    all ranks for modules that differ.
    """

    def __init__(
        self,
        module: Module,
        device_ids: object = None,
        output_device: object = None,
        dim: int = 0,
        broadcast_buffers: bool | None = None,
        init_sync: bool = True,
        process_group: ProcessGroup | None = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        device_mesh: DeviceMesh | None = None,
        deterministic: bool = False,
        block_count: int = 8,
        **options: object,
    ) -> None:
        super().__init__()
        group = process_group if device_mesh is None else device_mesh.get_group(0)
        self.process_group = resolve(group)
        self.module = module
        self.device_ids = device_ids
        self.broadcast_buffers = broadcast_buffers is not False
        self.require_backward_grad_sync = True
        self._ignored = _ignored(module)
        self._reduced = [
            p for p in module.parameters() if p.requires_grad and id(p) not in self._ignored
        ]
        self._is_queued = False
        self._was_synchronized = True  # the forward before: then ranks have buffers of their own
        self._active = 0  # ranks that have inputs, inside of `join`
        self._block_count = block_count if deterministic else 0
        self.blocks = range(0)
        if deterministic:
            self.blocks = blocks_of_rank(block_count, self.process_group)
        self._sum = PairwiseSum()
        self._hook: Callable[[GradBucket], Any] | None = None
        self._bucket_bytes = BUCKET_BYTES if bucket_cap_mb is None else int(bucket_cap_mb * 2**20)
        if not self._reduced:
            raise ArgumentError(
                "DistributedDataParallel is not needed when a module doesn't have any parameter that requires a "
                "gradient.",
                expected="a parameter that requires a gradient",
                got="none",
                fix="call the module itself",
            )
        if init_sync:
            self._broadcast_state(0)

    def __getstate__(self) -> dict[str, object]:
        """The module and the options, for a pickle. Groups and hooks belong to processes."""
        return {**self.__dict__, "process_group": None, "_hook": None}

    def __setstate__(self, state: dict[str, object]) -> None:
        """Take the state of a pickle; the group is that of all processes. Errors: ValueError before
        init_process_group."""
        self.__dict__.update(state, process_group=resolve())

    def _broadcast_state(self, root: int) -> None:
        """Give all ranks the parameters and buffers of one."""
        state = [*self.module.parameters(), *self.module.buffers()]
        kept = [value for value in state if id(value) not in self._ignored]
        broadcast_together(self.process_group, kept, root)

    # -- a step --------------------------------------------------------------------------------------------------

    def forward(self, *inputs: object, **kwargs: object) -> Any:
        """The result of the module."""
        self.begin_forward()
        outputs = self.module(*inputs, **kwargs)
        self.end_forward(outputs)
        return outputs

    def leave_alone(self, ignored: set[int]) -> None:
        """Reduce no gradients of some parameters.

        Args:
            ignored: their identities.
        """
        self._reduced = [p for p in self._reduced if id(p) not in ignored]

    @staticmethod
    def _set_params_and_buffers_to_ignore_for_model(module: Module, names: Iterable[str]) -> None:
        """Have parameters and buffers of a module, by their names in it, left alone by the DistributedDataParallel that
        is made of it next.

        Args:
            module: the module.
            names: what `named_parameters` and `named_buffers` call them.
        """
        module.__dict__["_ddp_params_and_buffers_to_ignore"] = set(names)

    def begin_forward(self) -> None:
        """Agree on the step with the other ranks, and take their buffers."""
        synchronizes = weft.is_grad_enabled() and self.require_backward_grad_sync
        if synchronizes and self._block_count:
            self._begin_block()
        root, broadcasts, self._was_synchronized = 0, self._was_synchronized, synchronizes
        if self._join_config.enable:
            broadcasts = synchronizes
            active = Join.notify_join_context(self)
            self._active = self.process_group.size() if active is None else int(active)
            root = self._agree_on_step(synchronizes)
        if broadcasts:
            self._broadcast_buffers(root)

    def end_forward(self, outputs: object) -> None:
        """Have gradients averaged when a backward comes to these outputs.

        Args:
            outputs: what the module gave, tensors in any structure.
        """
        if not self._was_synchronized:
            return
        for tensor in tree_leaves(outputs):
            if isinstance(tensor, Tensor) and tensor.requires_grad:
                tensor.register_hook(self._queue)

    def _broadcast_buffers(self, root: int) -> None:
        buffers: list[Tensor] = []
        if self.broadcast_buffers:
            buffers = [b for b in self.module.buffers() if id(b) not in self._ignored]
        if buffers and self.process_group.size() > 1:
            broadcast_together(self.process_group, buffers, root)

    def _queue(self, grad: Tensor) -> None:
        """Have gradients averaged at the end of the backward that has reached an output."""
        if not self._is_queued:
            self._is_queued = True
            Variable._execution_engine.queue_callback(self._average)

    def _average(self) -> None:
        self._is_queued = False
        if self._block_count:
            self._end_block()
        else:
            self._combine()

    def _combine(self, absent: bool = False) -> None:
        """Replace gradients by their mean, or by what the hook makes of them; with `absent` have this rank count as one
        without."""
        if self._hook is None:
            scale = 1.0 if absent else self._scale()
            average_gradients(self.process_group, self._reduced, scale, absent)
        else:
            some = (self.process_group, self._reduced, self._hook)
            reduce_by_hook(*some, self._bucket_bytes, absent)

    def _set_static_graph(self) -> None:
        """Nothing: graphs may differ in any case."""

    def register_comm_hook(self, state: object, hook: Hook) -> None:
        """Have a function average gradients: `hook(state, bucket)`, of some of this rank's as a vector, gives a future
        of the vector that they become (`distributed.algorithms.ddp_comm_hooks` has some).

        Args:
            state: what the hook is given, as a group.
            hook: called for each bucket of a backward, on all ranks in the same order.

        Errors: TypeError for what cannot be called; RuntimeError for a second hook, and with `deterministic`.
        """
        if not callable(hook):
            raise ArgumentTypeError(
                "Communication hook must be callable.",
                expected="a function of a state and a bucket",
                got=type(hook).__name__,
                fix="pass allreduce_hook, say",
            )
        if self._hook is not None or self._block_count:
            raise GradientError(
                "register_comm_hook can only be called once"
                if self._hook is not None
                else "register_comm_hook: deterministic=True says how gradients are added",
                expected="one hook, on a model without deterministic=True",
                got="another one",
                fix="make another DistributedDataParallel",
            )
        self._hook = partial(hook, state)

    def _begin_block(self) -> None:
        """Leave nothing pending that could run with a block. Errors: ValueError where gradients are left."""
        weft.realize()
        if any(parameter.grad is not None for parameter in self._reduced):
            raise ArgumentError(
                "DistributedDataParallel: a block begins with gradients that are there already",
                expected="no gradients, with deterministic=",
                got="gradients of another backward",
                fix="call optimizer.zero_grad() after each step",
            )

    def _end_block(self) -> None:
        """Add the gradients of a block; after this rank's last one, take the mean over the batch."""
        weft.realize(*self._sum.add([parameter.grad for parameter in self._reduced]))
        for parameter in self._reduced:
            parameter.grad = None
        if self._sum.count == len(self.blocks):
            total = self._sum.take()
            mean_of_sums(self.process_group, self._reduced, total, self._block_count)

    def _scale(self) -> float:
        """The factor on the mean over all ranks: more than 1 where only those with inputs are to count."""
        options = self._join_config.options
        if self._join_config.enable and not options.get("divide_by_initial_world_size", True):
            return self.process_group.size() / self._active
        return 1.0

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """A context for forwards whose gradients stay on the rank and are added up, until a step outside."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    # -- loops of different lengths ------------------------------------------------------------------------------

    def join(
        self,
        divide_by_initial_world_size: bool = True,
        enable: bool = True,
        throw_on_early_termination: bool = False,
    ) -> Join:
        """A context for a loop with more inputs on some ranks than on others. By default a rank without inputs counts
        as zeros in the mean; without `divide_by_initial_world_size` it does not count."""
        return Join(
            [self],
            enable,
            throw_on_early_termination,
            divide_by_initial_world_size=divide_by_initial_world_size,
        )

    def join_hook(self, **kwargs: object) -> JoinHook:
        """The part in a step of a rank without inputs."""
        return _Answers(self)

    @property
    def join_device(self) -> weft.device:
        """The CPU."""
        return weft.device("cpu")

    @property
    def join_process_group(self) -> ProcessGroup:
        """The ranks that train together."""
        return self.process_group

    def _agree_on_step(self, synchronizes: bool, has_inputs: bool = True) -> int:
        """The last rank of those that have inputs, or -1 where the step ends without an average."""
        own = self.process_group.rank() if has_inputs else -1
        said = weft.tensor([int(synchronizes), own])
        all_reduce(said, ReduceOp.MAX, self.process_group)
        averages, root = said.tolist()
        return root if averages else -1

    def _answer(self) -> None:
        """Take part in a step of the others without a gradient."""
        root = self._agree_on_step(False, has_inputs=False)
        if root >= 0:
            self._broadcast_buffers(root)
            self._combine(absent=True)

    def _finish(self, is_last: bool) -> None:
        """After the loops: all ranks get the state of the last one that had inputs."""
        self._broadcast_state(self._last(is_last))

    def _last(self, is_last: bool) -> int:
        said = weft.tensor([self.process_group.rank() if is_last else -1])
        all_reduce(said, ReduceOp.MAX, self.process_group)
        return int(said)


def _ignored(module: Module) -> set[int]:
    """The identities of parameters and buffers that are none of DistributedDataParallel's: those that a program has
    named, and parameters that `fully_shard` has, which are combined there."""
    names = module.__dict__.get("_ddp_params_and_buffers_to_ignore", ())
    found = {id(p) for p in module.parameters() if getattr(p, "gathers", None) is not None}
    for name, value in (*module.named_parameters(), *module.named_buffers()):
        if name in names:
            found.add(id(value))
    return found


class _Answers(JoinHook):
    """A rank without inputs, in the steps of the others."""

    def __init__(self, parallel: DistributedDataParallel) -> None:
        self._parallel = parallel

    def main_hook(self) -> None:
        """Take part in one step."""
        self._parallel._answer()

    def post_hook(self, is_last_joiner: bool) -> None:
        """Take the final state."""
        self._parallel._finish(is_last_joiner)
