"""A step of data-parallel training as a trace of each rank: `timeline.py weft OUT`."""

from __future__ import annotations

import sys
from pathlib import Path

import weft
import weft.distributed as dist
from weft import nn
from weft.profiler import profile

OUT, WIDTH, LAYERS = Path(sys.argv[2]), 512, 8


def main() -> None:
    dist.init_process_group()
    weft.manual_seed(0)
    layers = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(LAYERS)]
    model = nn.parallel.DistributedDataParallel(nn.Sequential(*layers))
    optimizer = weft.optim.AdamW(model.parameters())
    x = weft.rand(256, WIDTH)

    def step() -> None:
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        weft.realize(*model.parameters())

    for _ in range(3):
        step()
    dist.barrier()
    with profile() as recorded:
        step()
    recorded.export_chrome_trace(str(OUT / f"{dist.get_rank()}.json"))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
