"""A program for PyTorch with communication hooks and stores: run by torch with gloo, or by `weft run` under mpiexec.

`hooks_and_stores.py LIB OUT`. What it writes are weights, and what stores hold.
"""

from __future__ import annotations

import sys
import time
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from on_ranks import OUT, RANK, WORLD, finish, numbers
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import (
    DDPCommHookType,
    default_hooks,
    register_ddp_comm_hook,
)
from torch.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook import (
    PostLocalSGDState,
    post_localSGD_hook,
)
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import (
    PowerSGDState,
    batched_powerSGD_hook,
    powerSGD_hook,
)
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.distributed.optim import PostLocalSGDOptimizer
from torch.nn.parallel import DistributedDataParallel as DDP


def model() -> DDP:
    net = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 2))
    with torch.no_grad():
        for number, parameter in enumerate(net.parameters()):
            parameter.copy_(numbers(number, *parameter.shape))
    return DDP(net)


def trained(net: DDP) -> list[float]:
    """The weights after some steps."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for step in range(4):
        optimizer.zero_grad()
        net(numbers(10 * step + RANK, 3 + RANK, 5)).square().mean().backward()
        optimizer.step()
    return [v for p in net.parameters() for v in p.detach().flatten().tolist()]


def largest(group, bucket):  # type: ignore[no-untyped-def]  # PyTorch reads annotations
    """The gradient of the rank whose is larger: a hook of the program's own, which waits for a future."""
    assert bucket.is_last() and bucket.index() == 0 and len(bucket.parameters()) == 4
    assert sum(grad.numel() for grad in bucket.gradients()) == bucket.buffer().numel()
    work = dist.all_reduce(bucket.buffer(), dist.ReduceOp.MAX, group, async_op=True)
    return work.get_future().then(lambda future: future.value()[0] * 0.5)


def hooks() -> dict[str, list[float]]:
    """Weights by hook."""
    found = {}
    wrapped = default_hooks.fp16_compress_wrapper(default_hooks.allreduce_hook)
    given: dict[str, Any] = {
        "mean": default_hooks.allreduce_hook,
        "fp16": default_hooks.fp16_compress_hook,
        "bf16": default_hooks.bf16_compress_hook,
        "wrapped": wrapped,
        "own": largest,
    }
    if sys.argv[1] == "torch":  # which has this one on other devices only
        del given["bf16"]
    for name, hook in given.items():
        net = model()
        net.register_comm_hook(None, hook)
        found[name] = trained(net)
    net = model()
    register_ddp_comm_hook(DDPCommHookType.FP16_COMPRESS, net, None)
    found["by name"] = trained(net)
    return found | by_rank() | by_themselves()


def by_rank() -> dict[str, list[float]]:
    """Matrices as products of others that are as wide: nothing is lost, wherever the iteration begins."""
    found = {}
    hooks = {"power": powerSGD_hook, "square": batched_powerSGD_hook}
    if sys.argv[1] == "torch":  # whose second one refuses its own matrices
        del hooks["square"]
    for name, hook in hooks.items():
        net = model()
        options = {"matrix_approximation_rank": 9, "min_compression_rate": 0.1}
        state = PowerSGDState(None, start_powerSGD_iter=2, **options)
        net.register_comm_hook(state, hook)
        found[name] = trained(net)
    return found


def by_themselves() -> dict[str, list[float]]:
    """Gradients are averaged twice, then the ranks' own are taken, and weights are averaged every second step."""
    net = model()
    alone = dist.new_subgroups(1)[0]
    net.register_comm_hook(PostLocalSGDState(None, alone, 2), post_localSGD_hook)
    optimizer = PostLocalSGDOptimizer(
        torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9), PeriodicModelAverager(2, 2)
    )
    for step in range(5):
        optimizer.zero_grad()
        net(numbers(10 * step + RANK, 3 + RANK, 5)).square().mean().backward()
        optimizer.step()
    assert optimizer.state_dict()["step"] == 5
    return {"local": [v for p in net.parameters() for v in p.detach().flatten().tolist()]}


def port() -> int:
    """The port of rank 0's store, which it writes to a file."""
    told = OUT / "port"
    while not told.exists():
        time.sleep(0.01)
    return int(told.read_text())


def stores() -> list[Any]:
    """What ranks have told each other."""
    within = timedelta(seconds=60)
    if RANK == 0:
        tcp = dist.TCPStore("127.0.0.1", 0, WORLD, True, within, wait_for_workers=False)
        (OUT / "port.new").write_text(str(tcp.port))
        (OUT / "port.new").rename(OUT / "port")
    else:
        tcp = dist.TCPStore("127.0.0.1", port(), WORLD, False, within)
    found = []
    for store in (tcp, dist.FileStore(str(OUT / "store"), WORLD)):
        mine = dist.PrefixStore("here", store)
        mine.set(f"rank {RANK}", str(RANK * 10))
        for _ in range(20):
            store.add("count", 1)
        mine.wait([f"rank {rank}" for rank in range(WORLD)])
        values = [mine.get(f"rank {rank}").decode() for rank in range(WORLD)]
        dist.barrier()
        found.append([values, store.get("count").decode(), store.check(["here/rank 1"])])
        dist.barrier()
    return [*found, queues(tcp)]


def queues(store: dist.TCPStore) -> list[Any]:
    """What one rank takes of what all have put into a queue, and what a queue has to do with keys."""
    mine = dist.PrefixStore("one", store)
    for number in range(10):
        mine.queue_push("jobs", str(100 * RANK + number))
    dist.barrier()
    said = [mine.queue_len("jobs"), store.queue_len("one/jobs"), store.check(["one/jobs"])]
    dist.barrier()
    taken = [int(mine.queue_pop("jobs")) for _ in range(10)]
    mine.clone().set(f"taken {RANK}", ",".join(map(str, taken)))
    dist.barrier()
    lists = [mine.get(f"taken {rank}").decode().split(",") for rank in range(WORLD)]
    for_each = sorted(int(number) for one in lists for number in one)
    said += [for_each, taken == sorted(taken, key=lambda n: (n // 100, n)) or WORLD > 1]
    try:
        mine.queue_pop("jobs", False)
    except dist.QueueEmptyError as error:
        said.append(
            [str(error).splitlines()[0].partition(",")[0], isinstance(error, dist.DistStoreError)]
        )
    if RANK == 0:
        store.queue_push("late", b"x")
    said.append(store.queue_pop("late").decode() if RANK == 1 else "x")
    dist.barrier()  # rank 0 serves the store
    return said


def main() -> None:
    dist.init_process_group(backend="gloo")
    finish({"hooks": hooks(), "stores": stores()})


if __name__ == "__main__":
    main()
