"""Results in memory of operands: the same bits, less memory, and concatenations that copy nothing."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from weft.config import config
from weft.engine.devices.cpu import pool
from weft.engine.pipeline.budget import coalesce, economy, verify_layout
from weft.engine.pipeline.budget.layout import ArenaLayout, laid_out
from weft.engine.runtime import executable_cache
from weft.errors import VerificationError
from weft.nn.functional import layer_norm

pytestmark = pytest.mark.skipif(
    bool(config.guard) or not config.cache,
    reason="each value has memory of its own, or none is known",
)
WIDTH = 32
CHOICES = st.lists(st.tuples(*[st.integers(0, 99)] * 4), min_size=3, max_size=25)
Leaves = list[weft.Tensor]


@pytest.fixture(autouse=True)
def no_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradients are added in one order, whatever has come before."""
    monkeypatch.setattr(config, "batch", False)


@contextmanager
def small_arenas() -> Iterator[list[ArenaLayout]]:
    """Programs of any size that come again have arenas; these, as they are made."""
    made: list[ArenaLayout] = []

    def noted(*arguments: Any) -> ArenaLayout:
        made.append(laid_out(*arguments))
        return made[-1]

    with pytest.MonkeyPatch.context() as patch:
        for name in ("LEAST_BYTES", "LEAST_BYTES_OF_A_KERNEL"):
            patch.setattr(economy, name, 0)
        patch.setattr(coalesce, "LEAST_BYTES", 0)
        patch.setattr(economy, "laid_out", noted)
        executable_cache.clear()
        yield made


@contextmanager
def apart() -> Iterator[None]:
    """Nothing is joined."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(coalesce, "MOST_TOGETHER", 0)
        yield


def leaves() -> Leaves:
    weft.manual_seed(0)
    found = [weft.randn(8, WIDTH, requires_grad=True) for _ in range(3)]
    return [*found, weft.randn(WIDTH, WIDTH, requires_grad=True)]


def normed(kind: int, x: weft.Tensor) -> weft.Tensor:
    """Rows by what is known of each as a whole."""
    if kind == 7:
        return x.softmax(1) * 3.0
    if kind == 8:
        return layer_norm(x * 2.0, (WIDTH,)) + x.softmax(1)
    if kind == 9:
        return (x - x.softmax(1).exp().sum(1, keepdim=True)).log_softmax(1)
    return x / (x.square().mean(1, keepdim=True) + 0.1).sqrt() * x.amax(1, keepdim=True)


def loss_of(choices: list[tuple[int, ...]], inputs: Leaves) -> weft.Tensor:
    """Rows that are moved, joined and cut, added up in the end."""
    *rows, weight = inputs
    for kind, first, second, third in choices:
        x, y = rows[first % len(rows)], rows[second % len(rows)]
        if kind % 11 == 0:
            rows.append(x.tanh() * 0.5)
        elif kind % 11 == 1:
            rows.append((x.exp() * x).clamp(-2.0, 2.0))
        elif kind % 11 == 2 and x.shape == y.shape:
            rows.append(x * y + x.sigmoid())
        elif kind % 11 == 3 and len(x) + len(y) <= 64:
            rows.append(weft.cat([x, y, x][: 2 + third % 2]))
        elif kind % 11 == 4:
            begin = third % len(x)
            rows.append(x[begin : begin + 4].sin() + 1.0)
        elif kind % 11 == 5:
            rows.append(x - x.mean(0))
        elif kind % 11 == 6:
            rows.append(x @ weight * 0.1)
        else:
            rows.append(normed(kind % 11, x))
    return sum([row.square().mean() for row in rows[-6:]], weft.zeros(()))


def bits(choices: list[tuple[int, ...]], inputs: Leaves) -> list[bytes]:
    """The bits of a loss and of its gradients."""
    for leaf in inputs:
        leaf.grad = None
    loss = loss_of(choices, inputs)
    loss.backward()
    weft.realize()
    found = [leaf.grad.numpy().tobytes() for leaf in inputs if leaf.grad is not None]
    return [loss.detach().numpy().tobytes(), *found]


@settings(max_examples=60, deadline=None)
@given(CHOICES)
def test_the_bits_are_those_of_values_apart(choices: list[tuple[int, ...]]) -> None:
    """In each of three runs, the later ones in arenas; the layouts stand before their verifier."""
    inputs = leaves()
    with small_arenas(), apart():
        expected = [bits(choices, inputs) for _ in range(3)]
    with small_arenas(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(config, "verify", True)
        assert [bits(choices, inputs) for _ in range(3)] == expected


@settings(max_examples=30, deadline=None)
@given(CHOICES, st.floats(0.3, 1.0))
def test_the_bits_are_the_same_under_a_budget(choices: list[tuple[int, ...]], share: float) -> None:
    """What does not fit is refused, and nothing else happens."""
    inputs = leaves()
    expected: list[list[bytes]] = []
    whole = peak_of(lambda: expected.append(bits(choices, inputs)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(config, "verify", True)
        patch.setattr(coalesce, "LEAST_BYTES", 0)
        live = pool.stats()["allocated"]
        with weft.memory_budget(live + int((whole - live) * share) + (1 << 15)):
            try:
                assert bits(choices, inputs) == expected[0]
            except weft.OutOfMemoryError:
                weft.set_memory_budget(None)


def peak_of(step: Callable[[], object]) -> int:
    """The most bytes that are live in a step."""
    gc.collect()
    pool.reset_peak()
    step()
    return pool.stats()["peak"]


def layout_of(step: Callable[[], object]) -> ArenaLayout:
    """The layout of a step that has come before."""
    with small_arenas() as made:
        for _ in range(3):
            step()
    return made[-1]


def same_bits(computed: Callable[[], weft.Tensor]) -> ArenaLayout:
    """The layout of a computation, which has the bits that it has where nothing is joined."""
    found = []
    layout = layout_of(lambda: found.append(computed().numpy().tobytes()))
    with apart():
        layout_of(lambda: found.append(computed().numpy().tobytes()))
    assert len(set(found)) == 1
    return layout


def test_a_concatenation_of_what_ends_copies_nothing() -> None:
    x, weight, narrow = weft.randn(16, 512), weft.randn(512, 512), weft.randn(512, 8)
    weft.realize()

    def joined() -> weft.Tensor:
        parts = [x @ weight]
        for _ in range(3):
            parts.append(parts[-1].tanh() @ weight)
        return (weft.cat(parts) @ narrow).sum()

    layout = same_bits(joined)
    assert layout.elided == 1
    value = 16 * 512 * 4
    assert layout.arena < 6 * value  # the parts are in it, not beside it


def test_parts_that_are_read_later_lie_in_their_concatenation() -> None:
    """Both have the same bytes; one that is written over before the other ends has its own."""
    x, weight = weft.randn(16, 512), weft.randn(512, 512)
    weft.realize()

    def joined() -> weft.Tensor:
        parts = [x @ weight]
        for _ in range(3):
            parts.append(parts[-1].tanh() @ weight)
        state = (weft.cat(parts) @ weight).sum() * x
        for part in parts:
            state = (state * part) @ weight
        return state

    assert same_bits(joined).elided == 1


def test_a_sum_and_its_addend_share_memory() -> None:
    """An elementwise result takes the place of the operand that it is the last to read: also a region's."""
    x, weight = weft.randn(64, 512), weft.randn(512, 512)
    weft.realize()

    def recurrent() -> weft.Tensor:
        projected = x @ weight
        state = weft.zeros(8, 512)
        for n in range(8):
            state = (projected[8 * n : 8 * n + 8] + state @ weight * 0.01).tanh()
        return state

    held = same_bits(recurrent).coalescing.held
    assert sum(held.values()) >= 7


