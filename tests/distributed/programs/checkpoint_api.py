"""A program for PyTorch that writes and reads checkpoints in the ways that programs do: run by torch with gloo, or by
`weft run` under mpiexec.

`checkpoint_api.py LIB OUT`. What it writes are names and values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from on_ranks import OUT, RANK, finish, numbers
from torch import nn
from torch.distributed.checkpoint.default_planner import _EmptyStateDictLoadPlanner
from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    get_state_dict,
    set_model_state_dict,
    set_state_dict,
)
from torch.distributed.checkpoint.state_dict_loader import _load_state_dict, load_state_dict
from torch.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType, save_state_dict
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

WHOLE_OF_FIRST = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)


def place(name: str) -> str:
    return str(OUT / "checkpoints" / name)


def plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, DTensor):
        return [str(value.placements), list(value.to_local().shape), plain(value.full_tensor())]
    if isinstance(value, torch.Tensor):
        return [list(value.shape), float(value.detach().double().sum())]
    if isinstance(value, dict):
        return {str(key): plain(entry) for key, entry in sorted(value.items(), key=str)}
    return [plain(entry) for entry in value] if isinstance(value, list | tuple) else value


class Net(nn.Module):
    """Modules within a module, and a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(4, 8)
        self.b = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 4))
        self.register_buffer("scale", torch.ones(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.b(self.a(x).relu()) * self.scale


def made(seed: int = 0, steps: int = 1) -> tuple[Any, Any]:
    """A sharded model after some steps, and its optimizer."""
    model: Any = Net()
    with torch.no_grad():
        for number, parameter in enumerate(model.parameters()):
            parameter.copy_(numbers(seed + number, *parameter.shape))
    fully_shard(model.b[0])
    fully_shard(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    for _ in range(steps):
        step(model, optimizer)
    return model, optimizer


def step(model: Any, optimizer: Any) -> float:
    loss = model(numbers(9, 3, 4)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return float(loss.detach())


def in_background() -> Any:
    """A save that goes on while values change, and those with the futures and options of PyTorch's."""
    x = torch.ones(4)
    saving = dcp.async_save({"x": x, "n": 3}, checkpoint_id=place("async"))
    x.zero_()
    names = sorted(saving.result().state_dict_metadata)
    state = {"x": torch.zeros(4), "n": 0}
    dcp.load(state, checkpoint_id=place("async"))
    options = StagingOptions(
        use_pinned_memory=False,
        use_shared_memory=False,
        use_async_staging=True,
        use_non_blocking_copy=False,
    )
    stager = DefaultStager(options)
    both = dcp.async_save({"x": x}, checkpoint_id=place("staged"), async_stager=stager)
    both.staging_completion.result()
    both.upload_completion.result()
    stager.close()
    kind = AsyncCheckpointerType.THREAD
    dcp.async_save({"x": x}, checkpoint_id=place("k"), async_checkpointer_type=kind).result()
    return [names, plain(state), saving.done()]


def folders() -> Any:
    """Readers and writers with options, and older names."""
    writer = dcp.FileSystemWriter(place("w"), single_file_per_rank=True, thread_count=2)
    found = dcp.save({"x": torch.ones(3), "l": [1, 2]}, storage_writer=writer)
    sizes = list(found.state_dict_metadata["x"].size)
    dcp.save({"x": torch.ones(2)}, storage_writer=writer, checkpoint_id=place("other"))
    state = {"x": torch.zeros(2)}
    reader = dcp.FileSystemReader(place("nowhere"))
    dcp.load(state, storage_reader=reader, checkpoint_id=place("other"))
    save_state_dict({"x": torch.ones(2)}, dcp.FileSystemWriter(place("old")))
    old = {"x": torch.zeros(2)}
    load_state_dict(old, dcp.FileSystemReader(place("old")))
    refused = ""
    once = dcp.FileSystemWriter(place("old"), overwrite=False)
    try:
        dcp.save({"x": torch.ones(2)}, storage_writer=once)
    except dcp.CheckpointException:
        refused = "refused"
    valid = dcp.FileSystemReader.validate_checkpoint_id(place("w"))
    return [sizes, plain(state), plain(old), refused, valid, str(writer.path) == place("other")]


def trees() -> Any:
    """Lists with tensors, and what a name has to be for."""
    saved = {"l": [torch.ones(2), {"y": torch.arange(3)}], "plain": [1, {"a": 2}], "t": (1, "x")}
    dcp.save(saved, checkpoint_id=place("trees"))
    state = {
        "l": [torch.zeros(2), {"y": torch.zeros(3, dtype=torch.int64)}],
        "plain": [],
        "t": 0,
    }
    dcp.load({"l": state["l"], "t": 0}, checkpoint_id=place("trees"))
    names = sorted(dcp.FileSystemReader(place("trees")).read_metadata().state_dict_metadata)
    errors = []
    for wanted in ({"zz": torch.zeros(1)}, {"l": [torch.zeros(1)]}):
        try:
            dcp.load(wanted, checkpoint_id=place("trees"))
        except dcp.CheckpointException:
            errors.append("refused")
    return [names, plain(state["l"]), errors]


def stages() -> Any:
    """Ranks that have different tensors and values, as the stages of a pipeline."""
    mine = {f"stage{RANK}": torch.full((700, 400), float(RANK)), f"step{RANK}": RANK}
    dcp.save({"both": torch.ones(2), **mine}, checkpoint_id=place("stages"))
    state = {
        "both": torch.zeros(2),
        "stage0": torch.ones(700, 400),
        "stage1": torch.zeros(700, 400),
    }
    state |= {"step0": 9, "step1": 9}
    dcp.load(state, checkpoint_id=place("stages"))
    return plain(state)


def without_a_state() -> Any:
    """All entries, or some, of a checkpoint whose names are not known."""
    model, _ = made()
    dcp.save({"model": model.state_dict(), "epoch": 3}, checkpoint_id=place("empty"))
    found = []
    for keys in (None, {"model.a"}, {"epoch"}):
        state: dict[str, Any] = {}
        planner = _EmptyStateDictLoadPlanner(keys=keys)
        reader = dcp.FileSystemReader(place("empty"))
        _load_state_dict(state, storage_reader=reader, planner=planner, no_dist=True)
        found.append(plain(state))
    return found


def submodules() -> Any:
    """States of a part of a model, with and without its name, and back."""
    model, _ = made()
    short = StateDictOptions(keep_submodule_prefixes=False)
    parts = [
        get_model_state_dict(model, submodules={model.b}),
        get_model_state_dict(model, submodules={model.b}, options=short),
    ]
    other, _ = made(90)
    loose = StateDictOptions(strict=False)
    loaded = set_model_state_dict(other, {other.b: get_model_state_dict(model.b)}, options=loose)
    return [plain(parts), sorted(loaded.missing_keys), plain(other.state_dict())]


def from_the_first() -> Any:
    """A state that the first rank alone has, for models with and without values, and their optimizers."""
    model, optimizer = made()
    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    whole = get_model_state_dict(model, options=options)
    with torch.device("meta"):
        other: Any = Net()
    fully_shard(other.b[0])
    fully_shard(other)
    loaded = set_model_state_dict(other, whole, options=WHOLE_OF_FIRST)
    refused = ""
    try:
        set_model_state_dict(other, {}, options=StateDictOptions(broadcast_from_rank0=True))
    except ValueError as error:
        refused = str(error).partition("\n")[0].partition(", called")[0]
    return [plain(other.state_dict()), str(loaded), refused]


def states_of_optimizers() -> Any:
    """No optimizers, fresh ones, and those whose parameters have gradients."""
    model, optimizer = made(steps=0)
    fresh = get_optimizer_state_dict(model, optimizer)
    other, waiting = made(steps=0)
    other(numbers(9, 3, 4)).sum().backward()
    found = get_optimizer_state_dict(other, waiting)
    return [list(get_state_dict(model, ()))[1], plain(fresh), plain(found["state"])]


def compiled() -> Any:
    """A model that has been compiled has the names of one that has not."""
    model = Net()
    return sorted(get_model_state_dict(torch.compile(model, backend="eager")))


class App:
    """An object with a state, as PyTorch's tutorial has it."""

    def __init__(self, model: Any, optimizer: Any) -> None:
        self.model, self.optimizer = model, optimizer

    def state_dict(self) -> dict[str, Any]:
        model, optimizer = get_state_dict(self.model, self.optimizer)
        return {"model": model, "optimizer": optimizer}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        set_state_dict(
            self.model,
            self.optimizer,
            model_state_dict=state["model"],
            optim_state_dict=state["optimizer"],
        )


def stateful() -> Any:
    """An object with a state goes into another one, which goes on as the first."""
    model, optimizer = made()
    dcp.save({"app": App(model, optimizer)}, checkpoint_id=place("app"))
    other, second = made(70, steps=0)
    dcp.load({"app": App(other, second)}, checkpoint_id=place("app"))
    return [plain(other.state_dict()), step(other, second)]


PARTS: list[Callable[[], Any]] = [
    *(in_background, folders, trees, stages, without_a_state, submodules, from_the_first),
    *(states_of_optimizers, compiled, stateful),
]


def main() -> None:
    dist.init_process_group(backend="gloo")
    found = {}
    for part in PARTS:
        found[part.__name__] = part()
        dist.barrier()
    finish(found)


if __name__ == "__main__":
    main()
