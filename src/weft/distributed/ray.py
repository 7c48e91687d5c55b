"""Training on a Ray cluster: Ray starts and places the processes, restarts them after a failure, keeps checkpoints.

`Trainer` is a trainer of Ray Train: on each worker it begins `weft.distributed`, so that the train function finds its
rank, collectives and `DistributedDataParallel` as under `mpiexec`. Ray's own functions (`ray.train.report`,
`get_checkpoint`, `get_dataset_shard`) and configurations serve as with its other trainers.

    import weft
    from weft.distributed.ray import Trainer, prepare_model
    from ray.train import ScalingConfig

    def train(config):
        model = prepare_model(weft.nn.Linear(3, 1))
        ...

    Trainer(train, scaling_config=ScalingConfig(num_workers=2)).fit()
"""

from __future__ import annotations

import functools
import inspect
import os
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol

import ray
from ray.train import get_context
from ray.train.backend import Backend, BackendConfig
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

import weft
from weft._typing import Array
from weft.data.dataset import IterableDataset
from weft.data.distributed import DistributedSampler, DistributedStream
from weft.data.loader import DataLoader
from weft.data.sampler import BatchSampler, RandomSampler, SequentialSampler
from weft.distributed.backends.ray import open_office
from weft.distributed.data_parallel.ddp import DistributedDataParallel
from weft.distributed.world import (
    default_pg_timeout,
    destroy_process_group,
    init_process_group,
    is_initialized,
    tell_failure,
)
from weft.errors import ArgumentError
from weft.nn.module.module import Module

__all__ = ["Trainer", "WeftConfig", "batches", "prepare_data_loader", "prepare_model"]


class _WorkerGroup(Protocol):
    """The methods of Ray's workers that are used here."""

    def __len__(self) -> int: ...

    def execute(self, function: Callable[..., object], *args: object) -> list[object]: ...

    def execute_single_async(
        self, rank: int, function: Callable[..., object], *args: object
    ) -> object: ...


class _Shard(Protocol):
    """A part of a data set of Ray Data."""

    def iter_batches(self, **options: object) -> Iterable[dict[str, Array]]: ...


# Of a loader, all but its data set and their order.
_KEPT = (
    "batch_size", "drop_last", "num_workers", "collate_fn", "pin_memory", "timeout", "worker_init_fn", "generator",
    "prefetch_factor", "persistent_workers", "multiprocessing_context", "in_order",
)  # fmt: skip
_ORDERS = {RandomSampler: True, SequentialSampler: False}


@dataclass
class WeftConfig(BackendConfig):
    """The settings of the group that the workers of a `Trainer` are.

    Args:
        timeout_s: how long a worker waits for the others in a collective, in seconds.
    """

    timeout_s: float = default_pg_timeout.total_seconds()

    @property
    def backend_cls(self) -> type[Backend]:
        """The class that begins and ends the group of the workers."""
        return _Workers


class _Workers(Backend):
    """Workers of Ray Train as one group of `weft.distributed`."""

    def on_start(self, worker_group: _WorkerGroup, backend_config: BackendConfig) -> None:
        """Let all workers meet at an office, which belongs to the controller: it outlives any worker."""
        assert isinstance(backend_config, WeftConfig)
        address = f"ray://{uuid.uuid4().hex}"
        self._office = open_office(address)
        size = len(worker_group)
        begun = [
            worker_group.execute_single_async(
                rank, _begin, address, rank, size, backend_config.timeout_s
            )
            for rank in range(size)
        ]
        ray.get(begun)

    def on_training_start(self, worker_group: _WorkerGroup, backend_config: BackendConfig) -> None:
        """Name each worker in the variables that programs for `torchrun` read."""
        worker_group.execute(_name_ranks)

    def on_shutdown(self, worker_group: _WorkerGroup, backend_config: BackendConfig) -> None:
        """Close the office after all have left."""
        try:
            worker_group.execute(_end)
        finally:
            ray.kill(self._office)


def _begin(address: str, rank: int, size: int, timeout_s: float) -> None:
    init_process_group("ray", address, timedelta(seconds=timeout_s), world_size=size, rank=rank)


def _name_ranks() -> None:
    context = get_context()
    os.environ.update(
        RANK=str(context.get_world_rank()),
        WORLD_SIZE=str(context.get_world_size()),
        LOCAL_RANK=str(context.get_local_rank()),
        LOCAL_WORLD_SIZE=str(context.get_local_world_size()),
        NODE_RANK=str(context.get_node_rank()),
    )


