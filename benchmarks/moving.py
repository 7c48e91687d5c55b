"""Work that moves numbers and computes none: transposes, cat, gather, embedding, each alone."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.elementwise import forward
from benchmarks.libraries import array, integers, normal, realize
from benchmarks.limits import moved
from benchmarks.measure import Context, Job, compare

FLOAT, INTEGER = 4, 8  # bytes


def transposes(context: Context) -> None:
    """Copies into another order."""
    n = context.pick(2048, 256)
    cases: list[tuple[str, tuple[int, ...], tuple[int, ...]]] = [
        (f"transpose {n} x {n}", (n, n), (1, 0)),
        (f"transpose {4 * n} x {n // 4}", (4 * n, n // 4), (1, 0)),
        (f"permute (8, 128, 4, {n // 4}) to heads first", (8, 128, 4, n // 4), (0, 2, 1, 3)),
        (f"permute (16, 64, {n // 2}), images to channels last", (16, 64, n // 2), (0, 2, 1)),
    ]
    for title, shape, dims in cases:
        size = FLOAT * _count(shape)
        compare(
            context,
            title,
            partial(forward, function=partial(_permuted, dims=dims), shape=shape),
            target=1.0,
            work=moved(read=size, written=size),
        )


def _count(shape: tuple[int, ...]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def _permuted(lib: Any, x: Any, dims: tuple[int, ...]) -> Any:
    return x.permute(*dims).contiguous()


def joining(context: Context) -> None:
    """cat of four tensors along either dimension."""
    n, m = context.pick((2048, 512), (128, 512))
    for dim in (0, 1):
        size = 4 * FLOAT * n * m
        compare(
            context,
            f"cat of 4 x ({n} x {m}), dim {dim}",
            partial(joined, shape=(n, m), dim=dim),
            target=1.0,
            work=moved(read=size, written=size),
        )


def joined(lib: Any, shape: tuple[int, int], dim: int) -> Job:
    """Four tensors in one."""
    parts = [normal(lib, *shape, seed=number) for number in range(4)]

    def run() -> Any:
        out = lib.cat(parts, dim)
        realize(lib, out)
        return out

    return Job(run, lambda: [array(run())])


def picking(context: Context) -> None:
    """gather, rows by index, embedding with its gradient."""
    n, m = context.pick((4096, 512), (256, 512))
    size, picks = FLOAT * n * m, INTEGER * n * m
    for dim in (0, 1):
        compare(
            context,
            f"gather {n} x {m}, dim {dim}",
            partial(gathered, shape=(n, m), dim=dim),
            target=1.0,
            work=moved(read=size + picks, written=size),
        )
    compare(
        context,
        f"rows of {n} x {m} by index",
        partial(rows_by_index, shape=(n, m)),
        target=1.0,
        work=moved(read=size, written=size),
    )
    for words in (64, 10000):
        compare(
            context,
            f"embedding {n} of {words} x {m // 2}, forward + backward",
            partial(embedded, words=words, width=m // 2, count=n),
            target=1.0,
            work=moved(read=size, written=size // 2 + FLOAT * words * m // 2),
        )


def gathered(lib: Any, shape: tuple[int, int], dim: int) -> Job:
    """Each element from another place of its row or column."""
    index = integers(lib, shape[dim], *shape, seed=1)
    return forward(lib, lambda lib, x: lib.gather(x, dim, index), shape)


def rows_by_index(lib: Any, shape: tuple[int, int]) -> Job:
    """As many rows as there are, in any order."""
    index = integers(lib, shape[0], shape[0], seed=1)
    return forward(lib, lambda lib, x: x[index], shape)


def embedded(lib: Any, words: int, width: int, count: int) -> Job:
    """Rows of a table, and the gradient of the table."""
    table = normal(lib, words, width).requires_grad_()
    index, weight = integers(lib, words, count, seed=1), normal(lib, count, width, seed=2)
    embedding: Callable[..., Any] = lib.nn.functional.embedding

    def run() -> Any:
        table.grad = None
        out = embedding(index, table)
        out.backward(weight)
        realize(lib, out, table.grad)
        return out

    return Job(run, lambda: [array(run()), array(table.grad)], compare=(1e-3, 1e-4))
