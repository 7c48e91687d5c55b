"""Gangs: kernels of one code in one launch; who may join, what it costs in memory, that no bit depends on it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

import weft
from runtime_kernels import addresses, kernels
from weft import optim
from weft.debug import stages
from weft.engine.devices.cpu.executor import CpuExecutable
from weft.engine.devices.cpu.pool import reset_peak, stats
from weft.engine.devices.cpu.threads import get_num_threads, set_num_threads
from weft.engine.devices.cpu.tuning import TUNING
from weft.engine.pipeline import driver, horizontal_fusion
from weft.engine.runtime import executable_cache
from weft.errors import ArgumentError, VerificationError

HOUR = 3_600_000_000_000  # ns of claimed work: always shared out


@pytest.fixture(autouse=True)
def _settings() -> Iterator[None]:
    threads, groups = get_num_threads(), horizontal_fusion.set_horizontal_fusion(True)
    yield
    set_num_threads(threads)
    horizontal_fusion.set_horizontal_fusion(groups)


@contextmanager
def without_gangs() -> Iterator[None]:
    before = horizontal_fusion.set_horizontal_fusion(False)
    executable_cache.clear()
    try:
        yield
    finally:
        horizontal_fusion.set_horizontal_fusion(before)
        executable_cache.clear()


# -- the executor --------------------------------------------------------------------------------------------------


def joined_program(sizes: list[int], grain_size: int, work: int) -> CpuExecutable:
    """target += 1 over source, for several pairs of slots, in one launch."""
    program = CpuExecutable()
    for number, size in enumerate(sizes):
        pointers = [(2 * number, 0), (2 * number + 1, 0)]
        if number == 0:
            program.append(kernels()["add"], pointers, [1], size, grain_size, work)
        else:
            program.join(pointers, [1], size, grain_size + number, work)
    return program


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("work", [1, HOUR])
def test_members_are_all_run_once(threads: int, work: int) -> None:
    set_num_threads(threads)
    sizes = [5, 0, 1000, 1, 0, 37, 4096]
    arrays = [np.arange(size, dtype=np.float32) for size in sizes for _ in range(2)]
    program = joined_program(sizes, 4, work)
    assert len(program) == 1
    assert program.run(addresses(*arrays)) == 1
    for source, target in zip(arrays[::2], arrays[1::2], strict=True):
        assert (target == source + 1).all()


def test_joining_needs_a_launch_and_units_of_members_are_fixed() -> None:
    with pytest.raises(ArgumentError, match="a launch to join"):
        CpuExecutable().join([(0, 0)], [0], 1)
    program = joined_program([3, 4], 1, 1)
    with pytest.raises(ArgumentError):
        program.join([(0, 0)], [0], 1, 0)
    with pytest.raises(VerificationError, match="2 members"):
        program.patch_units(0, 5)


def test_what_is_appended_behind_a_gang_is_a_launch_of_its_own() -> None:
    program = joined_program([3, 4], 1, 1)
    program.append(kernels()["add"], [(1, 0), (4, 0)], [1], 3)
    program.join([(3, 0), (5, 0)], [1], 4)
    arrays = [np.arange(size, dtype=np.float32) for size in (3, 3, 4, 4, 3, 4)]
    assert program.run(addresses(*arrays)) == 2
    assert (arrays[4] == arrays[0] + 2).all() and (arrays[5] == arrays[2] + 2).all()


# -- who joins -----------------------------------------------------------------------------------------------------


def gangs_of(function: object) -> list[str]:
    return stages(function)["group"].splitlines()


def test_independent_kernels_of_one_code_join() -> None:
    values = [weft.randn(n, n) for n in (2, 3, 4)]
    found = gangs_of(lambda: [(x.exp() + 1).sqrt() for x in values])
    assert found == ["k0 x 3: exp add sqrt"]


def test_what_reads_another_member_stays_behind_it() -> None:
    x = weft.randn(4, 4)

    def chain() -> object:
        found = [x]
        for _ in range(3):
            found.append((found[-1] @ x).exp())
        return found

    assert gangs_of(chain) == []


def test_iterations_stay_side_by_side() -> None:
    """Each member of the second chain joins its twin of the first one, not the last kernel of its code."""
    values = [weft.randn(n, n) for n in (3, 5)]

    def iterated() -> object:
        found = []
        for x in values:
            y = x
            for _ in range(4):
                y = (y @ x).tanh()
            found.append(y)
        return found

    assert [line.split(":")[0] for line in gangs_of(iterated)] == [f"k{i} x 2" for i in range(8)]


def test_large_temporaries_do_not_join() -> None:
    rows = TUNING.horizontal.group_bytes // 4 // 64
    large = [weft.randn(rows, 64) for _ in range(3)]
    small = [weft.randn(rows // 2, 64) for _ in range(4)]
    weft.realize()
    assert gangs_of(lambda: [x.exp().T @ x for x in large]) == []
    found = gangs_of(lambda: [x.exp().T @ x for x in small])
    assert found == ["k0 x 2: exp", "k1 x 2: matmul", "k2 x 2: exp", "k3 x 2: matmul"]


def test_two_uses_of_a_layer_give_its_gradients_in_one_launch() -> None:
    model = weft.nn.Sequential(*[weft.nn.Linear(48, 48), weft.nn.ReLU()] * 2)
    x = weft.randn(200, 48)  # of few rows the two products would be one
    weft.realize()
    found = gangs_of(lambda: model(x).sum().backward())
    assert any("matmul" in line or "linear" in line for line in found)


def test_a_training_step_of_a_perceptron() -> None:
    """Forward, loss, gradients and the updates of six parameters: the events of one known program."""
    model = weft.nn.Sequential(
        weft.nn.Linear(64, 256),
        weft.nn.ReLU(),
        weft.nn.Linear(256, 256),
        weft.nn.ReLU(),
        weft.nn.Linear(256, 10),
    )
    optimizer = optim.AdamW(model.parameters())
    x, target = weft.randn(64, 64), weft.randint(0, 10, (64,))
    for _ in range(5):
        before = dict(driver.counters)
        loss = weft.nn.functional.cross_entropy(model(x), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    found = {key: driver.counters[key] - before[key] for key in before}
    assert found["flushes"] == 1
    assert found["nodes"] <= 144
    assert found["kernels"] <= 21
    assert found["launches"] <= 23


# -- what does not depend on it ------------------------------------------------------------------------------------


def trained(name: str, **options: object) -> list[np.ndarray]:
    weft.manual_seed(0)
    model = weft.nn.Sequential(weft.nn.Linear(7, 40), weft.nn.Tanh(), weft.nn.Linear(40, 3))
    given = [p for p in model.parameters() if name != "Muon" or p.ndim == 2]
    optimizer = getattr(optim, name)(given, **options)
    for _ in range(4):
        optimizer.zero_grad()
        loss = model(weft.randn(16, 7)).square().mean()
        loss.backward()
        weft.nn.utils.clip_grad_norm_(given, 1.0)
        optimizer.step()
    return [p.detach().numpy().copy() for p in model.parameters()]


@pytest.mark.parametrize("name", ["AdamW", "Adafactor", "Muon", "Rprop"])
def test_bits_do_not_depend_on_gangs_or_threads(name: str) -> None:
    expected = trained(name)
    set_num_threads(2)
    found = [trained(name)]
    with without_gangs():
        found.append(trained(name))
    with weft.eager():
        found.append(trained(name))
    for values in found:
        for one, other in zip(expected, values, strict=True):
            assert one.tobytes() == other.tobytes()


def trained_tables(size: int) -> list[np.ndarray]:
    """Tables with sparse gradients; the last two updates are of one table, which two gradients are added to."""
    weft.manual_seed(0)
    tables = [weft.nn.Embedding(size + n, 8, sparse=True) for n in range(4)]
    optimizer = optim.SparseAdam([p for table in tables for p in table.parameters()])
    for _ in range(3):
        optimizer.zero_grad()
        rows = weft.randint(0, size, (3,))
        sum(table(rows[: 1 + n % 3]).square().sum() for n, table in enumerate(tables)).backward()
        optimizer.step()
    base = tables[0].weight.detach()
    ones = weft.ones(3, 8)
    found = [base.index_add(0, rows, ones), base.index_add(0, rows.flip(0), ones), base[rows]]
    weft.realize(*found)
    return [value.detach().numpy().copy() for value in (*(t.weight for t in tables), *found)]


@pytest.mark.parametrize("size", [20, 5000])
def test_bits_of_tables_do_not_depend_on_gangs_or_threads(size: int) -> None:
    """Small ones are copied, large ones are written where they lie."""
    expected = trained_tables(size)
    set_num_threads(2)
    found = [trained_tables(size)]
    with without_gangs():
        found.append(trained_tables(size))
    with weft.eager():
        found.append(trained_tables(size))
    for values in found:
        for one, other in zip(expected, values, strict=True):
            assert one.tobytes() == other.tobytes()


def test_reads_and_writes_through_indices_join() -> None:
    tables, rows = [weft.randn(n, 4) for n in (5, 6, 7)], weft.tensor([3, 1])
    weft.realize(*tables, rows)
    found = gangs_of(lambda: [table.index_select(0, rows) for table in tables])
    assert found == ["k0 x 3: take"]
    found = gangs_of(lambda: [t.index_copy(0, rows, weft.ones(2, 4)) for t in tables])
    assert found == ["k0 x 3: take_put"]
    scores = weft.randn(2)
    weft.realize(scores)

    def unseen() -> object:
        """Whether these indices are in range is known when they are computed."""
        order = (scores > 0).long()
        return [table.index_select(0, order) for table in tables]

    assert gangs_of(unseen) == []


def peak_of_a_step(name: str) -> int:
    """Bytes beyond those that are in use before and after."""
    given = [weft.zeros(64, 64, requires_grad=True) for _ in range(24)]
    optimizer = getattr(optim, name)(given)
    for _ in range(5):
        for parameter in given:
            parameter.grad = weft.ones(64, 64)
        weft.realize()
        before = stats()["allocated"]
        reset_peak()
        optimizer.step()
    return stats()["peak"] - before


def test_an_update_needs_no_more_memory() -> None:
    found = peak_of_a_step("AdamW")
    with without_gangs():
        assert found <= peak_of_a_step("AdamW")


def test_what_members_leave_for_each_other_is_bounded() -> None:
    found = peak_of_a_step("Muon")
    with without_gangs():
        assert found <= peak_of_a_step("Muon") + 6 * TUNING.horizontal.group_bytes
