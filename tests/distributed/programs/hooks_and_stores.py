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
    return found


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
    return found


def main() -> None:
    dist.init_process_group(backend="gloo")
    finish({"hooks": hooks(), "stores": stores()})


if __name__ == "__main__":
    main()
