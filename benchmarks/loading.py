"""Batches from a DataLoader, of data that need no decoding: what the loader itself costs.

A run is a pass over the data; the time is that of one batch. Workers stay from pass to pass, so that starting them is
not counted.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks.libraries import array, normal, realize
from benchmarks.measure import Context, Job, compare

SMALL, LARGE = (16,), (3, 224, 224)


def loading(context: Context) -> None:
    """Small and large examples, in this process and from one and two workers."""
    small, large = context.pick(4096, 512), context.pick(128, 32)
    for workers in (0, 1, 2):
        where = ("in this process", "1 worker", "2 workers")[workers]
        for title, count, shape, size in (
            ("16 numbers x 64", small, SMALL, 64),
            ("an image x 16", large, LARGE, 16),
        ):
            compare(
                context,
                f"DataLoader, {title}, {where}",
                partial(passes, count=count, shape=shape, size=size, workers=workers),
                target=1.0,
            )


def passes(lib: Any, count: int, shape: tuple[int, ...], size: int, workers: int) -> Job:
    """A pass over examples with a number each; every batch is computed, as a model would need it."""
    dataset = lib.utils.data.TensorDataset(normal(lib, count, *shape), lib.arange(count))
    loader = lib.utils.data.DataLoader(
        dataset, size, num_workers=workers, persistent_workers=workers > 0
    )
    last: list[Any] = []

    def run() -> None:
        for batch in loader:
            realize(lib, *batch)
        last[:] = batch

    return Job(run, lambda: [array(part) for part in last], per=count // size)
