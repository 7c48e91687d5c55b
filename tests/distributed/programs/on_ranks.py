"""What programs that both libraries run on several ranks share: where they are, equal numbers, and what they found.

The programs are called `PROGRAM LIB OUT`; torch is PyTorch, or Weft under `weft run`.
"""

from __future__ import annotations

import json
import math
import os
import random
import sys
from pathlib import Path

import torch
import torch.distributed as dist

OUT = Path(sys.argv[2])
RANK, WORLD = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE"))


def numbers(seed: int, *shape: int) -> torch.Tensor:
    """Numbers that are the same in both libraries."""
    draw = random.Random(seed)
    return torch.tensor([draw.uniform(-1.0, 1.0) for _ in range(math.prod(shape))]).reshape(shape)


def finish(found: object) -> None:
    """Write what this rank has found, and leave the group."""
    (OUT / f"{RANK}.json").write_text(json.dumps(found))
    dist.barrier()
    dist.destroy_process_group()
