"""Two processes: all_reduce by size, and steps of data-parallel training, beside PyTorch with gloo.

In: nothing that the parent has. Out: lines, of runs of both libraries in turn. Each process has one thread. Run as a
script (`python -m benchmarks.distributed TASK LIBRARY OUT SIZE`) this module is one of the processes; that of rank 0
writes the seconds to OUT.
"""

from __future__ import annotations

import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.dynamic import batches_of
from benchmarks.libraries import fill, load, normal, realize
from benchmarks.measure import Context, Line
from benchmarks.models import SMALL_GPT, GPTSize, tree_lstm
from benchmarks.training import gpt_step, numbered, shuffled, train_job, unchanged

RANKS = 2
BYTES = (64, 4 << 10, 64 << 10, 1 << 20, 16 << 20)
MPIEXEC = Path(sys.executable).parent / "mpiexec"
LAUNCHER = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}


# -- the parent ---------------------------------------------------------------------------------


def processes(context: Context) -> None:
    """Lines for each task; runs of the libraries alternate."""
    for task in TASKS:
        found: dict[str, list[dict[str, float]]] = {name: [] for name in context.libraries}
        for _ in range(context.pick(3, 1)):
            for name, runs in found.items():
                runs.append(measured(context, task, name))
        for title in found["weft"][0]:
            figures = {
                name: statistics.median(run[title] for run in runs) for name, runs in found.items()
            }
            context.report(Line(title, figures, "s", f"{RANKS} processes"))


def measured(context: Context, task: str, library: str, ranks: int = RANKS) -> dict[str, float]:
    """The seconds that rank 0 of a run measured, by title. More ranks than two are Weft's alone."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "seconds.json")
        size = "quick" if context.quick else "full"
        script = [sys.executable, "-m", "benchmarks.distributed", task, library, str(out), size]
        environment = dict(os.environ) | LAUNCHER
        if library == "weft":
            command = [str(MPIEXEC), "-n", str(ranks), *script]
            subprocess.run(command, env=environment, check=True)
        else:
            _run_apart(script, environment)
        found: dict[str, float] = json.loads(out.read_text())
        return found


def _run_apart(script: list[str], environment: dict[str, str]) -> None:
    """Start the processes one by one, as gloo wants them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(RANKS)}
    started = [
        subprocess.Popen(script, env=environment | meeting | {"RANK": str(rank)})
        for rank in range(RANKS)
    ]
    if any([process.wait() for process in started]):
        raise SystemExit("the processes of gloo have failed")


# -- one of the processes -------------------------------------------------------------------------


def timed(lib: Any, run: Callable[[], object], budget_seconds: float) -> float:
    """The median of the seconds that a call takes, begun together; all ranks make the same number of calls."""
    dist = lib.distributed
    for _ in range(3):
        run()
    begun = time.perf_counter()
    run()
    count = lib.tensor([max(5, min(200, int(budget_seconds / (time.perf_counter() - begun))))])
    dist.broadcast(count, 0)
    times = []
    for _ in range(int(count)):
        dist.barrier()
        begun = time.perf_counter()
        run()
        times.append(time.perf_counter() - begun)
    return statistics.median(times)


