"""Steps of training, or a loop of collectives, in which one rank goes wrong: `faults.py HOW`, with a timeout of six
seconds for one that hangs. HOW may begin with "forward" or "backward", where it does so in a step."""

from __future__ import annotations

import os
import signal
import sys
import time
from datetime import timedelta

import weft
import weft.distributed as dist

*WHERE, HOW = sys.argv[1].split()


def go_wrong() -> None:
    if HOW == "nothing":
        return
    if HOW == "raise":
        raise ZeroDivisionError("on purpose")
    if HOW == "hang":
        time.sleep(60)
    if HOW == "leave":
        sys.exit(0)
    number = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP, "interrupt": signal.SIGINT}[HOW]
    os.kill(os.getpid(), number)


class Faulty(weft.nn.Linear):
    """A layer that goes wrong on rank 1 in the fourth step: in its forward, or as its gradient comes."""

    step = 0

    def forward(self, x: weft.Tensor) -> weft.Tensor:
        y = super().forward(x)
        self.step += 1
        if self.step == 4 and dist.get_rank() == 1:
            if WHERE == ["forward"]:
                go_wrong()
            y.register_hook(lambda grad: go_wrong())
        return y


def train() -> None:
    """Steps of data-parallel training."""
    model = weft.nn.Sequential(weft.nn.Linear(8, 64), Faulty(64, 64), weft.nn.Linear(64, 1))
    parallel = weft.nn.parallel.DistributedDataParallel(model)
    optimizer = weft.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(100):
        parallel(weft.rand(4, 8)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        weft.realize(*model.parameters())


def reduce_often() -> None:
    """A loop of collectives."""
    for step in range(100):
        if step == 3 and dist.get_rank() == 1:
            go_wrong()
        sums = weft.ones(1000)
        dist.all_reduce(sums)
        assert float(sums[-1]) == dist.get_world_size()


def main() -> None:
    # Only a rank that hangs is found by the timeout: others are not to be taken for one on a busy machine.
    dist.init_process_group(timeout=timedelta(seconds=6 if HOW == "hang" else 120))
    dist.barrier()
    begun = time.monotonic()
    try:
        (train if WHERE else reduce_often)()
    except RuntimeError as error:
        text = f"rank {dist.get_rank()} after {time.monotonic() - begun:.1f} s: {error}\n"
        os.write(1, text.encode())
        raise
    os.write(1, f"rank {dist.get_rank()} ends\n".encode())


if __name__ == "__main__":
    main()
