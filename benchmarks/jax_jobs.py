"""JAX's side of the workloads that it has, jitted: the same numbers in, the same results out.

In: the module `jax`. Out: jobs as the other libraries give. JAX returns before it is done, so that runs wait.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.measure import Job


def _normal(lib: Any, *shape: int, seed: int = 0, scale: float = 1.0) -> Any:
    values = np.random.default_rng(seed).standard_normal(shape, np.float32)
    return lib.numpy.asarray(values * np.float32(scale))


def _job(lib: Any, function: Any, *arguments: Any, **options: Any) -> Job:
    jitted = lib.jit(function)

    def run() -> Any:
        return lib.block_until_ready(jitted(*arguments))

    return Job(
        run, lambda: [np.asarray(part) for part in lib.tree_util.tree_leaves(run())], **options
    )


def gelu(lib: Any, count: int, backward: bool = False) -> Job:
    """Written out; with the gradient of its sum."""

    def value(x: Any) -> Any:
        return 0.5 * x * (1 + lib.numpy.tanh(0.7978845608 * (x + 0.044715 * x**3)))

    x = _normal(lib, count)
    if not backward:
        return _job(lib, value, x)
    both = lib.value_and_grad(lambda x: value(x).sum())
    return _job(lib, both, x, compare=(1e-3, 1e-5))


def normed_loss(lib: Any, shape: tuple[int, int]) -> Job:
    """layer_norm with weights, then cross_entropy."""
    rows, classes = shape
    weight, bias = (_normal(lib, classes, seed=n, scale=0.5) for n in (1, 2))
    target = lib.numpy.asarray(np.random.default_rng(0).integers(0, classes, rows))

    def loss_of(x: Any, weight: Any, bias: Any) -> Any:
        centred = x - x.mean(-1, keepdims=True)
        scale = lib.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
        scores = lib.nn.log_softmax(centred * scale * weight + bias)
        return -scores[lib.numpy.arange(rows), target].mean()

    both = lib.value_and_grad(loss_of, (0, 1, 2))
    return _job(lib, both, _normal(lib, rows, classes), weight, bias, compare=(1e-3, 1e-6))


def product(lib: Any, m: int, k: int, n: int) -> Job:
    """(m, k) @ (k, n)."""
    a, b = _normal(lib, m, k), _normal(lib, k, n, seed=1)
    return _job(lib, lambda a, b: a @ b, a, b, compare=(1e-3, 1e-3))


def mlp_step(lib: Any) -> Job:
    """The perceptron 64-256-256-10 with AdamW, one jitted function for the whole step."""
    np_ = lib.numpy
    generator = np.random.default_rng(0)
    widths = (64, 256, 256, 10)
    weights = []
    for before, after in zip(widths, widths[1:], strict=False):
        values = generator.standard_normal((after, before), np.float32)
        weights += [np_.asarray(values / np.float32(before**0.5)), np_.zeros(after)]
    x = _normal(lib, 64, 64)
    target = np_.asarray(np.random.default_rng(0).integers(0, 10, 64))

    def loss_of(weights: Any) -> Any:
        y = x
        for layer in range(3):
            y = y @ weights[2 * layer].T + weights[2 * layer + 1]
            y = lib.nn.relu(y) if layer < 2 else y
        return -lib.nn.log_softmax(y)[np_.arange(64), target].mean()

    step = lib.jit(_adamw(lib, lib.value_and_grad(loss_of)))
    zeros = [np_.zeros_like(weight) for weight in weights]
    state: list[Any] = [(weights, zeros, zeros, 0)]

    def run() -> float:
        loss, state[0] = step(*state[0])
        return float(loss)

    return Job(run, lambda: [[run() for _ in range(3)]], compare=(1e-3, 1e-4))


def _adamw(lib: Any, both: Any) -> Any:
    """PyTorch's defaults with lr 1e-3 (Loshchilov and Hutter 2019)."""

    def step(weights: Any, first: Any, second: Any, count: Any) -> Any:
        loss, slopes = both(weights)
        count = count + 1
        first = [0.9 * m + 0.1 * g for m, g in zip(first, slopes, strict=True)]
        second = [0.999 * v + 0.001 * g * g for v, g in zip(second, slopes, strict=True)]
        moved = []
        for w, m, v in zip(weights, first, second, strict=True):
            size = lib.numpy.sqrt(v / (1 - 0.999**count)) + 1e-8
            moved.append(w * (1 - 1e-5) - 1e-3 * (m / (1 - 0.9**count)) / size)
        return loss, (moved, first, second, count)

    return step
