"""Memory-bound work: expressions, softmax and normalisation, sums over axes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks import jax_jobs
from benchmarks.libraries import array, integers, normal, realize, through_compiler
from benchmarks.limits import moved
from benchmarks.measure import Context, Job, compare

MILLION = 1 << 20


def gelu(context: Context) -> None:
    """The tanh form of gelu, written out, on 4M floats."""
    gelu_on(context, context.pick(4 * MILLION, MILLION // 4))


def large_gelu(context: Context) -> None:
    """The same on 32M floats, which no cache holds."""
    gelu_on(context, context.pick(32 * MILLION, MILLION // 2))


def gelu_on(context: Context, count: int) -> None:
    """Forward, and with the gradient."""
    size, work = f"{count / MILLION:g}M floats", moved(4 * count, 4 * count)
    one_way = partial(forward, function=gelu_of, shape=(count,))
    both = partial(both_ways, function=gelu_sum, shape=(count,))
    for title, make, jax_make in (
        ("forward", one_way, partial(jax_jobs.gelu, count=count)),
        ("forward + backward", both, partial(jax_jobs.gelu, count=count, backward=True)),
    ):
        compare(
            context,
            f"gelu written out, {size}, {title}",
            make,
            target=15.0,
            work=work,
            rivals={"torch.compile": make, "jax": jax_make},
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
    compiled = through_compiler(lib, partial(function, lib))

    def run() -> Any:
        y = compiled(x)
        realize(lib, y)
        return y

    return Job(run, lambda: [array(run())], **options)


def both_ways(lib: Any, function: Callable[..., Any], shape: tuple[int, ...]) -> Job:
    """A loss of one tensor, and its gradient."""
    x = normal(lib, *shape).requires_grad_()
    compiled = through_compiler(lib, partial(function, lib))

    def run() -> Any:
        x.grad = None
        loss = compiled(x)
        loss.backward()
        realize(lib, loss, x.grad)
        return loss

    return Job(run, lambda: [array(run()), array(x.grad)], compare=(1e-3, 1e-5))


def norms(context: Context) -> None:
    """softmax; layer_norm into cross_entropy; on rows of 1000."""
    shape = context.pick((2048, 1000), (256, 1000))
    size = f"{shape[0]} x {shape[1]}"
    bytes_of = 4 * shape[0] * shape[1]
    work = moved(bytes_of, bytes_of)
    cases: list[tuple[str, Any, float, dict[str, Any]]] = [
        ("softmax {}, forward", partial(forward, function=softmax, shape=shape), 1.0, {}),
        (
            "softmax {}, forward + backward",
            partial(both_ways, function=expected, shape=shape),
            1.0,
            {},
        ),
        ("layer_norm {}, forward", partial(forward, function=layer_norm, shape=shape), 1.0, {}),
        (
            "layer_norm + cross_entropy {}, forward + backward",
            partial(normed_loss, shape=shape),
            2.0,
            {"jax": partial(jax_jobs.normed_loss, shape=shape)},
        ),
    ]
    for title, make, target, others in cases:
        rivals = {"torch.compile": make, **others}
        compare(context, title.format(size), make, target=target, work=work, rivals=rivals)


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

    def loss_of(x: Any, weight: Any, bias: Any) -> Any:
        normed = functional.layer_norm(x, (classes,), weight, bias)
        return functional.cross_entropy(normed, target)

    compiled = through_compiler(lib, loss_of)

    def run() -> Any:
        x.grad = weight.grad = bias.grad = None
        loss = compiled(x, weight, bias)
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
    work = moved(4 * n * m, 0)
    for title, shape, dim in cases:
        make = partial(total, shape=shape, dim=dim)
        compare(context, title, make, target=1.0, work=work)
    make = partial(total, shape=(n, m), dim=0, transposed=True)
    compare(context, f"sum of {n} x {m} transposed, dim 0", make, target=1.0, work=work)


def total(lib: Any, shape: tuple[int, ...], dim: Any, transposed: bool = False) -> Job:
    """A sum over some dimensions."""

    def over(lib: Any, x: Any) -> Any:
        return (x.t() if transposed else x).sum(dim)

    return forward(lib, over, shape, compare=(1e-3, 1e-2))
