"""Single operations on sizes that never come again: `python -m benchmarks.new_sizes [--only NAME ...]`.

Each operation is called on matrices of other sizes every time, 25 to a turn, and computed; the libraries take turns in
one process, on one thread. Printed is the median over the turns of the processor time of an operation: what a program
pays whose data has another size at every step. To compare two checkouts of Weft, run it with each on PYTHONPATH.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.libraries import load
from benchmarks.report import machine

Call = Callable[
    [Any, Any, Any, Any, Any], Any
]  # of the library, matrix, square matrix, row, places
CALLS: dict[str, Call] = {
    "x + b": lambda lib, x, w, b, i: x + b,
    "sum of rows": lambda lib, x, w, b, i: x.sum(-1),
    "max of rows": lambda lib, x, w, b, i: x.amax(-1),
    "mm": lambda lib, x, w, b, i: x @ w,
    "linear": lambda lib, x, w, b, i: lib.nn.functional.linear(x, w, b),
    "bmm": lambda lib, x, w, b, i: lib.bmm(x.expand(3, *x.shape), w.expand(3, *w.shape)),
    "cat of rows": lambda lib, x, w, b, i: lib.cat([x, w]),
    "cat of columns": lambda lib, x, w, b, i: lib.cat([x, x], 1),
    "stack": lambda lib, x, w, b, i: lib.stack([x, x]),
    "reshape of x.T": lambda lib, x, w, b, i: x.T.reshape(-1),
    "index_select": lambda lib, x, w, b, i: x.index_select(0, i),
    "x[i]": lambda lib, x, w, b, i: x[i],
    "gather": lambda lib, x, w, b, i: x.gather(0, i[:, None]),
    "index_add": lambda lib, x, w, b, i: x.index_add(0, i, x),
    "cumsum": lambda lib, x, w, b, i: x.cumsum(0),
    "pad": lambda lib, x, w, b, i: lib.nn.functional.pad(x, (1, 1)),
    "tril": lambda lib, x, w, b, i: x.tril(),
    "softmax": lambda lib, x, w, b, i: lib.softmax(x, -1),
    "logsumexp": lambda lib, x, w, b, i: lib.logsumexp(x, -1),
    "layer_norm": lambda lib, x, w, b, i: lib.nn.functional.layer_norm(x, b.shape),
    "cross_entropy": lambda lib, x, w, b, i: lib.nn.functional.cross_entropy(x, i),
    "attention": lambda lib, x, w, b, i: lib.nn.functional.scaled_dot_product_attention(
        x[None], x[None], x[None]
    ),
    "conv1d": lambda lib, x, w, b, i: lib.nn.functional.conv1d(x.T[None], w[:4, :, None]),
}
ROWS, COLUMNS = range(10, 90), range(8, 40)
OPERATIONS, TURNS, WARM = 25, 24, 4


def turn(lib: Any, call: Call, sizes: Sequence[tuple[int, int]]) -> float:
    """The seconds that one operation takes, on operands that are there."""
    given = [
        (lib.ones(n, k), lib.ones(k, k), lib.ones(k), lib.arange(n) % min(n, k)) for n, k in sizes
    ]
    for operands in given:
        for each in operands:
            each.data_ptr()
    start = time.thread_time()
    results = [call(lib, *operands) for operands in given]
    for result in results:
        result.data_ptr()
    return (time.thread_time() - start) / len(sizes)


def measure(libraries: dict[str, Any], name: str, turns: int) -> dict[str, float]:
    """The median seconds of an operation in each library."""
    sizes = [(n, k) for n in ROWS for k in COLUMNS]
    random.Random(name).shuffle(sizes)
    seconds: dict[str, list[float]] = {library: [] for library in libraries}
    for number in range(turns):
        taken = sizes[number * OPERATIONS : (number + 1) * OPERATIONS]
        for library, lib in libraries.items():
            seconds[library].append(turn(lib, CALLS[name], taken))
    return {library: statistics.median(each[WARM:]) for library, each in seconds.items()}


def row(name: str, seconds: dict[str, float]) -> str:
    """A line of the table: microseconds, and the ratio where there are two libraries."""
    cells = [name, *(f"{each * 1e6:.2f}" for each in seconds.values())]
    if len(seconds) == 2:
        theirs, ours = seconds.values()
        cells.append(f"{theirs / ours:.2f}")
    return f"| {' | '.join(cells)} |"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    top = argparse.ArgumentParser(prog="python -m benchmarks.new_sizes", description=__doc__)
    top.add_argument("--only", nargs="+", choices=CALLS, default=list(CALLS))
    top.add_argument("--library", choices=("pytorch", "weft"), help="only this one")
    top.add_argument("--turns", type=int, default=TURNS)
    options = top.parse_args(arguments)
    libraries = load([options.library] if options.library else ["pytorch", "weft"], 1)
    print(*machine(1), sep="\n", end="\n\n")
    print(f"| operation | {' | '.join(libraries)} |" + (" ratio |" if len(libraries) == 2 else ""))
    print("|---" + "|---:" * (len(libraries) + (len(libraries) == 2)) + "|", flush=True)
    for name in options.only:
        print(row(name, measure(libraries, name, options.turns)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