def _end() -> None:
    if is_initialized():
        destroy_process_group()


class Trainer(DataParallelTrainer):
    """Runs a train function on the workers of a Ray cluster, each a rank of `weft.distributed`.

    A worker that fails tells the others, with its line; a worker that dies is found by the others and by Ray. With
    `RunConfig(failure_config=FailureConfig(max_failures=n))` Ray begins all of them again, and the train function goes
    on from `ray.train.get_checkpoint()`.

    Args:
        train_loop_per_worker: a function of nothing, or of `train_loop_config`.
        train_loop_config: a dictionary for it.
        weft_config: how the workers work together.
        scaling_config: Ray's: how many workers, and what each needs.
        run_config: Ray's: name, storage, failures, checkpoints.
        datasets: data sets of Ray Data, of which `ray.train.get_dataset_shard` gives each worker a part.
        options: `dataset_config`, `validation_config`, as in Ray.

    `fit()` gives Ray's `Result`. Errors: those of Ray Train, `TrainingFailedError` when the train function fails.
    """

    def __init__(
        self,
        train_loop_per_worker: Callable[..., object],
        *,
        train_loop_config: dict[str, object] | None = None,
        weft_config: WeftConfig | None = None,
        scaling_config: object = None,
        run_config: object = None,
        datasets: dict[str, object] | None = None,
        **options: object,
    ) -> None:
        super().__init__(
            _telling(train_loop_per_worker),
            train_loop_config=train_loop_config,
            backend_config=weft_config or WeftConfig(),
            scaling_config=scaling_config,
            run_config=run_config,
            datasets=datasets,
            **options,
        )


def _telling(train: Callable[..., object]) -> Callable[..., object]:
    """A train function whose failure is told to the other workers."""

    @functools.wraps(train)
    def told(*config: object) -> object:
        try:
            return train(*config)
        except BaseException as error:
            tell_failure(type(error), error, error.__traceback__)
            raise

    told.__signature__ = inspect.signature(train)  # type: ignore[attr-defined]  # Ray counts its parameters
    return told


def prepare_model(model: Module, **options: object) -> Module:
    """The model as all workers train it: `DistributedDataParallel`, which takes the options, where there are several.

    Example: `model = prepare_model(weft.nn.Linear(3, 1))`.
    """
    if weft.distributed.get_world_size() == 1:
        return model
    wrap: Callable[..., Module] = DistributedDataParallel
    return wrap(model, **options)


def prepare_data_loader(loader: DataLoader) -> DataLoader:
    """A loader of this worker's part of the same data set, shuffled where `loader` shuffles. Call
    `loader.sampler.set_epoch(epoch)` before each epoch, for another order.

    Errors: ValueError for a loader with an order of its own (`batch_sampler`, or a sampler that is not the default).
    """
    if weft.distributed.get_world_size() == 1:
        return loader
    options = {name: getattr(loader, name) for name in _KEPT}
    if isinstance(loader.dataset, IterableDataset):
        return DataLoader(DistributedStream(loader.dataset), **options)
    if type(loader.batch_sampler) is not BatchSampler or type(loader.sampler) not in _ORDERS:
        raise ArgumentError(
            "prepare_data_loader: the loader has an order of its own",
            expected="a loader with batch_size and shuffle",
            got=f"{type(loader.sampler).__name__} and {type(loader.batch_sampler).__name__}",
            fix="pass DataLoader(sampler=DistributedSampler(...)), which needs no preparing",
        )
    sampler = DistributedSampler(loader.dataset, shuffle=_ORDERS[type(loader.sampler)])
    return DataLoader(loader.dataset, sampler=sampler, **options)


def batches(shard: _Shard, batch_size: int = 256, **options: object) -> Iterator[dict[str, Any]]:
    """The rows of a worker's part of a Ray data set, as dictionaries of tensors; columns of text stay arrays.

    Args:
        shard: what `ray.train.get_dataset_shard` gives.
        batch_size: rows in a batch; the last one may have fewer.
        options: as of Ray's `iter_batches`: `drop_last`, `prefetch_batches`, `local_shuffle_buffer_size`.

    Example: `for batch in batches(ray.train.get_dataset_shard("train"), 32): loss = step(batch["x"], batch["y"])`.
    """
    for columns in shard.iter_batches(batch_size=batch_size, batch_format="numpy", **options):
        yield {
            name: column if column.dtype.kind in "OUSMm" else weft.tensor(column)
            for name, column in columns.items()
        }
