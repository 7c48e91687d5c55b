"""Programs that are traced by both libraries: a function of the library gives a module or function, and its inputs."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

PROGRAMS: dict[str, Callable[[Any], tuple[Any, tuple[Any, ...]]]] = {}


def program(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    PROGRAMS[make.__name__] = make
    return make


def numbers(lib: Any, *shape: int) -> Any:
    count = math.prod(shape)
    return (lib.arange(count, dtype=lib.float64).reshape(shape) * 0.37).sin()


def filled(module: Any, lib: Any) -> Any:
    """The module with the same parameters in both libraries."""
    module.double()
    for place, tensor in enumerate((*module.parameters(), *module.buffers())):
        if tensor.is_floating_point():
            with lib.no_grad():
                tensor.copy_(numbers(lib, *tensor.shape) * 0.3 + 0.1 * place + 0.5)
    return module.eval()


@program
def perceptron(lib: Any) -> Any:
    layers = lib.nn.Linear(3, 4), lib.nn.ReLU(), lib.nn.Dropout(0.5), lib.nn.Linear(4, 2)
    return filled(lib.nn.Sequential(*layers), lib), (numbers(lib, 5, 3),)


@program
def residual_block(lib: Any) -> Any:
    nn, functional = lib.nn, lib.nn.functional

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Conv2d(2, 2, 3, padding=1)
            self.norms = nn.ModuleList([nn.BatchNorm2d(2), nn.GroupNorm(1, 2)])
            self.scale = nn.Parameter(lib.ones(1))
            self.register_buffer("shift", lib.ones(2, 1, 1))

        def forward(self, x: Any) -> Any:
            y = functional.relu(self.norms[0](self.first(x)))
            y = self.shift * y + x * self.scale
            for norm in self.norms[1:]:
                y = norm(y)
            return functional.avg_pool2d(y, 2).flatten(1)

    return filled(Block(), lib), (numbers(lib, 2, 2, 4, 4),)


@program
def attention(lib: Any) -> Any:
    nn = lib.nn

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.qkv, self.out, self.heads = nn.Linear(6, 18), nn.Linear(6, 6), 2

        def forward(self, x: Any) -> Any:
            b, t, c = x.shape
            q, k, v = self.qkv(x).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
            scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(3))
            y = nn.functional.softmax(scores, dim=-1) @ v
            return self.out(y.transpose(1, 2).reshape(b, t, c))

    return filled(Attention(), lib), (numbers(lib, 2, 3, 6),)


@program
def operators(lib: Any) -> Any:
    def run(x: Any, y: Any, *, scale: float = 2.0):  # type: ignore[no-untyped-def]
        a = 2 - x + y * scale / 3
        b = -(a**2) @ y.T
        c = (a > 0) & (y <= 1) | ~(x == y)
        d = lib.where(c, a, 1.0 - y) // 0.5 % 3
        d += abs(x)
        return {"b": b, "d": [d, d[0], d[..., 1:], d[:, None]], "t": (1 / (y + 3), 2**x)}

    return run, (numbers(lib, 3, 3), numbers(lib, 3, 3) + 1)


@program
def functions(lib: Any) -> Any:
    functional = lib.nn.functional

    def run(x: Any) -> Any:
        a = functional.dropout(functional.gelu(x), p=0.1, training=False)
        b = functional.layer_norm(a, (4,))
        c, d = lib.split(b, 2, dim=-1)
        e = lib.cat([c, d], dim=1).square().sum(dim=-1, keepdim=True)
        f = functional.pad(e, (1, 2)).clamp(min=-0.5).to(lib.float32).double()
        return lib.stack((f, functional.normalize(f)), 0), lib.einsum("ij,kj->ik", a, b)

    return run, (numbers(lib, 3, 4),)


@program
def constants(lib: Any) -> Any:
    weight = numbers(lib, 3)

    def run(x: Any) -> Any:
        return x * weight + lib.arange(3) - lib.tensor([1.0, 2.0, 3.0]) + weight

    return run, (numbers(lib, 2, 3),)


@program
def unpacked_and_asked(lib: Any) -> Any:
    def run(x: Any) -> Any:
        n, m = x.shape
        first, *_ = (x[0], x[1])
        return x.view(m, n).sum(x.dim() - 1) + first.new_zeros(n).size(0), x.T.shape, x.dtype

    return run, (numbers(lib, 2, 2),)


@program
def variable_arguments(lib: Any) -> Any:
    def run(x: Any, *rest: Any, scale: float = 1.0, **options: Any):  # type: ignore[no-untyped-def]
        return x * scale + rest[0] * options["weight"]

    return run, ()


@program
def shared_modules(lib: Any) -> Any:
    class Shared(lib.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.cell = lib.nn.Linear(2, 2)
            self.again = self.cell
            self.inner = lib.nn.Sequential(self.cell, lib.nn.Tanh())

        def forward(self, x: Any, steps: int = 2) -> Any:
            for _ in range(3):
                x = self.again(self.inner(x)) + self.cell.bias
            return x * steps

    return filled(Shared(), lib), (numbers(lib, 3, 2), 5)


@program
def functions_of_python(lib: Any) -> Any:
    def run(x: Any) -> Any:
        return operator.add(x, 1), math.floor(x.sum()), x.mT, operator.getitem(x, 0)

    return run, (numbers(lib, 2, 2),)


@program
def recurrent(lib: Any) -> Any:
    class Recurrent(lib.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.run, self.head = (
                lib.nn.Embedding(5, 3),
                lib.nn.LSTM(3, 4),
                lib.nn.Linear(4, 1),
            )

        def forward(self, tokens: Any) -> Any:
            outputs, (hidden, cell) = self.run(self.embed(tokens))
            return self.head(outputs[-1]) + hidden.mean() * cell.sum()

    return filled(Recurrent(), lib), (lib.arange(5).reshape(5, 1),)


# What cannot be traced; here, where nothing is marked by `wrap` and pytest rewrites no `assert`.


def asks_for_length(x: Any) -> Any:
    return x * len(x)


def asserts(x: Any) -> Any:
    assert x.shape[0] == 1
    return x
