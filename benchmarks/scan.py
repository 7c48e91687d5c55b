"""Every function alone, on few and on many elements, without and with gradients, beside PyTorch: time and peak memory;
and loops over elements, with a thousand and with ten thousand turns.

Times are processor times, the least of several turns: other work on the machine counts little. Out: the lines whose
ratio is below `LEAST`, the worst first, how many there were, and what could not be compared; of calls that are asked
for by name (`--calls`), all lines.
"""

from __future__ import annotations

import ctypes
import gc
import re
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from benchmarks.call_inputs import FEW, MANY, Call
from benchmarks.calls import GROUPS
from benchmarks.libraries import array, normal, realize
from benchmarks.loops import FORMS, loop_of
from benchmarks.measure import Context, Job, Line, WrongWork, check, settle
from benchmarks.processes import forget_peak, resident

LEAST = 0.5  # of PyTorch's figure over Weft's
GRAIN = 1 << 20  # bytes that do not count beside a peak
TURNS = (1_000, 10_000)
FEWEST_TURNS, MOST_TURNS = 3, 9
TURN_SECONDS, SETTLE_SECONDS = 0.002, 0.1


def one_way(lib: Any, call: Call, n: int) -> Job:
    """The call alone."""
    inputs = call.inputs(lib, n)

    def run() -> Any:
        out = call.function(lib, *inputs)
        realize(lib, out)
        return out

    return Job(run, lambda: [array(run())] if call.same else [], compare=(2e-3, 1e-4))


def both_ways(lib: Any, call: Call, n: int) -> Job:
    """The call and its gradients, where every element of its result counts differently."""
    inputs = call.inputs(lib, n)
    leaves = [x.requires_grad_() for x in inputs[: call.gradients]]
    shape = tuple(call.function(lib, *inputs).shape)
    weight = normal(lib, *shape, seed=7)

    def run() -> Any:
        for leaf in leaves:
            leaf.grad = None
        out = call.function(lib, *inputs)
        out.backward(weight.to(out.dtype))
        realize(lib, out, *[leaf.grad for leaf in leaves if leaf.grad is not None])
        return out

    def result() -> Any:
        out = run()
        return [array(x) for x in (out, *[leaf.grad for leaf in leaves]) if x is not None]

    return Job(run, result if call.same else list, compare=(1e-2, 1e-2))


def scan(context: Context) -> None:
    """Every call in every form, and every loop; reported are those that fall short."""
    lines: list[Line] = []
    failed: list[str] = []
    for title, make in _jobs(context):
        try:
            lines.append(_quickest(context, title, make))
            if "many" in title:
                lines.append(_peaks(context, title, make))
        except (WrongWork, RuntimeError, TypeError, NotImplementedError, ValueError) as error:
            failed.append(f"{title}: {str(error).splitlines()[0]}")
    short = sorted([line for line in lines if ratio(line) < LEAST], key=ratio)
    for unit in ("s", "B"):
        for line in lines if context.calls else short:
            if line.unit == unit:
                context.report(line)
    if not context.calls:
        _loops(context)
    for title in failed:
        context.report(Line(f"not compared: {title}", {}))
    what = f"{len(short)} of {len(lines)} figures of single calls are below {LEAST} of PyTorch's"
    context.report(Line(what, {}))


def _jobs(context: Context) -> Iterator[tuple[str, Callable[[Any], Job]]]:
    for group in GROUPS:
        for call in group():
            if not re.search(context.calls, call.name):
                continue
            for n in context.pick((FEW, MANY), (FEW,)):
                size = "few" if n == FEW else "many"
                yield f"{call.name}, {size}", partial(one_way, call=call, n=n)
                if call.gradients:
                    title = f"{call.name}, {size}, with gradient"
                    yield title, partial(both_ways, call=call, n=n)


def _quickest(context: Context, title: str, make: Callable[[Any], Job]) -> Line:
    """The processor time of one run, the least of the turns; a line that does not fall short needs few of them."""
    jobs = {name: make(lib) for name, lib in context.libraries.items()}
    check(title, jobs)
    slowest = max(settle(job, SETTLE_SECONDS) for job in jobs.values())
    runs = max(1, int(TURN_SECONDS / max(slowest, 1e-9)))
    line = Line(title, dict.fromkeys(jobs, float("inf")), "s", target=1.0)
    for turn in range(MOST_TURNS):
        for name, job in jobs.items():
            line.figures[name] = min(line.figures[name], _processor_seconds(job, runs))
        if turn + 1 >= FEWEST_TURNS and ratio(line) >= LEAST:
            break
    return line


def _processor_seconds(job: Job, runs: int) -> float:
    start = time.process_time()
    for _ in range(runs):
        job.run()
    return (time.process_time() - start) / runs


def _peaks(context: Context, title: str, make: Callable[[Any], Job]) -> Line:
    """The memory that one run comes to above what lay there before."""
    figures = {}
    for name, lib in context.libraries.items():
        job = make(lib)
        job.run()
        give_back(lib)
        before = resident("VmRSS")
        forget_peak()
        job.run()
        figures[name] = float(max(resident("VmHWM") - before, 0) + GRAIN)
    return Line(f"peak of {title}", figures, "B", target=1.0)


def give_back(lib: Any) -> None:
    """Memory that nobody uses, back to the system."""
    if lib.__name__ == "weft":
        from weft.engine.devices.cpu import pool

        pool.trim()
    ctypes.CDLL(None).malloc_trim(0)


def _loops(context: Context) -> None:
    """Loops over elements: the line of ten times the turns says how much longer it took."""
    for form in FORMS:
        before: dict[str, float] = {}
        for turns in context.pick(TURNS, TURNS[:1]):
            figures = {name: 0.0 for name in context.libraries}
            for name, lib in context.libraries.items():
                figures[name] = min(_seconds(lib, form, turns) for _ in range(2))
            grown = {name: figures[name] / before[name] for name in before}
            note = ", ".join(f"{name} {times:.1f} times as long" for name, times in grown.items())
            context.report(Line(f"{form}, {turns} turns", figures, "s", note))
            before = figures


def _seconds(lib: Any, form: str, turns: int) -> float:
    gc.collect()
    start = time.process_time()
    loop_of(form)(lib, turns).item()
    return time.process_time() - start


def ratio(line: Line) -> float:
    """PyTorch's figure over Weft's; 1 where there is but one of them."""
    if len(line.figures) < 2:
        return 1.0
    return line.figures["pytorch"] / line.figures["weft"]
