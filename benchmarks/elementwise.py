"""Memory-bound work: expressions, softmax and normalisation, sums over axes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.libraries import array, integers, normal, realize
from benchmarks.measure import Context, Job, compare

MILLION = 1 << 20


def gelu(context: Context) -> None:
    """The tanh form of gelu, written out."""
    count = context.pick(4 * MILLION, MILLION // 4)
    size = f"{count / MILLION:g}M floats"
    compare(
        context,
        f"gelu written out, {size}, forward",
        partial(forward, function=gelu_of, shape=(count,)),
    )
    compare(
        context,
        f"gelu written out, {size}, forward + backward",
        partial(both_ways, function=gelu_sum, shape=(count,)),
    )


def gelu_of(lib: Any, x: Any) -> Any:
    """0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))."""
    return 0.5 * x * (1 + (0.7978845608 * (x + 0.044715 * x**3)).tanh())


def gelu_sum(lib: Any, x: Any) -> Any:
    """Its sum."""
    return gelu_of(lib, x).sum()


def forward(lib: Any, function: Callable[..., Any], shape: tuple[int, ...], **options: Any) -> Job:
    """A function of one tensor."""
    x = normal(lib, *shape)

    def run() -> Any:
        y = function(lib, x)
        realize(lib, y)
        return y

    return Job(run, lambda: [array(run())], **options)


def both_ways(lib: Any, function: Callable[..., Any], shape: tuple[int, ...]) -> Job:
    """A loss of one tensor, and its gradient."""
    x = normal(lib, *shape).requires_grad_()

    def run() -> Any:
        x.grad = None
        loss = function(lib, x)
        loss.backward()
        realize(lib, loss, x.grad)
        return loss

    return Job(run, lambda: [array(run()), array(x.grad)], compare=(1e-3, 1e-5))


def norms(context: Context) -> None:
    """softmax; layer_norm into cross_entropy; on rows of 1000."""
    shape = context.pick((2048, 1000), (256, 1000))
    size = f"{shape[0]} x {shape[1]}"
    compare(context, f"softmax {size}, forward", partial(forward, function=softmax, shape=shape))
    compare(
        context,
        f"softmax {size}, forward + backward",
        partial(both_ways, function=expected, shape=shape),
    )
    compare(
        context, f"layer_norm {size}, forward", partial(forward, function=layer_norm, shape=shape)
    )
    compare(
        context,
        f"layer_norm + cross_entropy {size}, forward + backward",
        partial(normed_loss, shape=shape),
    )


def softmax(lib: Any, x: Any) -> Any:
    """Over rows."""
    return lib.nn.functional.softmax(x, -1)


def expected(lib: Any, x: Any) -> Any:
    """The rows' means under their softmax, summed."""
    return (softmax(lib, x) * x).sum()


def layer_norm(lib: Any, x: Any) -> Any:
    """Over rows, no weights."""
    return lib.nn.functional.layer_norm(x, (x.shape[-1],))


def normed_loss(lib: Any, shape: tuple[int, int]) -> Job:
    """layer_norm with weights, then cross_entropy: gradients of the input and the weights."""
    rows, classes = shape
    functional = lib.nn.functional
    x = normal(lib, rows, classes).requires_grad_()
    weight, bias = (normal(lib, classes, seed=n, scale=0.5).requires_grad_() for n in (1, 2))
    target = integers(lib, classes, rows)

    def run() -> Any:
        x.grad = weight.grad = bias.grad = None
        normed = functional.layer_norm(x, (classes,), weight, bias)
        loss = functional.cross_entropy(normed, target)
        loss.backward()
        realize(lib, loss, x.grad, weight.grad, bias.grad)
        return loss

    def result() -> Any:
        return [array(run()), array(x.grad), array(weight.grad), array(bias.grad)]

    return Job(run, result, compare=(1e-3, 1e-6))


def sums(context: Context) -> None:
    """Sums over each axis, and over all."""
    n, m = context.pick((4096, 1024), (512, 1024))
    cases: list[tuple[str, tuple[int, ...], Any]] = [
        (f"sum of {n} x {m} over rows, dim 0", (n, m), 0),
        (f"sum of {n} x {m} over columns, dim 1", (n, m), 1),
        (f"sum of {n} x {m}, all", (n, m), (0, 1)),
        (f"sum of {n // 32} x 32 x {m}, dim 1", (n // 32, 32, m), 1),
        (f"sum of {n // 32} x {m} x 32, dims 0 and 1", (n // 32, m, 32), (0, 1)),
    ]
    for title, shape, dim in cases:
        compare(context, title, partial(total, shape=shape, dim=dim))
    compare(
        context,
        f"sum of {n} x {m} transposed, dim 0",
        partial(total, shape=(n, m), dim=0, transposed=True),
    )


def total(lib: Any, shape: tuple[int, ...], dim: Any, transposed: bool = False) -> Job:
    """A sum over some dimensions."""

    def over(lib: Any, x: Any) -> Any:
        return (x.t() if transposed else x).sum(dim)

    return forward(lib, over, shape, compare=(1e-3, 1e-2))
