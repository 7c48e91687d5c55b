"""What two ranks send while they compute, drawn: `python -m benchmarks.overlap [--out FILE.svg]`.

In: nothing. Out: of one data-parallel step on each rank, lots of gradients (all_reduces that began together) with how
long they were under way and waited for; and a picture, from the ranks' profiles: their kernels, and the lots below.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import weft
import weft.distributed as dist
from benchmarks.distributed import LAUNCHER, MPIEXEC, RANKS
from benchmarks.timeline import BAR, LINE, WIDTH, box, text
from weft import nn
from weft.profiler import profile

FEATURES, LAYERS, ROWS = 512, 8, 256
UNDER_WAY, WAITED, KERNEL = "#c9772b", "#b04a5a", "#3b6ea5"


class Lot(NamedTuple):
    """all_reduces that began together: how many, when, for how long, and how much of that was waited for; in us."""

    reductions: int
    begin: float
    under_way: float
    waited: float


class Step(NamedTuple):
    """A step of a rank: (begin, microseconds) of kernels, and lots."""

    kernels: list[tuple[float, float]]
    lots: list[Lot]


def trace_step(folder: Path) -> None:
    """What a rank does: some steps, of which the last is traced."""
    dist.init_process_group()
    weft.manual_seed(0)
    layers = [nn.Sequential(nn.Linear(FEATURES, FEATURES), nn.Tanh()) for _ in range(LAYERS)]
    model = nn.parallel.DistributedDataParallel(nn.Sequential(*layers))
    optimizer = weft.optim.AdamW(model.parameters())
    x = weft.rand(ROWS, FEATURES)

    def step() -> None:
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        weft.realize(*model.parameters())

    for _ in range(10):
        step()
    dist.barrier()
    with profile() as recorded:
        step()
    recorded.export_chrome_trace(str(folder / f"{dist.get_rank()}.json"))
    dist.destroy_process_group()


def read(path: Path) -> Step:
    """The step of a rank's trace."""
    events = json.loads(path.read_text())["traceEvents"]
    kernels = [(e["ts"], e["dur"]) for e in events if e.get("cat") == "kernel"]
    moving = [e for e in events if e.get("cat") == "under way"]
    begun = {e["id"]: e["ts"] for e in moving if e["ph"] == "b"}
    ended: dict[float, list[tuple[float, float]]] = defaultdict(list)
    for e in moving:
        if e["ph"] == "e":
            ended[begun[e["id"]]].append((e["ts"], e["args"]["Waited, us"]))
    lots = [
        Lot(len(ends), begin, max(ends)[0] - begin, sum(waited for _, waited in ends))
        for begin, ends in sorted(ended.items())
    ]
    return Step(sorted(kernels), lots)


def said(steps: Sequence[Step]) -> str:
    """Lots in words."""
    return "\n".join(
        f"rank {rank}: {lot.reductions:2} all_reduces together: under way {lot.under_way / 1e3:6.1f} ms, "
        f"waited for {lot.waited / 1e3:6.1f} ms"
        for rank, step in enumerate(steps)
        for lot in step.lots
    )


def drawing(steps: Sequence[Step]) -> str:
    """Steps of ranks as an SVG picture, on one axis of time."""
    begin = min(step.kernels[0][0] for step in steps)
    last = max(sum(step.kernels[-1]) for step in steps)
    end = max(last, *(lot.begin + lot.under_way for step in steps for lot in step.lots))
    scale = WIDTH / (end - begin)
    lines = [text(10, 20, f"a step of two ranks, {(end - begin) / 1e3:.1f} ms", 15)]
    legend = (("kernels", KERNEL), ("gradients under way", UNDER_WAY), ("waited for", WAITED))
    for number, (name, colour) in enumerate(legend):
        lines.append(
            f'<rect x="{10 + number * 220}" y="30" width="10" height="10" fill="{colour}"/>'
        )
        lines.append(text(26 + number * 220, 40, name))
    y = 64
    for rank, step in enumerate(steps):
        lines.append(text(10, y, f"rank {rank}"))
        y += 6
        for start, duration in step.kernels:
            words = f"{duration / 1e3:.2f} ms"
            lines.append(box(10 + (start - begin) * scale, y, duration * scale, KERNEL, words))
        y += BAR + LINE // 2
        for lot in step.lots:
            x, width = 10 + (lot.begin - begin) * scale, lot.under_way * scale
            words = f"{lot.reductions} all_reduces, {lot.under_way / 1e3:.1f} ms"
            lines.append(box(x, y, width, UNDER_WAY, words))
            waited = min(lot.waited * scale, width)
            lines.append(box(x + width - waited, y, waited, WAITED, f"{lot.waited / 1e3:.1f} ms"))
            y += BAR + 4
        y += LINE
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH + 20}" height="{y}"'
    ground = '<rect width="100%" height="100%" fill="white"/>'
    return "\n".join([f'{head} font-family="sans-serif">', ground, *lines, "</svg>"]) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run two ranks, print, draw."""
    top = argparse.ArgumentParser(prog="python -m benchmarks.overlap", description=__doc__)
    top.add_argument("--out", type=Path, help="the picture")
    top.add_argument("--trace", type=Path, help="be one of the ranks, whose traces go there")
    given = top.parse_args(arguments)
    weft.set_num_threads(1)
    if given.trace:
        trace_step(given.trace)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        command = [str(MPIEXEC), "-n", str(RANKS), sys.executable, "-m", "benchmarks.overlap"]
        environment = dict(os.environ) | LAUNCHER
        subprocess.run([*command, "--trace", folder], env=environment, check=True)
        steps = [read(Path(folder, f"{rank}.json")) for rank in range(RANKS)]
    print(said(steps))
    if given.out:
        given.out.write_text(drawing(steps))
    return 0


if __name__ == "__main__":
    sys.exit(main())
