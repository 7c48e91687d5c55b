"""Walks that are known, and then one thing is changed: what is seen is what walks that nothing is known of show.

A random program runs several times, so that its walks are known; then it runs with some changes (a hook, a flag of a
leaf, a number, a cut, a read, a gradient that is there already, another way to walk), and again without. All of it runs
twice: once with every walk made anew.
"""

from __future__ import annotations

import contextlib
import gc
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import random_programs as programs
import weft
from weft.engine.backward.replay import known_walks
from weft.engine.frontend import recorder
from weft.engine.frontend.node_factory import count_live_nodes

QUICK = settings(
    derandomize=True,
    deadline=None,
    database=None,
    print_blob=False,
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(autouse=True)
def no_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class Program(programs.Machine):
    """A random program with places where something can be changed."""

    hooked: list[Any]

    def __init__(self, seed: int, example: int, leaves: list[Any] | None = None) -> None:
        super().__init__(weft, "float64", seed, example=example)
        self.hooked = []
        self.within: Any = contextlib.nullcontext()
        self.walk: Callable[[Any], None] = lambda total: total.backward(retain_graph=True)

    def carry_out(self, steps: list[programs.Step], place: int, change: Any) -> programs.Result:
        for number, step in enumerate(steps):
            if number == place % len(steps):
                change(self)
            self.step(step)
        totals = self.totals(3)
        with self.within:
            for total in totals:
                try:
                    self.walk(total)
                except (RuntimeError, ValueError, TypeError, IndexError) as error:
                    self.result.errors.append(programs.kind_of(error))
        for leaf in self.leaves:
            if leaf.grad is not None and leaf.grad.is_sparse:
                leaf.grad = leaf.grad.to_dense()
        result = self.observe(totals)
        result.values += [programs.array(g) for g in self.hooked if g is not None]
        return result

    def fall_apart(self) -> None:
        """Open the cycles that nothing collects, as in PyTorch: a gradient with a graph leads back to its leaf, a hook
        of a value that others are made of to the program that holds it."""
        for leaf in self.leaves:
            leaf.grad = None
        self.__dict__.clear()


Change = Callable[[Program, int], None]
CHANGES: list[Change] = []


def changing(function: Change) -> Change:
    CHANGES.append(function)
    return function


def slot(p: Program, number: int) -> Any:
    return p.slots[number % programs.SLOTS]


@changing
def other_leaves(p: Program, number: int) -> None:
    """Another leaf requires no gradient, or one more does."""
    for x in p.slots[number % programs.SLOTS :] + p.slots:
        if x.is_leaf:
            x.requires_grad_(not x.requires_grad)
            if not any(x is leaf for leaf in p.leaves):
                p.leaves.append(x)
            return


@changing
def a_hook(p: Program, number: int) -> None:
    x = slot(p, number)
    if x.requires_grad:
        x.register_hook(lambda g: p.hooked.append(g.detach()) or g * 2)


@changing
def a_hook_on_a_record(p: Program, number: int) -> None:
    x = slot(p, number)
    if x.grad_fn is not None:
        x.grad_fn.register_hook(
            lambda gi, go: p.hooked.extend(g.detach() for g in go if g is not None)
        )


@changing
def a_hook_after(p: Program, number: int) -> None:
    x = p.leaves[number % len(p.leaves)]
    if x.requires_grad:
        x.register_post_accumulate_grad_hook(lambda leaf: p.hooked.append(leaf.grad.clone()))


@changing
def kept_gradients(p: Program, number: int) -> None:
    x = slot(p, number)
    if x.requires_grad:
        x.retain_grad()
        p.leaves.append(x)


@changing
def a_cut(p: Program, number: int) -> None:
    p.slots[number % programs.SLOTS] = slot(p, number).detach()


@changing
def a_cut_leaf(p: Program, number: int) -> None:
    x = slot(p, number).detach().requires_grad_()
    p.slots[number % programs.SLOTS] = x
    p.leaves.append(x)


@changing
def a_number(p: Program, number: int) -> None:
    factor = (0.5, 0.0, -0.0, 1.0, 2.0, float("nan"), float("inf"), 3)[number % 8]
    p.slots[number % programs.SLOTS] = slot(p, number) * factor


@changing
def a_power(p: Program, number: int) -> None:
    p.slots[number % programs.SLOTS] = slot(p, number) ** ((1, 2, 3, 0, 2.0, 0.5)[number % 6])


@changing
def a_read(p: Program, number: int) -> None:
    slot(p, number).tolist()


@changing
def all_run(p: Program, number: int) -> None:
    weft.realize(*p.slots)


@changing
def a_function(p: Program, number: int) -> None:
    class Doubled(weft.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 3

    p.slots[number % programs.SLOTS] = Doubled.apply(slot(p, number))


@changing
def written_unseen(p: Program, number: int) -> None:
    """A value that a derivative may have saved is written to where nobody differentiates."""
    with weft.no_grad():
        slot(p, number).detach().mul_(2)


@changing
def written(p: Program, number: int) -> None:
    x = slot(p, number)
    if not x.is_leaf:
        with contextlib.suppress(RuntimeError):  # elements that lie in one place
            x.add_(1)


def preset(made: Callable[[Any], Any]) -> Change:
    def change(p: Program, number: int) -> None:
        for leaf in p.leaves[number % 2 :]:
            if leaf.requires_grad:
                leaf.grad = made(leaf)

    return change


CHANGES.append(preset(weft.ones_like))
CHANGES.append(preset(lambda leaf: weft.from_numpy(np.ones(tuple(leaf.shape)))))
CHANGES.append(
    preset(
        lambda leaf: weft.ones(*leaf.shape[::-1], dtype=leaf.dtype).permute(
            *range(leaf.dim())[::-1]
        )
    )
)
CHANGES.append(preset(lambda leaf: weft.ones((), dtype=leaf.dtype).expand(leaf.shape).exp()))
CHANGES.append(preset(lambda leaf: weft.ones_like(leaf).to_sparse()))


@changing
def mixed_leaves(p: Program, number: int) -> None:
    """The memory of a leaf lies otherwise."""
    for leaf in p.leaves:
        if leaf.dim() == 2 and leaf.is_leaf:
            leaf.data = leaf.detach().t().contiguous().t()


def walking(walk: Callable[[Program, Any], None]) -> Change:
    def change(p: Program, number: int) -> None:
        p.walk = lambda total: walk(p, total)

    CHANGES.append(change)
    return change


walking(lambda p, total: total.backward())
walking(lambda p, total: total.backward(create_graph=True))
walking(lambda p, total: (total.backward(retain_graph=True), total.backward()))
walking(lambda p, total: total.backward(weft.tensor(0.5, dtype=total.dtype), retain_graph=True))
walking(lambda p, total: (total * 1).reshape(1).backward(retain_graph=True))
walking(lambda p, total: total.backward(retain_graph=True, inputs=p.leaves[:1]))
walking(lambda p, total: weft.autograd.backward([total, total * 2], retain_graph=True))
walking(
    lambda p, total: p.hooked.extend(
        weft.autograd.grad(total, p.leaves, retain_graph=True, allow_unused=True)
    )
)
walking(lambda p, total: (total.backward(), total.backward()))


@walking
def _elsewhere(p: Program, total: Any) -> None:
    def job() -> None:
        with contextlib.suppress(RuntimeError):
            total.backward(retain_graph=True)

    thread = threading.Thread(target=job)
    thread.start()
    thread.join()


@walking
def _tight(p: Program, total: Any) -> None:
    previous = recorder.set_budget(2, 1 << 40)
    try:
        total.backward(retain_graph=True)
    finally:
        recorder.set_budget(*previous)


@walking
def _no_room(p: Program, total: Any) -> None:
    previous = recorder.set_budget(100_000, 64)
    try:
        total.backward(retain_graph=True)
    finally:
        recorder.set_budget(*previous)


@walking
def _with_others(p: Program, total: Any) -> None:
    """Something else is pending, of which a batch can be made."""
    weight = weft.ones(3, requires_grad=True, dtype=weft.float64)
    others = [(weight * float(n)).tanh() for n in range(5)]
    total.backward(retain_graph=True)
    p.hooked.append(weft.stack(others).detach())
    weft.stack(others).sum().backward()
    p.hooked.append(weight.grad)


def inside(make: Callable[[], Any]) -> None:
    def change(p: Program, number: int) -> None:
        p.within = make()

    CHANGES.append(change)


inside(weft.no_grad)
inside(weft.enable_grad)
inside(weft.autograd.detect_anomaly)
inside(weft.eager)
inside(lambda: weft.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t))
inside(weft.inference_mode)


def show(
    steps: list[programs.Step], seed: int, place: int, changes: list[list[tuple[int, int]]]
) -> list[programs.Result]:
    """The program as it is, three times, then changed, then as it is; for all changes."""
    known_walks.clear()
    shown = []
    example = 0
    for together in changes:
        for turn in range(5):
            example += 1

            def change(program: Program, made: Any = together if turn == 3 else ()) -> None:
                for kind, number in made:
                    CHANGES[kind % len(CHANGES)](program, number)

            program = Program(seed, example)
            shown.append(program.carry_out(steps, place, change))
            program.fall_apart()
    return shown


A_CHANGE = st.tuples(st.integers(0, len(CHANGES) - 1), st.integers(0, 99))


@settings(QUICK, max_examples=60)
@given(
    steps=programs.program_steps,
    seed=st.integers(0, 1000),
    place=st.integers(0, 17),
    changes=st.lists(st.lists(A_CHANGE, min_size=1, max_size=3), min_size=1, max_size=3),
)
def test_whatever_is_changed(
    steps: list[programs.Step], seed: int, place: int, changes: list[list[tuple[int, int]]]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(known_walks, "repeat", lambda *walk: None)
        expected = show(steps, seed, place, changes)
    result = show(steps, seed, place, changes)
    for one, other in zip(expected, result, strict=True):
        assert programs.differences(one, other, 0.0, 0.0) == []


def chain_of_layers(turns: int, nodes: int, known: bool) -> tuple[list[Any], int]:
    """The gradients that turns have added up, and how many walks were known; the last ones run within a budget."""
    known_walks.clear()
    before = known_walks.counters["hits"]
    weights = [programs_leaf(3 + i, 4 + i) for i in range(6)]
    for turn in range(turns):
        if not known:
            known_walks.clear()
        x = weft.full((2, 3), 0.1 * (turn + 1))
        hidden = []
        for weight in weights:
            x = (x @ weight).tanh()
            hidden.append(x)
        loss = sum(h.square().sum() for h in hidden)
        previous = recorder.set_budget(nodes if turn > 2 else 100_000, 1 << 40)
        try:
            loss.backward()
        finally:
            recorder.set_budget(*previous)
        weft.realize(loss, *[weight.grad for weight in weights])
    shown = [weight.grad.tolist() for weight in weights]
    return shown, known_walks.counters["hits"] - before


def programs_leaf(*shape: int) -> Any:
    values = np.random.default_rng(shape).standard_normal(shape).astype(np.float32)
    return weft.tensor(values, requires_grad=True)


@pytest.mark.parametrize("nodes", [0, 1, 2, 5, 20, 60])
def test_a_walk_that_runs_what_is_pending_in_between(nodes: int) -> None:
    """Adding to gradients records, and recording may run what there is: what later steps read is kept."""
    expected, _ = chain_of_layers(6, nodes, known=False)
    result, repeated = chain_of_layers(6, nodes, known=True)
    assert repeated >= 4
    assert result == expected


def test_nothing_is_kept_alive() -> None:
    """Neither leaves nor their memory, nor what was computed."""
    known_walks.clear()
    leaf = programs_leaf(30, 20)
    for _ in range(4):
        leaf.grad = None
        hidden = leaf.tanh()
        loss = (hidden * leaf).exp().sum()
        before = known_walks.counters["hits"]
        loss.backward()
    assert known_walks.counters["hits"] > before
    leaf.grad.tolist()
    gone = [weakref.ref(leaf), weakref.ref(leaf.grad)]
    nodes = count_live_nodes()
    del leaf, hidden, loss
    gc.collect()
    assert [reference() for reference in gone] == [None] * 2
    assert count_live_nodes() < nodes


def test_threads_walk_over_graphs_of_their_own() -> None:
    """Equal graphs in several threads at once: each leaf gets the gradient of its own thread."""
    found: dict[int, list[Any]] = {}

    def work(number: int) -> None:
        leaf = weft.tensor([1.0, 2.0, float(number)], requires_grad=True)
        for _ in range(30):
            leaf.grad = None
            (leaf.exp() * leaf).sum().backward()
            found.setdefault(number, []).append(leaf.grad.tolist())

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(4):
        x = np.array([1.0, 2.0, number], np.float32)
        for gradient in found[number]:
            assert np.allclose(gradient, np.exp(x) * (1 + x), rtol=1e-5)
