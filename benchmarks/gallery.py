"""The programs of the gallery, each by Weft and by PyTorch from the same text.

`python -m benchmarks.gallery --steps 20 --rounds 3` runs each program of `examples/gallery/` so often in turns, each
run in a process of its own, and prints a table for RESULTS.md: the milliseconds of processor time of a training step,
on one thread, the median over the second half of the steps of all runs. PyTorch stands in for Weft under its name;
`weft.map` is a loop there.
"""

from __future__ import annotations

import argparse
import json
import runpy
import statistics
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PROGRAMS = sorted((ROOT / "examples" / "gallery").glob("*.py"))
MARK = "STEP TIMES "


def stand_in(torch: Any) -> None:
    """Let programs that import Weft have PyTorch."""
    torch.map = lambda function, examples, at_most=None: [function(each) for each in examples]
    for name, module in list(sys.modules.items()):
        if name == "torch" or name.startswith("torch."):
            sys.modules["weft" + name.removeprefix("torch")] = module


def watch(lib: Any, times: list[float]) -> None:
    """Note when each step of an optimizer has been taken, and all that it waits for has run."""
    run_all = getattr(lib, "realize", lambda: None)  # PyTorch has run it
    for optimizer in (lib.optim.Adam, lib.optim.AdamW, lib.optim.SGD):
        step = optimizer.step

        def noted(self: Any, *arguments: Any, _step: Any = step) -> Any:
            answer = _step(self, *arguments)
            run_all()
            times.append(time.process_time())
            return answer

        optimizer.step = noted


def run(path: Path, library: str, steps: int) -> None:
    """Run a program in this process, and print when its steps were taken."""
    lib: Any = __import__("torch" if library == "pytorch" else "weft")
    lib.set_num_threads(1)
    if library == "pytorch":
        import_module("torch.distributions")
        stand_in(lib)
    times: list[float] = []
    watch(lib, times)
    sys.argv = [str(path), str(steps)]
    runpy.run_path(str(path), run_name="__main__")
    print(MARK + json.dumps(times))


def step_times(path: Path, library: str, steps: int) -> list[float]:
    """The milliseconds of each step of the second half, in a process of its own."""
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.gallery", "--steps", str(steps)]
    result = subprocess.run(
        [*command, "--run", library, str(path)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    line = next((x for x in result.stdout.splitlines() if x.startswith(MARK)), None)
    if line is None:
        raise SystemExit(f"{path.name} by {library}:\n{result.stderr[-2000:]}")
    times = json.loads(line.removeprefix(MARK))
    calls = len(times) // steps  # a program may have several optimizers
    ends = times[calls - 1 :: calls][steps // 2 :]
    return [1e3 * (end - begin) for begin, end in zip(ends, ends[1:], strict=False)]


def title(path: Path) -> str:
    """The name of a program, as it stands at its head."""
    return path.read_text().split("\n", 2)[1]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--steps", type=int, default=20, help="training steps of each run")
    parser.add_argument(
        "--rounds", type=int, default=3, help="runs of each program by each library"
    )
    parser.add_argument("--only", nargs="*", default=[], help="programs by name")
    parser.add_argument("--run", nargs=2, metavar=("LIBRARY", "FILE"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.run:
        run(Path(chosen.run[1]), chosen.run[0], chosen.steps)
        return
    print("| program | PyTorch, ms a step | Weft, ms a step | ratio |\n|---|---:|---:|---:|")
    for path in PROGRAMS:
        if chosen.only and path.stem not in chosen.only:
            continue
        found: dict[str, list[float]] = {"pytorch": [], "weft": []}
        for _ in range(chosen.rounds):
            for library, times in found.items():
                times += step_times(path, library, chosen.steps)
        theirs, ours = (statistics.median(found[name]) for name in ("pytorch", "weft"))
        row = f"| {title(path)} | {theirs:.1f} | {ours:.1f} | {theirs / ours:.2f}x |"
        print(row, flush=True)


if __name__ == "__main__":
    main()
