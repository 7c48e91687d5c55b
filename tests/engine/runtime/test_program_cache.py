"""Known programs and bounded kernels: what is recognised, what it takes for granted, how much is compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft.config import config
from weft.debug import stages
from weft.engine.devices.cpu.jit import compiler
from weft.engine.devices.cpu.tuning import TUNING
from weft.engine.ir.tape import tape
from weft.engine.runtime import executable_cache
from weft.nn import functional
from weft.testing.tuned import unfused


@pytest.fixture(autouse=True)
def from_the_start(verified: None, known_soon: None) -> None:
    weft.realize()
    executable_cache.clear()


def hits(run: Callable[[], object]) -> int:
    """How many known programs a function runs."""
    before = executable_cache.counters["hits"]
    run()
    return int(executable_cache.counters["hits"] - before)


def chain(x: Any) -> Any:
    return ((x * 2 + 1).tanh() - x).square().sum(0)


def read(values: Any) -> None:
    chain(weft.tensor(values)).tolist()


# -- recognising -----------------------------------------------------------------------------------


def test_a_program_is_known_when_it_has_come_often_enough_and_gives_the_same_bits() -> None:
    values = np.random.default_rng(0).standard_normal((7, 5)).astype(np.float32)
    found = []
    counts = [hits(lambda: found.append(chain(weft.tensor(values)).tolist())) for _ in range(8)]
    assert counts[0] == 0 and counts[-1] == 1
    config.cache = False
    try:
        found.append(chain(weft.tensor(values)).tolist())
    finally:
        config.cache = True
    assert all(value == found[0] for value in found)


def test_a_known_program_reads_its_own_inputs_each_time() -> None:
    for turn in range(8):
        values = np.full((3, 2), turn / 10, np.float32)
        expected = ((np.tanh(values * 2 + 1) - values) ** 2).sum(0)
        assert chain(weft.tensor(values)).tolist() == pytest.approx(expected.tolist(), rel=1e-5)


def test_what_is_kept_alive_is_part_of_the_structure() -> None:
    def run(keep: bool) -> tuple[list[float], list[float]]:
        x = weft.arange(4.0) * 1
        middle = x + 1
        y = middle * 3
        if not keep:
            del middle
        result = y.tolist()
        return result, middle.tolist() if keep else []

    for _ in range(5):
        assert run(False) == ([3, 6, 9, 12], [])
    for _ in range(5):
        assert run(True) == ([3, 6, 9, 12], [1, 2, 3, 4])


def test_which_values_are_the_same_is_part_of_the_structure() -> None:
    a, b = weft.tensor([1.0, 2.0]), weft.tensor([10.0, 20.0])
    for _ in range(5):
        assert (a * a + b).tolist() == [11, 24]
    for _ in range(5):
        assert (a * b + a).tolist() == [11, 42]
    for _ in range(5):
        assert (a * b + b).tolist() == [20, 60]


def test_the_layout_of_what_is_read_is_part_of_the_structure() -> None:
    base = weft.arange(6.0).reshape(2, 3).clone()
    weft.realize(base)
    for _ in range(5):
        assert (base.reshape(3, 2) + 1).tolist() == [[1, 2], [3, 4], [5, 6]]
        assert (base.t() + 1).tolist() == [[1, 4], [2, 5], [3, 6]]
        assert (base[:, 1:] + 1).tolist() == [[2, 3], [5, 6]]


@pytest.mark.parametrize("other", [weft.float64, weft.int32])
def test_dtypes_are_part_of_the_structure(other: Any) -> None:
    for dtype in (weft.float32, other) * 4:
        x = weft.tensor([1, 2], dtype=dtype)
        y = x * 3 + x
        assert (y.dtype, y.tolist()) == (dtype, [4, 8])


def test_a_write_in_place_is_refused_to_a_known_program_when_somebody_else_looks() -> None:
    def step(x: Any) -> Any:
        x[1:3] = x[0:2] * 2
        return x.tolist()

    for _ in range(6):
        assert step(weft.tensor([1.0, 2.0, 3.0])) == [1, 2, 4]
    x = weft.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = x * 1
    product = (y * y).sum()  # has saved y
    weft.realize(product)
    with weft.no_grad():
        assert step(y) == [1, 2, 4]
    product.backward()
    assert x.grad.tolist() == [2, 4, 6]


# -- bounded variety -------------------------------------------------------------------------------


def test_kernels_do_not_depend_on_sizes() -> None:
    for size in (2, 3, 5, 7, 16, 33):
        read(np.ones((size, 4), np.float32))
    before = compiler().counters.compilations + compiler().counters.disk_hits
    for size in (6, 12, 29, 64, 100, 257):
        read(np.ones((size, 9), np.float32))
    assert compiler().counters.compilations + compiler().counters.disk_hits == before


def recipe(number: int, x: Any) -> Any:
    """One of many elementwise chains: the digits choose the operations."""
    for digit in f"{number:04d}":
        x = (x.sin, x.cos, x.tanh, x.abs, x.neg, x.exp, x.sqrt, x.square, x.relu, x.sigmoid)[
            int(digit)
        ]()
    return x


def test_a_novel_structure_runs_as_single_operations_until_it_comes_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    x = weft.ones(10)
    weft.realize(x)
    with weft.explaining("schedule"):
        recipe(9041, x).tolist()
        first = capsys.readouterr().err
        recipe(9041, x).tolist()
        second = capsys.readouterr().err
    assert "taken apart until it comes again: sigmoid sin neg cos" in first
    assert "compiled now" not in first
    assert second.count("compiled now: ") == 1 and "taken apart" not in second


@pytest.mark.parametrize(
    "size, turns", [(10, TUNING.tiering.uses), (TUNING.tiering.medium_elements // 4, 2)]
)
def test_where_programs_differ_a_structure_comes_several_times_first(
    size: int, turns: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Twice, if its operations alone would take long."""
    number = 8032 if size == 10 else 8023
    x = weft.linspace(0.1, 1, size)
    weft.realize(x)
    compiled = []
    with weft.explaining("schedule"):
        for turn in range(turns + 1):
            weft.realize(recipe(number, x), weft.ones(size + 1 + turn) + 1)
            compiled.append("compiled now: relu" in capsys.readouterr().err)
    assert compiled == [False] * (turns - 1) + [True, False]


