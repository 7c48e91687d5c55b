"""Losses and weights, as bits, after each epoch by blocks: `deterministic.py weft OUT EPOCHS [resume]`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import weft
import weft.distributed as dist
from weft import nn

OUT = Path(sys.argv[2])
EPOCHS, RESUMES = int(sys.argv[3]), "resume" in sys.argv
BLOCKS, BLOCK_SIZE = 8, 3


class Dynamic(nn.Module):
    """Another depth and other layers for each example, with dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.left, self.right = nn.Linear(6, 16), nn.Linear(16, 16), nn.Linear(16, 16)
        self.last, self.dropout = nn.Linear(16, 4), nn.Dropout(0.25)

    def forward(self, x: Any) -> Any:
        """One example."""
        h = self.first(x).tanh()
        for step in range(1 + int(x[0] > 0.5) + int(x[1] > 0.5)):
            h = (self.left if x[2 + step] > 0.5 else self.right)(h).tanh()
        return self.last(self.dropout(h))


def bits(tensor: Any) -> str:
    return str(tensor.detach().numpy().tobytes().hex())


def main() -> None:
    dist.init_process_group()
    weft.manual_seed(3)
    model = Dynamic()
    xs, ys = weft.rand(48, 6), weft.randint(0, 4, (48,))
    parallel = nn.parallel.DistributedDataParallel(model, deterministic=True, block_count=BLOCKS)
    optimizer = weft.optim.AdamW(parallel.parameters(), lr=0.02)
    sampler = dist.BlockSampler(xs, BLOCKS, BLOCK_SIZE)
    begun = 0
    if RESUMES:
        state = weft.load(OUT.parent / "state")
        parallel.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        begun = state["steps"]
    found: list[Any] = []
    for epoch in range(begun, begun + EPOCHS):
        sampler.set_epoch(epoch)
        losses: list[str] = []
        own: list[Any] = []
        for indices in sampler:
            step = epoch * 2 + len(losses)
            weft.manual_seed(step * BLOCKS + parallel.blocks[len(own)])
            cost = [nn.functional.cross_entropy(parallel(xs[i]), ys[i]) for i in indices]
            own.append(weft.stack(cost).mean())
            own[-1].backward()
            if len(own) == len(parallel.blocks):
                optimizer.step()
                optimizer.zero_grad()
                losses.append(bits(dist.mean_of_blocks(own)))
                own = []
        found.append([losses, [bits(parameter) for parameter in parallel.parameters()]])
    (OUT / f"{dist.get_rank()}.json").write_text(json.dumps(found))
    if dist.get_rank() == 0 and not RESUMES:
        state = {"model": parallel.state_dict(), "optimizer": optimizer.state_dict()}
        weft.save({**state, "steps": begun + EPOCHS}, OUT / "state")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
