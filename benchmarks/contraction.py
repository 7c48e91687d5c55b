"""Matrix products alone."""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks.libraries import array, normal, realize
from benchmarks.measure import Context, Job, compare

GIGA = 1e9


def gemm(context: Context) -> None:
    """float32, square, and the transposed forms that backward needs."""
    sizes = context.pick((256, 512, 1024), (128, 256))
    for n in sizes:
        compare(context, f"matmul {n} x {n}", partial(product, m=n, k=n, n=n), speed(n, n, n))
    n = sizes[1]
    for form in ("a.T @ b", "a @ b.T"):
        compare(
            context, f"{form} {n} x {n}", partial(product, m=n, k=n, n=n, form=form), speed(n, n, n)
        )
    m, k = 64, 256
    compare(context, f"matmul {m} x {k} x {k}", partial(product, m=m, k=k, n=k), speed(m, k, k))


def speed(m: int, k: int, n: int) -> Any:
    """A note with GFLOP/s."""

    def note(figures: dict[str, float]) -> str:
        rates = (f"{name} {2 * m * k * n / t / GIGA:.0f}" for name, t in figures.items())
        return "GFLOP/s: " + ", ".join(rates)

    return note


def product(lib: Any, m: int, k: int, n: int, form: str = "a @ b") -> Job:
    """(m, k) @ (k, n), an operand stored transposed where the form says so."""
    a = normal(lib, *((k, m) if form == "a.T @ b" else (m, k)))
    b = normal(lib, *((n, k) if form == "a @ b.T" else (k, n)), seed=1)
    left = a.t() if form == "a.T @ b" else a
    right = b.t() if form == "a @ b.T" else b

    def run() -> Any:
        out = left @ right
        realize(lib, out)
        return out

    return Job(run, lambda: [array(run())], compare=(1e-3, 1e-3))