def test_the_verifier_refuses_a_result_beside_its_place() -> None:
    """A layout in which an operand's bytes are not its own any more when they are read."""
    x, weight = weft.randn(16, 512), weft.randn(512, 512)
    weft.realize()
    found: list[bool] = []
    verify = verify_layout.verify

    def spoiled(lowering: Any) -> None:
        verify(lowering)
        layout = lowering.layout
        if layout is None:
            return
        kept = layout.offsets
        layout.offsets = [min(offset, 0) for offset in kept]
        with pytest.raises(VerificationError):
            verify(lowering)
        layout.offsets = kept
        found.append(True)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(config, "verify", True)
        patch.setattr(verify_layout, "verify", spoiled)
        layout_of(lambda: ((x @ weight) @ weight + (x @ weight.T)).sum().item())
    assert found


def test_a_norm_takes_the_place_of_its_operand() -> None:
    """A row kernel reads a row before it stores it, phase by phase."""
    x, weight = weft.randn(64, 512), weft.randn(512, 512)
    weft.realize()

    def normed() -> weft.Tensor:
        state = x @ weight
        for _ in range(3):
            state = layer_norm(state, (512,)).softmax(1) @ weight
        return state.sum()

    held = same_bits(normed).coalescing.held
    assert sum(held.values()) >= 3


def test_a_row_that_is_read_behind_a_store_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """The verifier knows of phases: it refuses a result in place of what a later phase reads."""
    x, weight = weft.randn(64, 512), weft.randn(512, 512)
    weft.realize()

    def kept() -> weft.Tensor:
        state = x @ weight
        moved = state - state.mean(1, keepdim=True)
        spread = moved.square().mean(1, keepdim=True)
        return ((moved @ weight) * (moved / (spread + state.exp()))).sum()

    same_bits(kept)
    monkeypatch.setattr(
        config, "verify", True
    )  # and what follows, as if each row were read at first
    monkeypatch.setattr(coalesce, "phases_of", lambda kernel: ({}, {}))
    with pytest.raises(VerificationError):
        layout_of(lambda: kept().item())
