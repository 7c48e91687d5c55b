"""Recursive cells on random trees: what a batch stage has to get right.

A tree is nested tuples with integers (words) as leaves. `Forest` holds the parameters of a child-sum Tree-LSTM cell
and runs it as plain recursive Python on Weft or PyTorch; `walk` drives one of several ways to differentiate.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

Tree = Any
WORDS = 6

trees = st.lists(
    st.recursive(
        st.integers(0, WORDS - 1),
        lambda inner: st.lists(inner, min_size=1, max_size=3).map(tuple),
        max_leaves=7,
    ),
    min_size=2,
    max_size=6,
)


class Forest:
    """Parameters and the cell."""

    def __init__(self, framework: Any, size: int = 4, dtype: str = "float64") -> None:
        self.w = framework
        source = np.random.default_rng(3)

        def parameter(*shape: int) -> Any:
            values = source.standard_normal(shape) * 0.5
            return framework.tensor(values, dtype=getattr(framework, dtype), requires_grad=True)

        self.size = size
        self.words = parameter(WORDS, size)
        self.gates = parameter(size, 3 * size)
        self.up = parameter(size, 3 * size)
        self.forget = parameter(size, size)
        self.bias = parameter(3 * size)
        self.head = parameter(size, 2)
        self.parameters = [self.words, self.gates, self.up, self.forget, self.bias, self.head]
        self.states: list[Any] = []

    def cell(self, x: Any, children: list[tuple[Any, Any]]) -> tuple[Any, Any]:
        w = self.w
        h_sum = sum((h for h, _ in children[1:]), children[0][0]) if children else w.zeros_like(x)
        i, o, u = (x @ self.gates + h_sum @ self.up + self.bias).chunk(3, -1)
        c = i.sigmoid() * u.tanh()
        for h_child, c_child in children:
            c = c + (x + h_child @ self.forget).sigmoid() * c_child
        h = o.sigmoid() * c.tanh()
        self.states.append(h)
        return h, c

    def state(self, tree: Tree) -> tuple[Any, Any]:
        if isinstance(tree, int):
            return self.cell(self.words[tree].reshape(1, -1), [])
        x = self.words[len(tree) % WORDS].reshape(1, -1)
        return self.cell(x, [self.state(child) for child in tree])

    def loss(self, tree: Tree, target: int) -> Any:
        h, _ = self.state(tree)  # (1, size)
        return -(h @ self.head).log_softmax(-1)[0, target % 2]

    def losses(self, forest: list[Tree]) -> list[Any]:
        self.states = []
        return [self.loss(tree, index) for index, tree in enumerate(forest)]


def numbers(tensors: Any) -> list[Any]:
    """Values of tensors (or None) as arrays."""
    return [None if t is None else np.array(t.detach().numpy()) for t in tensors]


# -- ways to differentiate; each returns arrays ----------------------------------------------------


def whole(forest: Forest, trees: list[Tree]) -> list[Any]:
    losses = forest.losses(trees)
    sum(losses[1:], losses[0]).backward()
    return numbers(losses) + numbers(p.grad for p in forest.parameters)


def one_by_one(forest: Forest, trees: list[Tree]) -> list[Any]:
    losses = forest.losses(trees)
    first = float(losses[0])
    for loss in losses:
        loss.backward()
    return [first, *numbers(p.grad for p in forest.parameters)]


def backwards(forest: Forest, trees: list[Tree]) -> list[Any]:
    losses = forest.losses(trees)
    for loss in reversed(losses):
        loss.backward()
        float(forest.bias.grad.sum())
    return numbers(p.grad for p in forest.parameters)


def some(forest: Forest, trees: list[Tree]) -> list[Any]:
    losses = forest.losses(trees)
    sum(losses[::2], 0).backward()
    before = numbers(p.grad for p in forest.parameters)
    rest = losses[1::2]
    if rest:
        sum(rest, 0).backward()
    return before + numbers(p.grad for p in forest.parameters)


def retained(forest: Forest, trees: list[Tree]) -> list[Any]:
    losses = forest.losses(trees)
    total = sum(losses[1:], losses[0])
    total.backward(retain_graph=True)
    before = numbers(p.grad for p in forest.parameters)
    losses[-1].backward(retain_graph=True)
    total.backward()
    return before + numbers(p.grad for p in forest.parameters)


def hooked(forest: Forest, trees: list[Tree]) -> list[Any]:
    losses = forest.losses(trees)
    seen: list[Any] = []
    for number, state in enumerate(forest.states[::3]):
        state.register_hook(
            lambda g, n=number: seen.append((n, numbers([g])[0])) or (g * 2 if n % 2 else None)
        )
    forest.up.register_hook(lambda g: g * 0.5)
    sum(losses[1:], losses[0]).backward()
    seen.sort(key=lambda entry: entry[0])
    return [g for _, g in seen] + numbers(p.grad for p in forest.parameters)


def hooked_order(forest: Forest, trees: list[Tree]) -> list[Any]:
    losses = forest.losses(trees)
    seen: list[int] = []
    for number, state in enumerate(forest.states):
        state.register_hook(lambda g, n=number: seen.append(n))
    sum(losses[1:], losses[0]).backward()
    return [np.array(seen), *numbers(p.grad for p in forest.parameters)]


def retained_gradients(forest: Forest, trees: list[Tree]) -> list[Any]:
    losses = forest.losses(trees)
    chosen = forest.states[::2]
    for state in chosen:
        state.retain_grad()
    sum(losses[1:], losses[0]).backward()
    return numbers(s.grad for s in chosen) + numbers(p.grad for p in forest.parameters)


def captured(forest: Forest, trees: list[Tree]) -> list[Any]:
    losses = forest.losses(trees)
    wanted = [forest.up, *forest.states[::2], forest.head]
    found = forest.w.autograd.grad(
        sum(losses[1:], losses[0]), wanted, retain_graph=True, allow_unused=True
    )
    sum(losses[1:], losses[0]).backward()
    return numbers(found) + numbers(p.grad for p in forest.parameters)


def second_order(forest: Forest, trees: list[Tree]) -> list[Any]:
    losses = forest.losses(trees)
    grads = forest.w.autograd.grad(
        sum(losses[1:], losses[0]), forest.parameters, create_graph=True, allow_unused=True
    )
    penalty = sum((g * g).sum() for g in grads if g is not None)
    penalty.backward()
    return numbers(grads) + numbers([penalty]) + numbers(p.grad for p in forest.parameters)


def halves(forest: Forest, trees: list[Tree]) -> list[Any]:
    """The graph of some trees is read and walked while others are still pending."""
    middle = len(trees) // 2
    early = forest.losses(trees[:middle])
    values = numbers(early[:1])
    late = [forest.loss(tree, 1) for tree in trees[middle:]]
    late[0].backward()
    if early:
        sum(early, 0).backward()
    return values + numbers(late) + numbers(p.grad for p in forest.parameters)


def steps(forest: Forest, trees: list[Tree]) -> list[Any]:
    """Three steps of training: programs come again with other values."""
    history = []
    for _ in range(3):
        losses = forest.losses(trees)
        total = sum(losses[1:], losses[0])
        total.backward()
        history.append(total)
        with forest.w.no_grad():
            for p in forest.parameters:
                if p.grad is not None:
                    p -= 0.1 * p.grad
                p.grad = None
    return numbers(history) + numbers(forest.parameters)


WAYS = [
    whole,
    one_by_one,
    backwards,
    some,
    retained,
    hooked,
    hooked_order,
    retained_gradients,
    captured,
    second_order,
    halves,
    steps,
]