def reductions(lib: Any, quick: bool) -> dict[str, float]:
    """all_reduce of float32, by size."""
    found = {}
    for nbytes in BYTES[:3] if quick else BYTES:
        x = normal(lib, nbytes // 4)

        def run(x: Any = x) -> None:
            lib.distributed.all_reduce(x, lib.distributed.ReduceOp.MAX)
            realize(lib, x)

        found[f"all_reduce of {nbytes:,} bytes"] = timed(lib, run, 1.0)
    return found


def parallel(lib: Any, model: Any) -> Any:
    """A model whose gradients are averaged over the processes."""
    return lib.nn.parallel.DistributedDataParallel(model)


def dynamic(lib: Any, model: Any) -> Any:
    """The same for graphs of their own in each process: PyTorch has to be told."""
    return lib.nn.parallel.DistributedDataParallel(model, find_unused_parameters=True)


def gpt_steps(lib: Any, quick: bool) -> dict[str, float]:
    """A GPT on characters, alone and averaged."""
    size = SMALL_GPT if quick else GPTSize()
    budget = 1.0 if quick else 8.0
    alone = timed(lib, gpt_step(lib, size).run, budget)
    both = timed(lib, gpt_step(lib, size, prepare=parallel).run, budget)
    name = f"GPT {size.layers} x {size.width}, batch {size.batch} on each process, AdamW step"
    return {f"{name}, alone": alone, f"{name}, averaged": both}


def loss_of(model: Any, upcoming: Callable[[], list[Any]]) -> Any:
    """The model's loss of the next batch."""
    return model(upcoming())


def tree_steps(lib: Any, quick: bool) -> dict[str, float]:
    """A Tree-LSTM on syntax trees, other ones in each process."""
    from weft.demo.syntax_trees import load_functions

    data = load_functions(limit=320)
    labels = {label: lib.tensor(n) for n, label in enumerate(data.vocabulary())}
    classes = {package: lib.tensor(n) for n, package in enumerate(data.packages)}
    examples = [(numbered(f.tree, labels), classes[f.package]) for f in shuffled(data.train)]
    own = examples[lib.distributed.get_rank() :: RANKS]
    cost = lib.nn.functional.cross_entropy

    class MeanLoss(lib.nn.Module):  # type: ignore[misc,name-defined]
        """The mean loss of some trees."""

        def __init__(self) -> None:
            super().__init__()
            self.network = fill(
                lib, tree_lstm(lib, len(labels), len(classes), 32 if quick else 128)
            )

        def forward(self, trees: list[Any]) -> Any:
            return lib.stack([cost(self.network(tree), target) for tree, target in trees]).mean()

    batch = 8 if quick else 32
    found = {}
    for title, prepare in (("alone", unchanged), ("averaged", dynamic)):
        model = prepare(lib, MeanLoss())
        upcoming = batches_of(own, batch)
        step = train_job(lib, model, partial(loss_of, model, upcoming))
        name = f"Tree-LSTM, {batch} trees on each process, AdamW step, {title}"
        found[name] = timed(lib, step.run, 1.0 if quick else 6.0)
    return found


def blocks(lib: Any, count: int, width: int) -> Any:
    """A chain of layers as in a transformer's feed-forward part."""
    nn = lib.nn

    class Block(nn.Module):  # type: ignore[misc,name-defined]
        """What is added to its input."""

        def __init__(self) -> None:
            super().__init__()
            self.norm, self.act = nn.LayerNorm(width), nn.GELU()
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            return x + self.down(self.act(self.up(self.norm(x))))

    return fill(lib, nn.Sequential(*[Block() for _ in range(count)]))


def _sizes(quick: bool) -> tuple[int, int, int, float]:
    """Blocks, width, rows, and seconds to measure."""
    return (2, 64, 16, 1.0) if quick else (6, 512, 128, 6.0)


def tensor_parallel_steps(lib: Any, quick: bool) -> dict[str, float]:
    """One model whose layers are shared out: columns of the first, rows of the second."""
    count, width, rows, budget = _sizes(quick)
    style = import_module(f"{lib.__name__}.distributed.tensor.parallel")
    meshes = import_module(f"{lib.__name__}.distributed.device_mesh")
    mesh = meshes.init_device_mesh("cpu", (RANKS,))
    model = blocks(lib, count, width)
    for block in model:
        plan = {"up": style.ColwiseParallel(), "down": style.RowwiseParallel()}
        style.parallelize_module(block, mesh, plan)
    optimizer = lib.optim.AdamW(model.parameters())
    x = normal(lib, rows, width)

    def step() -> None:
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        loss.item()

    name = f"tensor parallel, {count} blocks of {width}, {rows} rows, AdamW step"
    return {name: timed(lib, step, budget)}


def pipeline_steps(lib: Any, quick: bool) -> dict[str, float]:
    """One model of which each process has half of the layers."""
    count, width, rows, budget = _sizes(quick)
    pipelining = import_module(f"{lib.__name__}.distributed.pipelining")
    rank, microbatches = lib.distributed.get_rank(), 4
    model = blocks(lib, count // 2, width)
    stage = pipelining.PipelineStage(model, rank, RANKS, lib.device("cpu"))
    cost = lib.nn.functional.mse_loss
    schedule = pipelining.Schedule1F1B(stage, n_microbatches=microbatches, loss_fn=cost)
    optimizer = lib.optim.AdamW(model.parameters())
    x, y = normal(lib, rows, width), normal(lib, rows, width)

    def step() -> None:
        losses: list[Any] = []
        given = {"target": y, "losses": losses}
        schedule.step(*[x] if rank == 0 else [], **given if rank == RANKS - 1 else {})
        optimizer.step()
        optimizer.zero_grad()
        realize(lib, *model.parameters())
        for loss in losses:
            loss.item()

    name = f"pipeline, {count} blocks of {width}, {rows} rows in {microbatches}, AdamW step"
    return {name: timed(lib, step, budget)}


TASKS: dict[str, Callable[[Any, bool], dict[str, float]]] = {
    "reductions": reductions,
    "gpt": gpt_steps,
    "trees": tree_steps,
    "tensor parallel": tensor_parallel_steps,
    "pipeline": pipeline_steps,
}


def main(task: str, library: str, out: str, size: str) -> None:
    """Measure a task in this process and the others."""
    lib = load([library], 1)[library]
    lib.distributed.init_process_group("gloo")
    found = TASKS[task](lib, size == "quick")
    if lib.distributed.get_rank() == 0:
        Path(out).write_text(json.dumps(found))
    lib.distributed.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
