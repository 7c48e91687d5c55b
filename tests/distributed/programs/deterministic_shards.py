"""Losses and weights, as bits, after each epoch of a sharded model by blocks: `deterministic_shards.py weft OUT EPOCHS
[resume] [copies]`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from weft.distributed.fsdp import fully_shard

import weft
import weft.distributed as dist
from weft import nn
from weft.distributed import checkpoint

OUT = Path(sys.argv[2])
EPOCHS, RESUMES, COPIES = int(sys.argv[3]), "resume" in sys.argv, "copies" in sys.argv
BLOCKS, BLOCK_SIZE = 8, 3


class Layer(nn.Module):
    """A layer of 7 rows, with a parameter that some blocks leave unused, and one that all do."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(7), nn.Linear(7, 7)
        self.sometimes, self.never = nn.Parameter(weft.ones(3, 1)), nn.Parameter(weft.zeros(2))

    def forward(self, x: Any, uses: bool) -> Any:
        """Another graph for each block."""
        y = self.linear(self.norm(x)).tanh()
        return x + y * self.sometimes.mean() if uses else x + y


class Dynamic(nn.Module):
    """One layer is called twice; each example has another depth in the part that is not sharded by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.left, self.right = nn.Linear(6, 7), nn.Linear(7, 7), nn.Linear(7, 7)
        self.layers = nn.ModuleList(Layer() for _ in range(2))
        self.last = nn.Linear(7, 4, bias=False)

    def forward(self, xs: Any) -> Any:
        """A block of examples."""
        rows = []
        for x in xs.unbind(0):
            h = self.first(x).tanh()
            for step in range(1 + int(x[0] > 0.5) + int(x[1] > 0.5)):
                h = (self.left if x[2 + step] > 0.5 else self.right)(h).tanh()
            rows.append(h)
        h = weft.stack(rows)
        for layer in (*self.layers, self.layers[0]):
            h = layer(h, bool(xs[0, 5] > 0.5))
        return self.last(h)


def bits(tensor: Any) -> str:
    return str(tensor.detach().numpy().tobytes().hex())


def sharded() -> Dynamic:
    """The model over all ranks, or over pairs of copies."""
    weft.manual_seed(3)
    model = Dynamic()
    ranks = dist.get_world_size()
    shape = (2, ranks // 2) if COPIES else (ranks,)
    mesh = dist.init_device_mesh("cpu", shape)
    for layer in model.layers:
        fully_shard(layer, mesh=mesh, deterministic=True, block_count=BLOCKS)
    return fully_shard(model, mesh=mesh, deterministic=True, block_count=BLOCKS)  # type: ignore[no-any-return]


def main() -> None:
    dist.init_process_group()
    model = sharded()
    optimizer = weft.optim.AdamW(model.parameters(), lr=0.02)
    weft.manual_seed(4)
    xs, ys = weft.rand(48, 6), weft.randint(0, 4, (48,))
    sampler = dist.BlockSampler(xs, BLOCKS, BLOCK_SIZE, interleaved=True)
    state = {"model": model, "optimizer": optimizer, "epoch": 0}
    if RESUMES:
        checkpoint.load(state, checkpoint_id=OUT.parent / "state")
    found: list[Any] = []
    for epoch in range(state["epoch"], state["epoch"] + EPOCHS):
        sampler.set_epoch(epoch)
        losses: list[str] = []
        own: list[Any] = []
        for indices in sampler:
            own.append(nn.functional.cross_entropy(model(xs[indices]), ys[indices]))
            own[-1].backward()
            if len(own) == len(sampler.blocks):
                assert all((p.grad is None) == ("never" in n) for n, p in model.named_parameters())
                norm = nn.utils.clip_grad_norm_(model.parameters(), 0.3)
                optimizer.step()
                optimizer.zero_grad()
                losses += [bits(norm), bits(dist.mean_of_blocks(own, interleaved=True))]
                own = []
        found.append([losses, [bits(p.full_tensor()) for p in model.parameters()]])
    (OUT / f"{dist.get_rank()}.json").write_text(json.dumps(found))
    if not RESUMES:
        state["epoch"] = EPOCHS
        checkpoint.save(state, checkpoint_id=OUT / "state")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
