"""Matrix products alone: square, tall, wide and transposed; small ones in batches; a few rows."""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks import jax_jobs
from benchmarks.libraries import array, normal, realize
from benchmarks.limits import multiplied
from benchmarks.measure import Context, Job, compare

GIGA = 1e9
FORMS = ("a @ b", "a.T @ b", "a @ b.T")


def gemm(context: Context) -> None:
    """float32, square, tall and wide, and the transposed forms that backward needs."""
    sizes = context.pick((256, 512, 1024), (128, 256))
    for n in sizes:
        matrices(context, f"matmul {n} x {n}", n, n, n)
    n = sizes[1]
    for form in FORMS[1:]:
        matrices(context, f"{form} {n} x {n}", n, n, n, form)
    long = context.pick(4096, 512)
    shapes = [(long, 256, 256), (256, 256, long), (256, long, 256), (long, 64, 64), (64, 256, 256)]
    for m, k, n in shapes:
        matrices(context, f"matmul {m} x {k} x {n}", m, k, n)


def large(context: Context) -> None:
    """2048 x 2048."""
    n = context.pick(2048, 256)
    matrices(context, f"matmul {n} x {n}", n, n, n)


def small(context: Context) -> None:
    """32 products of 64 x 64 in one batch."""
    for count, n in ((32, 64), (64, 32)):
        compare(
            context,
            f"matmul of {count} x ({n} x {n})",
            partial(product, m=n, k=n, n=n, batch=(count,)),
            speed(n, n, n, count),
            work=multiplied(n, n, n, count),
            target=1.5,
        )


def skinny(context: Context) -> None:
    """1 to 8 rows by a square matrix, also transposed as a layer's weight is."""
    n = context.pick(1024, 256)
    for rows in (1, 2, 4, 8):
        for form in (FORMS[0], FORMS[2]):
            matrices(context, f"{form}, {rows} x {n} x {n}", rows, n, n, form, 1.5)
    matrices(context, f"matmul {n} x {n} x 1", n, n, 1, target=1.5)


def matrices(
    context: Context, title: str, m: int, k: int, n: int, form: str = FORMS[0], target: float = 1.0
) -> None:
    """One line for (m, k) @ (k, n)."""
    make = partial(product, m=m, k=k, n=n, form=form)
    work = multiplied(m, k, n)
    rivals = (
        {"jax": partial(jax_jobs.product, m=m, k=k, n=n)} if form == FORMS[0] and m == n else {}
    )
    compare(context, title, make, speed(m, k, n), work=work, target=target, rivals=rivals)


def speed(m: int, k: int, n: int, times: int = 1) -> Any:
    """A note with GFLOP/s."""

    def note(figures: dict[str, float]) -> str:
        rates = (f"{name} {2 * m * k * n * times / t / GIGA:.0f}" for name, t in figures.items())
        return "GFLOP/s: " + ", ".join(rates)

    return note


def product(
    lib: Any, m: int, k: int, n: int, form: str = FORMS[0], batch: tuple[int, ...] = ()
) -> Job:
    """(m, k) @ (k, n), an operand stored transposed where the form says so."""
    a = normal(lib, *batch, *((k, m) if form == "a.T @ b" else (m, k)))
    b = normal(lib, *batch, *((n, k) if form == "a @ b.T" else (k, n)), seed=1)
    left = a.mT if form == "a.T @ b" else a
    right = b.mT if form == "a @ b.T" else b

    def run() -> Any:
        out = left @ right
        realize(lib, out)
        return out

    return Job(run, lambda: [array(run())], compare=(1e-3, 1e-3))
