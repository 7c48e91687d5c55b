"""Whole training steps: a perceptron, a GPT, a Tree-LSTM on syntax trees."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import cycle
from typing import Any

from benchmarks import jax_jobs
from benchmarks.libraries import fill, integers, normal
from benchmarks.limits import Work
from benchmarks.measure import Context, Job, compare
from benchmarks.models import SMALL_GPT, GPTSize, gpt, perceptron, tree_lstm

COMPARED_STEPS = 3
TREES_PER_STEP = 32


def mlp(context: Context) -> None:
    """A step of the perceptron 64-256-256-10 on 64 examples."""
    operations = 6.0 * 64 * (64 * 256 + 256 * 256 + 256 * 10) - 2.0 * 64 * 64 * 256
    compare(
        context,
        "MLP 64-256-256-10, batch 64, AdamW step",
        mlp_step,
        target=4.0,
        work=Work(operations),
        rivals={"torch.compile": mlp_step, "jax": jax_jobs.mlp_step},
    )


def train_job(lib: Any, model: Any, loss_of: Callable[[], Any]) -> Job:
    """AdamW steps; the losses of the first ones are compared."""
    optimizer = lib.optim.AdamW(model.parameters(), lr=1e-3)

    def run() -> float:
        loss = loss_of()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return float(loss.item())

    return Job(run, lambda: [[run() for _ in range(COMPARED_STEPS)]], compare=(1e-3, 1e-4))


def mlp_step(lib: Any) -> Job:
    """One batch, again and again."""
    model = fill(lib, perceptron(lib, 64, 256, 256, 10))
    x, target = normal(lib, 64, 64), integers(lib, 10, 64)
    return train_job(lib, model, lambda: lib.nn.functional.cross_entropy(model(x), target))


def updates(context: Context) -> None:
    """A step of AdamW alone: many small parameters, and a few large ones."""
    for count, size in ((100, 64), (context.pick(20, 4), 512 * 512)):
        compare(
            context,
            f"AdamW step alone, {count} parameters of {size}",
            partial(updates_step, count=count, size=size),
        )


def updates_step(lib: Any, count: int, size: int) -> Job:
    """The same gradients at each step."""
    parameters = [lib.nn.Parameter(normal(lib, size, seed=n)) for n in range(count)]
    for number, parameter in enumerate(parameters):
        parameter.grad = normal(lib, size, seed=count + number)
    optimizer = lib.optim.AdamW(parameters, lr=1e-3)

    def values() -> list[list[float]]:
        for _ in range(COMPARED_STEPS):
            optimizer.step()
        return [parameters[0].detach()[:8].tolist()]

    return Job(optimizer.step, values, compare=(1e-4, 1e-6))


def gpt_size(context: Context) -> GPTSize:
    """The size of this kind of run."""
    size: GPTSize = context.pick(GPTSize(), SMALL_GPT)
    return size


def language(context: Context) -> None:
    """A step of a GPT on characters."""
    size = gpt_size(context)
    make = partial(gpt_step, size=size)
    compare(
        context,
        f"GPT {size.layers} x {size.width}, T {size.length}, batch {size.batch}, AdamW step",
        make,
        target=2.0,
        work=Work(gpt_operations(size)),
        rivals={"torch.compile": make},
    )


def gpt_operations(size: GPTSize) -> float:
    """Of the matrix products of a step: twice as many backward as forward; causal attention needs half of its
    scores."""
    tokens, width = size.batch * size.length, size.width
    weights = 12 * width * width * size.layers + width * size.characters
    attention = size.layers * 2 * width * size.length / 2
    return 6.0 * tokens * (weights + attention)


def unchanged(lib: Any, model: Any) -> Any:
    """A model as it is."""
    return model


def gpt_step(lib: Any, size: GPTSize, prepare: Callable[[Any, Any], Any] = unchanged) -> Job:
    """Fresh characters at each step; `prepare` changes the model before."""
    model = prepare(lib, fill(lib, gpt(lib, size)))
    texts = [integers(lib, size.characters, size.batch, size.length + 1, seed=n) for n in range(4)]
    upcoming = cycle(texts)

    def loss_of() -> Any:
        text = next(upcoming)
        scores = model(text[:, :-1])  # (b, t) -> (b, t, characters)
        return lib.nn.functional.cross_entropy(scores.flatten(0, 1), text[:, 1:].flatten())

    return train_job(lib, model, loss_of)


def trees(context: Context) -> None:
    """A step of the Tree-LSTM on the standard library's functions: other trees at each step."""
    from weft.demo.syntax_trees import load_functions

    data = load_functions(limit=context.pick(None, 320))
    width = context.pick(128, 32)
    size = sum(function.tree.size() for function in data.train) / len(data.train)
    compare(
        context,
        f"Tree-LSTM d {width}, {TREES_PER_STEP} trees per step of {size:.0f} nodes, AdamW step",
        lambda lib: tree_step(lib, data, width),
        target=10.0,
    )


def tree_step(
    lib: Any, data: Any, width: int, prepare: Callable[[Any, Any], Any] = unchanged
) -> Job:
    """The same per-tree code for both; batches come round after an epoch. `prepare` changes the model before."""
    numbers = {label: lib.tensor(n) for n, label in enumerate(data.vocabulary())}
    classes = {package: lib.tensor(n) for n, package in enumerate(data.packages)}
    model = prepare(lib, fill(lib, tree_lstm(lib, len(numbers), len(classes), width)))
    examples = [(numbered(f.tree, numbers), classes[f.package]) for f in shuffled(data.train)]
    starts = cycle(range(0, len(examples) - TREES_PER_STEP, TREES_PER_STEP))

    def loss_of() -> Any:
        start = next(starts)
        losses = [
            lib.nn.functional.cross_entropy(model(tree), target)
            for tree, target in examples[start : start + TREES_PER_STEP]
        ]
        return lib.stack(losses).mean()

    return train_job(lib, model, loss_of)


def shuffled(functions: Any) -> list[Any]:
    """Packages mixed, the same way on every run."""
    import random

    mixed = list(functions)
    random.Random(0).shuffle(mixed)
    return mixed


def numbered(tree: Any, numbers: dict[str, Any]) -> Any:
    """(number of the label as a tensor, children); rare labels count as their kind."""
    from weft.demo.syntax_trees import UNKNOWN, kind_of

    number = numbers.get(tree.label)
    if number is None:
        number = numbers.get(kind_of(tree.label), numbers[UNKNOWN])
    return number, [numbered(child, numbers) for child in tree.children]
