"""Checkpoints of several ranks: `checkpoints.py WHAT FOLDER`; what they find they print."""

from __future__ import annotations

import os
import resource
import signal
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import weft
import weft.distributed as dist
from weft import nn
from weft.distributed import checkpoint
from weft.distributed.checkpoints import files

WHAT, FOLDER = sys.argv[1:3]


def trained() -> dict[str, Any]:
    """A model with a large weight, and its optimizer, the same on all ranks."""
    weft.manual_seed(0)
    model = nn.Sequential(nn.Linear(512, 600), nn.Linear(600, 3))
    optimizer = weft.optim.AdamW(model.parameters())
    model(weft.ones(2, 512)).sum().backward()
    optimizer.step()
    return {
        "model": model,
        "optimizer": optimizer,
        "epoch": 1,
        "other": {"sizes": [1, 2], "none": {}},
    }


def save() -> str:
    """Save at once, then in the background, while the values change."""
    state = trained()
    weight = state["model"][0].weight
    before = weight.detach().clone()
    checkpoint.save(state, checkpoint_id=FOLDER)
    saved = checkpoint.async_save({**state, "epoch": 2}, checkpoint_id=FOLDER)
    with weft.no_grad():
        weight.zero_()
    saved.result()
    checkpoint.load(state, checkpoint_id=FOLDER)
    return f"{state['epoch']} {bool((weight == before).all())}"


def go_wrong() -> str:
    """A save that does not come to its end: rank 1 dies in the middle of its file, or cannot write it, or rank 0 dies
    when all files are there."""

    def interrupted(content: Any, path: Any) -> None:
        if WHAT == "fail":
            raise OSError("No space left on device")
        Path(f"{path}.tmp").write_bytes(b"half")
        os.kill(os.getpid(), signal.SIGKILL)

    if WHAT == "full":  # as a disk is that has no room for this rank's file
        if dist.get_rank() == 1:
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, resource.RLIM_INFINITY))
    elif WHAT == "kill the first":
        files._Save._commit = lambda save: os.kill(os.getpid(), signal.SIGKILL)
    elif dist.get_rank() == 1:
        files.save_file = interrupted
    try:
        checkpoint.save({**trained(), "epoch": 9}, checkpoint_id=FOLDER)
    except (RuntimeError, OSError) as error:
        return f"{error}".partition("\n")[0]
    return "no error"


def fill_the_disk() -> str:
    """A save, and another one for which the disk has no room."""
    state = trained()
    checkpoint.save({**state, "epoch": 2}, checkpoint_id=FOLDER)
    try:
        checkpoint.save({**state, "epoch": 3}, checkpoint_id=FOLDER)
    except (RuntimeError, OSError) as error:
        said = f"{error}".partition("\n")[0]
    else:
        said = "no error"
    checkpoint.load(state, checkpoint_id=FOLDER)
    left = [path.name for path in Path(FOLDER).iterdir() if path.suffix == ".tmp"]
    return f"epoch {state['epoch']}, left {left}: {said}"


def load() -> str:
    """The epoch and the sums of the state that is there, in a model of other values."""
    state = trained()
    wanted = [float(p.sum()) for p in state["model"].parameters()]
    with weft.no_grad():
        for parameter in state["model"].parameters():
            parameter.zero_()
    checkpoint.load(state, checkpoint_id=FOLDER)
    found = [float(p.sum()) for p in state["model"].parameters()]
    steps = state["optimizer"].state_dict()["state"][0]["step"]
    return f"{state['epoch']} {found == wanted} {float(steps):g} {state['other']}"


def main() -> None:
    dist.init_process_group(timeout=timedelta(seconds=20))
    said = {"save": save, "load": load, "disk": fill_the_disk}.get(WHAT, go_wrong)()
    print(f"rank {dist.get_rank()}: {said}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
