"""Any program with reads, branches, nested maps, random numbers, in-place operations and errors: a map is the loop."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from weft.functional.random.generator import stream_of_example

Program = list[tuple[int, int, int]]
programs = st.lists(
    st.tuples(st.integers(0, 11), st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=14
)


class Example:
    """Runs a program on tensors of its own, with weights that all share; branches on what it reads."""

    def __init__(self, program: Program, seed: int, weights: list[Any], inner: bool) -> None:
        self.program, self.seed, self.weights, self.inner = program, seed, weights, inner

    def __call__(self, number: int) -> Any:
        numbers = random.Random(self.seed * 1000 + number)
        slots = [
            weft.tensor([numbers.uniform(-1, 1) for _ in range(3)], dtype=weft.float64)
            for _ in range(4)
        ]
        slots[0].requires_grad_()
        leaf, reads = slots[0], []
        for kind, a, b in self.program:
            slots[b] = self.step(kind, slots[a], slots[b], reads, number)
        return leaf, reads, slots

    def step(self, kind: int, x: Any, y: Any, reads: list[float], number: int) -> Any:
        plain = self.plain_step(kind, x, y, number)
        return self.deciding_step(kind, x, y, reads, number) if plain is None else plain

    def plain_step(self, kind: int, x: Any, y: Any, number: int) -> Any:
        if kind == 0:
            return x @ self.weights[number % 2]
        if kind == 1:
            return (x * y).tanh()
        if kind == 4:
            return x.clone().mul_(y.detach())
        if kind == 5:
            z = y.clone()
            z[number % 3] = x.sum()
            return z
        if kind == 6:
            return x + weft.rand(3, dtype=weft.float64)
        if kind == 10:
            return weft.cat([x[:1], y[1:]])
        return None

    def deciding_step(self, kind: int, x: Any, y: Any, reads: list[float], number: int) -> Any:
        if kind == 2:
            reads.append(x.sum().item())
            return y * 2 if reads[-1] > 0 else y - x
        if kind == 3:
            while x.norm() > 0.5:
                x = x * 0.5
            return x
        if kind == 7:
            with weft.no_grad():
                reads.append((x + y).max().item())
                return x * 1
        if kind == 8:
            if x[0].item() > 0.9 and number % 3 == 0:
                raise ArithmeticError(f"example {number}")
            return y
        if kind == 9 and not self.inner:
            steps = [(k % 9, a, b) for k, a, b in self.program[:4]]
            parts = weft.map(Example(steps, number, self.weights, True), range(3))
            return y + weft.stack([slots[-1] for _, _, slots in parts]).sum(0)
        return x[x > y].sum() + y


def observe(run: Callable[[], Any], weights: list[Any]) -> Any:
    """Everything that can be seen of a run, with the gradients apart."""
    weft.manual_seed(17)
    for weight in weights:
        weight.grad = None
    try:
        results = run()
    except ArithmeticError as error:
        return str(error), None, [], weft.rand(()).item()
    losses = [slots[-1].sum() for _, _, slots in results if slots[-1].requires_grad]
    if losses:
        weft.stack(losses).sum().backward()
    leaves = [*weights, *(leaf for leaf, _, _ in results)]
    values = [(reads, [x.tolist() for x in slots]) for _, reads, slots in results]
    return None, values, [x.grad for x in leaves], weft.rand(()).item()


def in_a_loop(function: Callable[[int], Any], count: int) -> list[Any]:
    """What `weft.map` is to be equal to, by its rule for random numbers."""
    generator = weft.random.default_generator
    before = tuple(generator.place())
    results, drawn = [], False
    try:
        for number in range(count):
            start = [stream_of_example(*before, number), 0]
            generator.place()[:] = start
            results.append(function(number))
            drawn = drawn or generator.place() != start
    finally:
        drawn = drawn or generator.place() != start
        generator.place()[:] = [before[0], before[1] + drawn]
    return results


@settings(max_examples=60, deadline=None)
@given(programs, st.integers(0, 5), st.integers(1, 9), st.sampled_from([1, 2, 3, None]))
def test_a_map_is_the_loop(program: Program, seed: int, count: int, at_most: int | None) -> None:
    weights = [
        weft.tensor([[0.5, -1.0, 0.25], [1.0, 0.3, -0.6], [0.1 * k, 0.7, 0.9]], dtype=weft.float64)
        for k in range(2)
    ]
    for weight in weights:
        weight.requires_grad_()
    function = Example(program, seed, weights, inner=False)
    expected = observe(lambda: in_a_loop(function, count), weights)
    found = observe(lambda: weft.map(function, range(count), at_most=at_most), weights)
    again = observe(lambda: weft.map(function, range(count), at_most=at_most), weights)
    assert found[0] == expected[0]
    assert repr(found[1]) == repr(expected[1])  # forward: bit for bit
    assert found[3] == expected[3]
    for one, other, same in zip(found[2], expected[2], again[2], strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)
            assert one.tolist() == same.tolist()
