"""What autograd's extras cost: a tensor hook, a custom Function, the gradients of every sample."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

from benchmarks.libraries import array, fill, integers, normal, realize
from benchmarks.measure import PAUSE, Context, Job, Line, check, plan, settle, timed

STEPS = 500
BATCH = 64
Step = Callable[[Any], Any]


# -- one step of a chain more ------------------------------------------------------------------------------------------


def hook(context: Context) -> None:
    """A hook on every tensor of a chain: registering and calling it."""

    def hooked(y: Any) -> Any:
        y = y * 0.999
        y.register_hook(seen)
        return y

    overhead(context, "tensor hook", lambda lib: hooked, lambda lib: lambda y: y * 0.999)


def seen(gradient: Any) -> None:
    """A hook that changes nothing."""


def function(context: Context) -> None:
    """An autograd.Function that hands its argument on, forward and backward, in a chain."""

    def through(lib: Any) -> Step:
        apply = identity(lib).apply
        return lambda y: apply(y * 0.999)

    overhead(context, "autograd.Function, round trip", through, lambda lib: lambda y: y * 0.999)


def identity(lib: Any) -> Any:
    """The function with the least to do."""

    class Identity(lib.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g

    return Identity


def overhead(
    context: Context, title: str, more: Callable[[Any], Step], less: Callable[[Any], Step]
) -> None:
    """The time of one step of a chain beyond that of a plainer one, the two taking turns."""
    figures = {}
    for name, lib in context.libraries.items():
        jobs = {"more": chain(lib, more(lib)), "less": chain(lib, less(lib))}
        figures[name] = beyond(context, title, jobs)
    context.report(Line(title, figures, "s", "beyond a chain without it"))


def chain(lib: Any, step: Step) -> Job:
    """Forward and backward through equal steps."""
    x = normal(lib, 16).requires_grad_()

    def run() -> Any:
        x.grad = None
        y = x
        for _ in range(STEPS):
            y = step(y)
        y.sum().backward()
        return x.grad.tolist()

    return Job(run, lambda: [run()], per=STEPS)


def beyond(context: Context, title: str, jobs: dict[str, Job]) -> float:
    """The median difference of two jobs."""
    check(title, jobs)
    runs, turns = plan(context, {name: settle(job) for name, job in jobs.items()})
    differences = []
    for _ in range(turns):
        time.sleep(PAUSE)
        jobs["more"].run()
        differences.append((timed(jobs["more"], runs) - timed(jobs["less"], runs)) / STEPS)
    return statistics.median(differences)


# -- gradients of every sample -----------------------------------------------------------------------------------------


def samples(context: Context) -> None:
    """`vmap(grad(functional_call))` beside one backward of the batch, both with their forward."""
    for name, make in MODELS.items():
        figures, words = {}, []
        for library, lib in context.libraries.items():
            model, x = make(lib)
            jobs = {"more": sampled(lib, model, x), "less": batched(lib, model, x)}
            both = {kind: settled(context, job) for kind, job in jobs.items()}
            figures[library] = both["more"]
            words.append(f"{library} {both['more'] / both['less']:.2f}")
        note = f"batch {BATCH}; times of a batched backward: {', '.join(words)}"
        context.report(Line(f"per-sample gradients, {name}", figures, "s", note))


def settled(context: Context, job: Job) -> float:
    """The median time of one job."""
    runs, turns = plan(context, {"job": settle(job)})
    return statistics.median(timed(job, runs) for _ in range(turns))


def batched(lib: Any, model: Any, x: Any) -> Job:
    """The gradients of the mean loss."""
    y = integers(lib, 10, BATCH)
    parameters = list(model.parameters())

    def run() -> Any:
        found = lib.autograd.grad(lib.nn.functional.cross_entropy(model(x), y), parameters)
        realize(lib, *found)
        return found

    return Job(run, lambda: [array(g) for g in run()])


def sampled(lib: Any, model: Any, x: Any) -> Job:
    """The gradients of each sample's loss."""
    y = integers(lib, 10, BATCH)
    state = {name: p.detach() for name, p in model.named_parameters()}

    def loss(state: Any, one: Any, label: Any) -> Any:
        result = lib.func.functional_call(model, state, (one.unsqueeze(0),))
        return lib.nn.functional.cross_entropy(result, label.unsqueeze(0))

    gradients = lib.func.vmap(lib.func.grad(loss), (None, 0, 0))

    def run() -> Any:
        found = gradients(state, x, y)
        realize(lib, *found.values())
        return found

    return Job(run, lambda: [array(g.mean(0)) for g in run().values()])


def perceptron(lib: Any) -> tuple[Any, Any]:
    """Three layers."""
    nn = lib.nn
    layers = (nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))
    return fill(lib, nn.Sequential(*layers)), normal(lib, BATCH, 64)


def convolutions(lib: Any) -> tuple[Any, Any]:
    """Two convolutions with pooling, and a layer."""
    nn = lib.nn
    layers = (
        *(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2)),
        *(nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2)),
        *(nn.Flatten(), nn.Linear(16 * 49, 10)),
    )
    return fill(lib, nn.Sequential(*layers)), normal(lib, BATCH, 1, 28, 28)


def transformer(lib: Any) -> tuple[Any, Any]:
    """One block of width 64 with 4 heads, on 16 tokens."""
    functional = lib.nn.functional

    class Block(lib.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, width: int = 64, heads: int = 4) -> None:
            super().__init__()
            self.heads = heads
            self.first, self.second = lib.nn.LayerNorm(width), lib.nn.LayerNorm(width)
            self.mixed, self.out = lib.nn.Linear(width, 3 * width), lib.nn.Linear(width, width)
            self.up, self.down = lib.nn.Linear(width, 4 * width), lib.nn.Linear(4 * width, width)
            self.head = lib.nn.Linear(width, 10)

        def forward(self, x: Any) -> Any:
            batch, tokens, width = x.shape
            split = self.mixed(self.first(x)).reshape(batch, tokens, 3, self.heads, -1)
            query, key, value = split.permute(2, 0, 3, 1, 4).unbind(0)
            weights = (query @ key.transpose(-2, -1) * 0.25).softmax(-1)  # (B, h, T, T)
            mixed = (weights @ value).transpose(1, 2).reshape(batch, tokens, width)
            x = x + self.out(mixed)
            x = x + self.down(functional.gelu(self.up(self.second(x))))
            return self.head(x.mean(1))

    return fill(lib, Block()), normal(lib, BATCH, 16, 64)


MODELS: dict[str, Callable[[Any], tuple[Any, Any]]] = {
    "MLP": perceptron,
    "convolutions": convolutions,
    "transformer block": transformer,
}
