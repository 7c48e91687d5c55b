"""Memory and time of a step along a million steps: of graphs that never come again, of sizes and networks that change.

    python -m benchmarks.endless [--only NAME ...] [--steps N] [--library weft | pytorch]

Each program runs in a process of its own, on one thread, and prints what is resident and the processor time of a step
since the last line.
"""

from __future__ import annotations

import argparse
import importlib
import random
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from benchmarks.processes import resident

MARKS = (0.001, 0.01, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1)
Step = Callable[[], float]


def graphs(lib: Any, draw: random.Random) -> Step:
    """Graphs of 20 operations on 16 numbers that are drawn anew at every step."""
    leaves = [lib.randn(16).requires_grad_() for _ in range(4)]
    unary: list[Callable[[Any], Any]] = [
        lambda a: a.tanh(), lambda a: a.sigmoid(), lambda a: a.sin(), lambda a: a * 0.7, lambda a: a.relu() + 0.1,
        lambda a: a.exp().clamp(max=3), lambda a: a.abs().sqrt(), lambda a: a.mean(0, keepdim=True) + a,
    ]  # fmt: skip
    binary: list[Callable[[Any, Any], Any]] = [
        lambda a, b: a + b, lambda a, b: a * b, lambda a, b: a - b, lambda a, b: lib.maximum(a, b),
        lambda a, b: a / (b.abs() + 1),
    ]  # fmt: skip

    def step() -> float:
        values = list(leaves)
        for _ in range(20):
            if draw.random() < 0.5:
                values.append(draw.choice(unary)(draw.choice(values[-8:])))
            else:
                values.append(draw.choice(binary)(draw.choice(values[-8:]), draw.choice(values)))
        for leaf in leaves:
            leaf.grad = None
        loss = values[-1].sum()
        loss.backward()
        return float(loss.item())

    return step


def perceptron(lib: Any, rows: Callable[[], int]) -> Step:
    """Steps of a small network on so many rows."""
    nn = lib.nn
    model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = lib.optim.Adam(model.parameters(), 1e-3)

    def step() -> float:
        optimizer.zero_grad()
        loss = model(lib.randn(rows(), 8)).pow(2).mean()
        loss.backward()
        optimizer.step()
        return float(loss.item())

    return step


def sizes(lib: Any, draw: random.Random) -> Step:
    """The same network on batches of 1 to 4,000 rows."""
    return perceptron(lib, lambda: draw.randrange(1, 4000))


def same(lib: Any, draw: random.Random) -> Step:
    """The same network on batches of one size."""
    return perceptron(lib, lambda: 16)


def networks(lib: Any, draw: random.Random) -> Step:
    """Some of six blocks in a new order at every step; every 50 steps one of another width takes the place of one."""
    nn = lib.nn

    def block() -> Any:
        width = draw.randrange(1, 64)
        activation = draw.choice([nn.Tanh, nn.ReLU, nn.GELU])()
        return nn.Sequential(nn.Linear(8, width), activation, nn.Linear(width, 8))

    blocks = [block() for _ in range(6)]
    count = 0

    def step() -> float:
        nonlocal count
        count += 1
        if count % 50 == 0:
            blocks[draw.randrange(6)] = block()
        x = lib.randn(draw.randrange(1, 9), 8)
        for one in draw.sample(blocks, draw.randrange(1, 6)):
            x = x + one(x)
        loss = x.pow(2).mean()
        loss.backward()
        for one in blocks:
            one.zero_grad()
        return float(loss.item())

    return step


PROGRAMS: dict[str, Callable[[Any, random.Random], Step]] = {
    "graphs": graphs,
    "same": same,
    "networks": networks,
    "sizes": sizes,
}


def run(name: str, library: str, steps: int) -> None:
    """Run one program, and print its lines."""
    lib = importlib.import_module({"weft": "weft", "pytorch": "torch"}[library])
    lib.set_num_threads(1)
    lib.manual_seed(0)
    step = PROGRAMS[name](lib, random.Random(1))
    marks = [max(1, int(steps * share)) for share in MARKS]
    begun, last = time.process_time(), 0
    for number in range(1, steps + 1):
        step()
        if number in marks:
            each = (time.process_time() - begun) / (number - last)
            print(
                f"| {name} | {library} | {number:,} | {resident('VmRSS') / 1e6:.1f} MB | {each * 1e6:.0f} us |",
                flush=True,
            )
            begun, last = time.process_time(), number


def main() -> None:
    """Every program in a process of its own."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=PROGRAMS, default=list(PROGRAMS))
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--library", choices=("weft", "pytorch"), default="weft")
    options = parser.parse_args()
    if len(options.only) == 1:
        run(options.only[0], options.library, options.steps)
        return
    print("| program | library | steps | resident | step |\n|---|---|---:|---:|---:|", flush=True)
    common = ["--steps", str(options.steps), "--library", options.library]
    for name in options.only:
        command = [sys.executable, "-m", "benchmarks.endless", "--only", name, *common]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
