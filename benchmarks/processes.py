"""What has to be measured in fresh processes: import time, first steps, peak memory.

In: nothing that the parent has warmed up. Out: lines as from `measure.compare`. Run as a script
(`python -m benchmarks.processes TASK LIBRARY THREADS SIZE [WORKLOAD]`) this module is the child, which prints
one JSON object.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.libraries import MODULES, load
from benchmarks.measure import Context, Job, Line, WrongWork
from benchmarks.models import SMALL_GPT, GPTSize

ROOT = Path(__file__).resolve().parent.parent
STEPS = 6
TIMED_IMPORT = "import time; t = time.perf_counter(); import {}; print(time.perf_counter() - t)"


# -- the parent ---------------------------------------------------------------------------------


def python(*arguments: str, cache: str | None = None) -> str:
    """The output of a fresh interpreter."""
    environment = dict(os.environ)
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its byte code
    if cache is not None:
        environment["WEFT_CACHE_DIR"] = cache
    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=environment, stdout=subprocess.PIPE, check=True
    )
    return done.stdout.decode()


def child(
    context: Context, task: str, library: str, *options: str, cache: str | None = None
) -> dict[str, Any]:
    """What the child measured."""
    size = "quick" if context.quick else "full"
    arguments = ("-m", "benchmarks.processes", task, library, str(context.threads), size, *options)
    measured: dict[str, Any] = json.loads(python(*arguments, cache=cache))
    return measured


def importing(context: Context) -> None:
    """Seconds of `import`, with NumPy's own beside."""
    modules = {name: MODULES[name] for name in context.libraries} | {"numpy": "numpy"}
    times: dict[str, list[float]] = {name: [] for name in modules}
    for _ in range(context.pick(15, 5)):
        for name, module in modules.items():
            times[name].append(float(python("-c", TIMED_IMPORT.format(module))))
    figures = {name: statistics.median(values) for name, values in times.items()}
    numpy = figures.pop("numpy")
    shares = ", ".join(f"{name} {value / numpy:.2f}x" for name, value in figures.items())
    context.report(Line("import", figures, "s", f"numpy {numpy * 1e3:.0f} ms; of it {shares}"))


def first_step(context: Context) -> None:
    """A GPT built and stepped once in a fresh process, with a cold and a warm kernel cache."""
    runs = context.pick(5, 1)
    with tempfile.TemporaryDirectory() as folder:
        measured: dict[str, dict[str, list[dict[str, Any]]]] = {"cold": {}, "warm": {}}
        for number in range(runs):
            for results in measured.values():
                for library in context.libraries:
                    cache = str(Path(folder, str(number)))
                    results.setdefault(library, []).append(
                        child(context, "first", library, cache=cache)
                    )
    for kind, results in measured.items():
        check_losses({name: runs_of[0]["losses"] for name, runs_of in results.items()})
        figures = {
            name: statistics.median(run["seconds"][0] for run in runs_of)
            for name, runs_of in results.items()
        }
        title = f"GPT built and first step, {kind} kernel cache"
        context.report(Line(title, figures, "s", steps_note(results)))


def check_losses(losses: dict[str, list[float]]) -> None:
    """Errors: WrongWork where the libraries' losses differ."""
    for values in zip(*losses.values(), strict=True):
        if max(values) - min(values) > 1e-3 * abs(values[0]):
            raise WrongWork(f"losses differ: {losses}")


def steps_note(results: dict[str, list[dict[str, Any]]]) -> str:
    """How Weft went on from there."""
    if "weft" not in results:
        return ""
    run = results["weft"][0]
    seconds = ", ".join(f"{value * 1e3:.0f}" for value in run["seconds"])
    return f"ms by step: {seconds}; compiled: {', '.join(map(str, run['compiled']))}"


def memory(context: Context) -> None:
    """Peak resident memory of GPT steps above what the import took."""
    peaks(context, "GPT", 1 / 0.6)


def memories(context: Context) -> None:
    """The same of other workloads: data, model and optimizer count, too."""
    for name in list(WORKLOADS)[1:]:
        peaks(context, name, 1.0)