def test_what_takes_longer_than_the_compiler_is_compiled_at_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    numbers = [3817 + 41 * i for i in range(TUNING.tiering.new_kernels_of_a_flush + 2)]
    with weft.explaining("schedule"):
        short = [recipe(n, weft.linspace(0.1, 1, 10 + i)) for i, n in enumerate(numbers)]
        weft.realize(*short, recipe(5094, weft.ones(TUNING.tiering.long_elements // 4)).sum())
    lines = [line for line in capsys.readouterr().err.splitlines() if "compiled now" in line]
    assert len(lines) == 1 and "neg_sum" in lines[0]


def test_one_flush_compiles_a_bounded_number_of_new_kernels(
    capsys: pytest.CaptureFixture[str],
) -> None:
    x = weft.linspace(0.1, 1, 10)
    numbers = [7310 + 37 * i for i in range(30)]
    expected = str([recipe(number, x).tolist() for number in numbers])  # text: nan is nan there
    counts = []
    with weft.explaining("schedule"):
        for _ in range(4):
            # values of different shapes, so that the chains do not fuse with each other
            results = [recipe(n, weft.linspace(0.1, 1, 10 + i)) for i, n in enumerate(numbers)]
            weft.realize(*results)
            counts.append(capsys.readouterr().err.count("compiled now: "))
    most = TUNING.tiering.new_kernels_of_a_flush
    assert max(counts) <= most
    assert most < sum(counts) <= len(numbers)  # more than one flush compiles, each chain once
    assert str([recipe(number, x).tolist() for number in numbers]) == expected


def test_a_long_chain_is_cut_into_bounded_kernels() -> None:
    def run() -> Any:
        x = weft.ones(5)
        for _ in range(100):
            x = x * 1.01
        return x

    lines = [line for line in stages(run)["fuse"].splitlines() if "mul" in line]
    assert 3 < len(lines) < 10
    assert all(line.split("->")[0].count("mul") <= TUNING.fusion.most_nodes for line in lines)


def test_a_sum_and_the_derivatives_of_what_is_summed_are_one_kernel() -> None:
    """A chain that opens later joins the reduction that it goes on from."""
    x = weft.linspace(-3, 3, 5000).clone().requires_grad_()

    def step() -> Any:
        x.grad = None
        (0.5 * x * (1 + (0.8 * (x + 0.044715 * x**3)).tanh())).sum().backward()
        return x.grad

    assert stages(step)["fuse"].count("\n") == 0
    with unfused():
        expected = step().tolist()
    assert step().tolist() == expected


def test_a_normalised_loss_keeps_three_values_of_its_size() -> None:
    """The rows go forward and back in one kernel, which leaves what is summed over examples, and the gradient."""
    x, weight = weft.randn(100, 120).requires_grad_(), weft.randn(120).requires_grad_()
    target = weft.arange(100)

    def step() -> Any:
        x.grad = weight.grad = None
        normed = functional.layer_norm(x, (120,), weight, weight)
        functional.cross_entropy(normed, target).backward()
        return x.grad, weight.grad

    texts = stages(step)
    assert texts["plan"].count("[100, 120]") == 3
    assert texts["fuse"].count("[100, 120]") == 3 + 2
    with unfused():
        expected = [gradient.tolist() for gradient in step()]
    assert [gradient.tolist() for gradient in step()] == expected


def test_a_novel_program_leaves_nothing_on_the_tape() -> None:
    recipe(5318, weft.ones(3)).tolist()
    assert tape().count == 0


def test_a_step_with_batches_and_checked_indices_is_known() -> None:
    table = weft.ones(5, 4, requires_grad=True)
    weight = weft.ones(4, 4, requires_grad=True)

    def step() -> None:
        table.grad = weight.grad = None
        rows = weft.nn.functional.embedding(weft.tensor([0, 3, 3, 1]), table)
        losses = [(row @ weight).tanh().sum() for row in rows]
        weft.stack(losses).mean().backward()
        weft.realize()

    assert [hits(step) for _ in range(8)][-1] >= 1
    assert table.grad is not None and table.grad[4].tolist() == [0, 0, 0, 0]


def test_updates_of_an_optimizer_form_no_batches() -> None:
    params = [weft.ones(8, requires_grad=True) for _ in range(12)]
    optimizer = weft.optim.AdamW(params, lr=0.1)
    weft.stack([(p * p).sum() for p in params]).sum().backward()
    weft.realize()
    text = stages(optimizer.step)
    assert not text["batch"]
    assert len({tuple(p.tolist()) for p in params}) == 1
