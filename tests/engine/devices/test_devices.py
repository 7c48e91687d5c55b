"""Devices: passes ask the record of the one that they schedule for, and two devices' nodes never meet but in a copy.

The second device is a stand-in: the CPU's own memory, queue and lowerer under another number.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import weft
from weft.debug import stages
from weft.engine.devices import api
from weft.engine.devices.cpu.device import CPU, CpuDevice
from weft.engine.devices.cpu.host_memory import HostMemory
from weft.engine.devices.tuning import replaced
from weft.engine.frontend.resolve import value_of
from weft.engine.frontend.transfer import copy_to
from weft.engine.ir.tape import tape
from weft.engine.pipeline import driver
from weft.engine.pipeline.batching import batch
from weft.engine.pipeline.fingerprint import fingerprint_of
from weft.engine.pipeline.partition import partition
from weft.engine.runtime import executable_cache
from weft.ops.registry import OPS
from weft.testing.tuned import tuned


@pytest.fixture
def other() -> Iterator[Any]:
    """A second device, as long as a test takes."""
    driver.flush()
    device = CpuDevice("stand-in", CPU.capabilities, CPU.tuning, HostMemory())
    yield device
    driver.flush()
    executable_cache.clear()
    api.withdraw(device)


def on(device: Any, tensor: Any) -> Any:
    return copy_to(device, tensor, OPS["clone"])


def test_a_record_of_thresholds_cannot_be_written_to() -> None:
    with pytest.raises(AttributeError):
        CPU.tuning.batching.fewest_rows = 1
    with pytest.raises(TypeError):
        replaced(CPU.tuning.batching, unknown=1)


def test_passes_read_the_record_that_is_there() -> None:
    x = weft.linspace(0, 1, 11)
    weft.realize(x)
    assert len(stages(lambda: x.exp().sin())["fuse"].splitlines()) == 1
    with tuned("fusion", most_nodes=1):
        assert len(stages(lambda: x.exp().sin())["fuse"].splitlines()) == 2
    assert len(stages(lambda: x.exp().sin())["fuse"].splitlines()) == 1


def test_values_know_their_device(other: Any) -> None:
    x = weft.ones(3)
    moved = on(other, x)
    assert (str(x.device), str(moved.device)) == ("cpu", "stand-in")
    assert str((moved * 2 + 1).sum().device) == "stand-in"
    assert str((x * 2).device) == "cpu"
    weft.realize(moved)
    assert value_of(moved).buffer.device == other.number and value_of(x).buffer.device == 0


def test_a_value_goes_to_another_device_and_back(other: Any) -> None:
    x = weft.arange(12.0).reshape(3, 4)
    there = on(other, x.mT * 2) + 1
    back = on(CPU, there.exp()) - 1
    expected = ((x.mT * 2) + 1).exp() - 1
    assert back.tolist() == expected.tolist()


def test_a_flush_is_parted_by_device(other: Any) -> None:
    x = weft.linspace(0, 1, 5)
    weft.realize(x)
    before = x.exp()
    there = on(other, before).sin()
    after = on(CPU, there).cos() + before
    parts = partition(tape().pending())
    assert [(part.device, part.copies) for part in parts] == [
        (0, False), (other.number, True), (other.number, False), (0, True), (0, False),
    ]  # fmt: skip
    for part in parts:
        assert {node.device for node in part.nodes} == {part.device}
    assert after.tolist() == (x.exp().sin().cos() + x.exp()).tolist()


def test_what_two_devices_do_is_not_one_kernel(other: Any) -> None:
    x = weft.linspace(0, 1, 5)
    y = on(other, x)
    weft.realize(x, y)
    before = dict(driver.counters)
    here, there = x.exp().sin(), y.exp().sin()
    weft.realize(here, there)
    after = dict(driver.counters)
    assert after["flushes"] - before["flushes"] == 2
    assert here.tolist() == there.tolist()


def test_equal_nodes_of_two_devices_are_no_batch(other: Any) -> None:
    w = weft.ones(4, 4)
    rows = [weft.ones(1, 4) * i for i in range(6)]
    moved, there = on(other, w), [on(other, row) for row in rows]
    weft.realize(w, moved, *rows, *there)
    results = [row @ w for row in rows] + [row @ moved for row in there]
    batch.group(tape().pending())
    quotients = {id(q): q for q in (value_of(r).quotient for r in results) if q is not None}
    assert sorted(q.device for q in quotients.values()) == [0, other.number]
    assert all(q.shape[0] == 6 for q in quotients.values())
    assert [r.tolist() for r in results[:6]] == [r.tolist() for r in results[6:]]


def test_a_program_is_known_for_its_device_alone(other: Any) -> None:
    x = weft.linspace(0, 1, 5)
    y = on(other, x)
    weft.realize(x, y)
    hashes = []
    for tensor in (x, y, x):
        result = tensor.exp()
        hashes.append(fingerprint_of(tape().pending()).key.hash)
        weft.realize(result)
    assert hashes[0] == hashes[2] != hashes[1]


def test_a_failure_on_one_device_fails_what_reads_it_on_the_other(other: Any) -> None:
    index = on(other, weft.full((2,), 9))
    table = on(other, weft.arange(4.0))
    weft.realize(index, table)
    failed = weft.take(table, (index * 1).long())
    copied, apart = on(CPU, failed) + 1, on(CPU, table.exp())
    with pytest.raises(IndexError):
        copied.tolist()
    assert apart.tolist() == weft.arange(4.0).exp().tolist()


def test_no_device_is_forgotten_that_others_follow(other: Any) -> None:
    with pytest.raises(AssertionError):
        api.withdraw(CPU)
