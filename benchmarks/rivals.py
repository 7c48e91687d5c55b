"""Rivals beside PyTorch, each workload in a process of its own: what a compiler keeps in a process (threads, caches,
hooks in the interpreter) slows what is measured there after it.

In: a workload's name. Out: each rival's seconds by the titles of its lines. Run as a script (`python -m
benchmarks.rivals NAME RIVAL THREADS SIZE`) this module is the child: it compares results with PyTorch's, times the
rival alone and prints one JSON object.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.libraries import load, load_rival
from benchmarks.measure import Context, Line, WrongWork

ROOT = Path(__file__).resolve().parent.parent


def figures_of(name: str, context: Context, rivals: list[str]) -> dict[str, dict[str, float]]:
    """What the rivals need for the lines of a workload; those that do not work here are said once and struck from the
    list."""
    from benchmarks.suite import RIVALLED

    found: dict[str, dict[str, float]] = {}
    for rival in [rival for rival in rivals if name in RIVALLED[rival]]:
        size = "quick" if context.quick else "full"
        command = (
            sys.executable,
            "-m",
            "benchmarks.rivals",
            name,
            rival,
            str(context.threads),
            size,
        )
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or ["it failed"])[-1]
            print(f"without {rival}: {reason[:160]}")
            rivals.remove(rival)
            continue
        for title, seconds in json.loads(done.stdout.splitlines()[-1]).items():
            found.setdefault(title, {})[rival] = seconds
    return found


def dynet_seconds(
    python: str, kind: str, model: Any, examples: list[Any], batch: int, loss: float
) -> float:
    """A step of DyNet with its automatic batching, in an interpreter that has it, from a model's weights. Errors:
    WrongWork where its first loss is not `loss`."""
    with tempfile.TemporaryDirectory() as folder:
        weights = {name: value.numpy() for name, value in model.state_dict().items()}
        np.savez(Path(folder, "weights.npz"), **weights)
        job = {"kind": kind, "examples": examples, "batch": batch}
        Path(folder, "job.json").write_text(json.dumps(job))
        command = (python, str(ROOT / "benchmarks" / "dynet_jobs.py"), folder)
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True
        )
    measured: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    if abs(measured["loss"] - loss) > 1e-3 * abs(loss):
        raise WrongWork(f"{kind}: DyNet's loss is {measured['loss']}, PyTorch's {loss}")
    return measured["seconds"]


def main(arguments: list[str]) -> None:
    """Time one rival on one workload in this process."""
    from benchmarks.suite import SUITE

    name, rival, threads, size = arguments
    figures: dict[str, float] = {}

    def keep(line: Line) -> None:
        figures[line.title] = line.figures[rival]

    libraries = load(["pytorch"], int(threads))
    rivals = {rival: load_rival(rival, int(threads))}
    context = Context(libraries, int(threads), rivals=rivals, report=keep)
    SUITE[name](context.hurried(size == "quick"))
    print(json.dumps(figures))


if __name__ == "__main__":
    main(sys.argv[1:])
