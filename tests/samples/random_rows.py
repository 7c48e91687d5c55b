"""Random programs on matrices of different heights: what batches of different heights have to get right.

Each example is a matrix of its own height, and a step is a function of the matrices that the example has so far. Steps
that treat each row by itself join examples; others (sums over rows, a product with the example's own square matrix,
a transpose) stand between them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

WIDTH = 4
Step = tuple[int, int, int]

row_steps = st.lists(
    st.tuples(st.integers(0, 99), st.integers(0, 99), st.integers(0, 99)), min_size=2, max_size=8
)
heights = st.lists(st.integers(1, 6), min_size=3, max_size=9)


class Rows:
    """Parameters and examples, as tensors of one framework."""

    def __init__(
        self, framework: Any, sizes: list[int], seed: int, dtype: str, lead: tuple[int, ...]
    ) -> None:
        self.w, self.lead, self.rank = framework, lead, len(lead)
        source = np.random.default_rng(seed)
        kind = getattr(framework, dtype)

        def make(*shape: int, grad: bool = False) -> Any:
            values = source.standard_normal(shape)
            return framework.tensor(values, dtype=kind, requires_grad=grad)

        self.weight, self.bias = make(WIDTH, WIDTH, grad=True), make(WIDTH, grad=True)
        self.table, self.scale = make(5, WIDTH, grad=True), make(1, WIDTH, grad=True)
        self.leaves = [make(*lead, n, WIDTH, grad=True) for n in sizes]
        self.squares = [make(n, n) for n in sizes]
        self.indices = [framework.tensor(source.integers(0, 5, (*lead, n))) for n in sizes]
        self.places = make(max(sizes), WIDTH, grad=True)
        self.parameters = [self.weight, self.bias, self.table, self.scale, self.places]

    def step(self, number: int, example: int, x: Any, y: Any) -> Any:
        """One operation on matrices of one example."""
        w, functional, r = self.w, self.w.nn.functional, self.rank
        height = x.shape[r]
        steps = [
            lambda: functional.linear(x, self.weight, self.bias),
            lambda: x @ self.weight,
            lambda: x + y,
            lambda: x * self.scale,
            lambda: (x - y).tanh(),
            lambda: functional.gelu(x) * 0.5,
            lambda: functional.embedding(self.indices[example], self.table) * x,
            lambda: functional.layer_norm(x, (WIDTH,), self.bias),
            lambda: x.softmax(-1),
            lambda: x.log_softmax(r + 1) + y,
            lambda: x - x.mean(-1, keepdim=True),
            lambda: self.squares[example] @ x,
            lambda: x.softmax(r),
            lambda: x - y.mean(r, keepdim=True),
            lambda: w.cat([x[..., 1:], y[..., :1]], -1),
            lambda: w.cat(x.chunk(2, -1)[::-1], -1) * y,
            lambda: x + y.narrow(r, 0, 1),
            lambda: (x.mT @ y).mT.narrow(r, 0, 1) + x,
            lambda: w.where(x > y, x, y),
            lambda: w.cat([x, y], r).narrow(r, height // 2, height),
            lambda: x.amax(-1, keepdim=True) * y,
            lambda: x.detach() * y,
            lambda: x + self.places[:height],
            lambda: self.turned(x),
            lambda: x.reshape(-1, WIDTH).tanh().reshape(y.shape),
        ]
        return steps[number % len(steps)]()

    def turned(self, x: Any) -> Any:
        """By way of (n, 1, w), as layers that want the batch behind the sequence do."""
        if self.rank == 0:
            return self.w.nn.functional.linear(x[:, None], self.weight)[:, 0]
        moved = x.transpose(0, self.rank)
        return self.w.nn.functional.linear(moved, self.weight).transpose(0, self.rank)

    def example(self, number: int, steps: list[Step]) -> Any:
        """The last matrix of one example."""
        made = [self.leaves[number]]
        for kind, one, other in steps:
            made.append(self.step(kind, number, made[one % len(made)], made[other % len(made)]))
        return made[-1]


def run(
    framework: Any,
    steps: list[Step],
    sizes: list[int],
    seed: int,
    *,
    dtype: str = "float64",
    walk: str = "together",
    lead: tuple[int, ...] = (),
) -> tuple[list[Any], list[Any]]:
    """Forward values, and gradients of parameters and of each example's own matrix, whose shape begins with `lead`."""
    rows = Rows(framework, sizes, seed, dtype, lead)
    ends = [rows.example(number, steps) for number in range(len(sizes))]
    losses = [end.square().sum() for end in ends]
    seen: list[Any] = []
    if walk == "hooked":
        ends[0].retain_grad()
        ends[-1].register_hook(lambda g: g * 2)
    if walk == "together" or walk == "hooked":
        sum(losses[1:], losses[0]).backward()
    elif walk == "some":
        for loss in losses[::2]:
            loss.backward(retain_graph=True)
        sum(losses[1:], losses[0]).backward()
    elif walk == "read first":
        seen += [float(loss.detach()) for loss in losses]
        sum(losses[1:], losses[0]).backward()
    elif walk == "captured":
        wanted = [rows.weight, rows.leaves[0], rows.leaves[-1]]
        total = sum(losses[1:], losses[0])
        seen += framework.autograd.grad(total, wanted, allow_unused=True, retain_graph=True)
        total.backward()
    values = [end.detach().numpy() for end in ends]
    gradients = [leaf.grad for leaf in (*rows.parameters, *rows.leaves)] + seen
    if walk == "hooked":
        gradients.append(ends[0].grad)
    return values, [
        None if g is None else np.asarray(getattr(g, "detach", lambda g=g: g)()) for g in gradients
    ]