def peaks(context: Context, name: str, target: float) -> None:
    """Peak resident memory of a workload's first steps."""
    measured = {library: child(context, "memory", library, name) for library in context.libraries}
    check_losses({library: run["losses"] for library, run in measured.items()})
    figures = {library: float(run["peak"] - run["imported"]) for library, run in measured.items()}
    words = (f"{library} {run['imported'] / 2**20:.0f} MB" for library, run in measured.items())
    title = f"peak memory of {name} steps above the import"
    context.report(Line(title, figures, "B", "after import: " + ", ".join(words), target))


# -- the child ----------------------------------------------------------------------------------


def gpt(lib: Any, quick: bool) -> Job:
    """A step of the language model."""
    from benchmarks.training import gpt_step

    return gpt_step(lib, SMALL_GPT if quick else GPTSize())


def lstm(lib: Any, quick: bool) -> Job:
    """A step of the recurrent language model."""
    from benchmarks.networks import LSTM, SMALL_LSTM, lstm_step

    return lstm_step(lib, *(SMALL_LSTM if quick else LSTM))


def resnet(lib: Any, quick: bool) -> Job:
    """A step of the network on images."""
    from benchmarks.networks import RESNET, SMALL_RESNET, resnet_step

    return resnet_step(lib, *(SMALL_RESNET if quick else RESNET))


def trees(lib: Any, quick: bool) -> Job:
    """A step of the Tree-LSTM on syntax trees."""
    from benchmarks.training import tree_step
    from weft.demo.syntax_trees import load_functions

    return tree_step(lib, load_functions(limit=320), 32 if quick else 128)


WORKLOADS = {"GPT": gpt, "LSTM": lstm, "ResNet": resnet, "Tree-LSTM": trees}


def first(lib: Any, quick: bool, workload: str = "GPT") -> dict[str, Any]:
    """Build a model and step: seconds (the first with building), losses, compilations."""
    losses, seconds, compiled, before = [], [], [], 0
    start = time.perf_counter()
    job = WORKLOADS[workload](lib, quick)
    for _ in range(STEPS):
        losses.append(job.run())
        now = time.perf_counter()
        seconds.append(now - start)
        compiled.append(compilations(lib) - before)
        start, before = now, before + compiled[-1]
    return {"seconds": seconds, "losses": losses, "compiled": compiled}


def lengths(lib: Any, quick: bool) -> dict[str, Any]:
    """Kernels compiled in each step of an RNN whose sequences have another length each time."""
    from benchmarks.networks import RNN, SMALL_RNN, rnn_one_step, shuffled_lengths

    width, batch, some = SMALL_RNN if quick else RNN
    job = rnn_one_step(lib, width, batch, shuffled_lengths(some))
    compiled, before = [], 0
    for _ in some:
        job.run()
        compiled.append(compilations(lib) - before)
        before += compiled[-1]
    return {"compiled": compiled}


def compilations(lib: Any) -> int:
    """How many kernels Weft has compiled."""
    if lib.__name__ != "weft":
        return 0
    from weft.engine.devices.cpu import jit

    return jit.compiler().counters.compilations


def peak(lib: Any, quick: bool, workload: str) -> dict[str, Any]:
    """Resident bytes after the import, and the most that building and stepping came to."""
    if workload == "Tree-LSTM":
        import_module("weft.demo.syntax_trees")  # its data come from there, whoever computes
    imported = resident("VmRSS")
    forget_peak()
    measured = first(lib, quick, workload)
    return {"imported": imported, "peak": resident("VmHWM"), "losses": measured["losses"]}


def resident(field: str) -> int:
    """A figure of Linux's /proc, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"no {field} in /proc/self/status")


def forget_peak() -> None:
    """Start the peak anew (an import's own peak would count otherwise)."""
    Path("/proc/self/clear_refs").write_text("5")


def main(arguments: list[str]) -> None:
    """Do one task in this process."""
    task, library, threads, size, *options = arguments
    lib = load([library], int(threads))[library]
    lib.nn, lib.optim  # noqa: B018 - Weft imports them when they are first named
    tasks: dict[str, Callable[..., dict[str, Any]]] = {
        "first": first,
        "memory": peak,
        "lengths": lengths,
    }
    print(json.dumps(tasks[task](lib, size == "quick", *options)))


if __name__ == "__main__":
    main(sys.argv[1:])
