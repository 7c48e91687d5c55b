"""When work happens: nothing in the background, at which calls, what fails with what, which thread runs it."""

from __future__ import annotations

import copy
import os
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft.engine.frontend.resolve import value_of
from weft.engine.ir.node import DONE_STATE, FAILED_STATE, PENDING_STATE
from weft.engine.ir.tape import tape
from weft.engine.pipeline import driver


def state(tensor: Any) -> int:
    return int(value_of(tensor).state)


# -- at which calls --------------------------------------------------------------------------------


def test_nothing_runs_in_the_background() -> None:
    x = weft.ones(100_000) + 1
    y = x.sum()
    time.sleep(0.05)
    assert state(x) == state(y) == PENDING_STATE


READS: dict[str, Callable[[Any], object]] = {
    "item": lambda y: y[0].item(),
    "numpy": lambda y: y.numpy(),
    "print": lambda y: repr(y),
    "bool": lambda y: bool(y[0]),
    "float": lambda y: float(y[0]),
    "tolist": lambda y: y.tolist(),
    "DLPack": lambda y: np.from_dlpack(y),
    "numpy.asarray": lambda y: np.asarray(y),
    "realize": lambda y: weft.realize(y),
    "iteration over values": lambda y: [int(v) for v in y],
    "deepcopy": lambda y: copy.deepcopy(y).tolist(),
}


@pytest.mark.parametrize("name", READS)
def test_reading_runs_what_is_pending(name: str) -> None:
    y = weft.arange(3) + 1
    assert state(y) == PENDING_STATE
    READS[name](y)
    assert state(y) == DONE_STATE
    assert y.tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    "call",
    [
        lambda y: y.shape,
        lambda y: y.stride(),
        lambda y: y.dtype,
        lambda y: len(y),
        lambda y: y.requires_grad,
        lambda y: y[1:].t(),
        lambda y: y.sum().backward(),
        lambda y: y.detach().zero_(),
        lambda y: list(y),
        lambda y: y.grad_fn.name(),
    ],
)
def test_asking_for_anything_but_a_value_runs_nothing(call: Callable[[Any], object]) -> None:
    y = weft.ones(3, requires_grad=True) * 2
    call(y)
    assert state(y) == PENDING_STATE


def test_a_step_of_an_optimizer_runs_what_is_pending() -> None:
    x = weft.ones(3, requires_grad=True)
    loss = (x * 2).sum()
    loss.backward()
    weft.optim.SGD([x], lr=0.5).step()
    assert state(loss) == state(x) == DONE_STATE
    assert x.tolist() == [0, 0, 0]


def test_a_read_runs_all_that_is_live_and_nothing_twice() -> None:
    x = weft.ones(4)
    metric = (x * 2).sum()
    other = x + 1
    other.tolist()
    assert state(metric) == DONE_STATE
    before = driver.counters["flushes"]
    metric.item()
    other.tolist()
    assert driver.counters["flushes"] == before


def test_the_cost_of_a_flush_is_what_is_newly_pending() -> None:
    kept = [weft.ones(2) * float(i) for i in range(2000)]
    weft.realize()
    before = driver.counters["nodes"]
    y = kept[0] + kept[1]
    weft.realize(y)
    assert driver.counters["nodes"] - before <= 2


def test_observing_a_value_changes_no_bits() -> None:
    def run(look: bool) -> Any:
        x = weft.linspace(-3, 3, 1000)
        y = (x.sin() * 1.7 + x).exp()
        if look:
            y.tolist()
        z = (y / (1 + y)).sum()
        return z.item()

    assert run(False) == run(True)


# -- errors ----------------------------------------------------------------------------------------


def table_read(index: int) -> Any:
    """A read out of a table of three rows; whether the index is right is known when it runs."""
    return weft.ones(3, 2).index_select(0, weft.tensor([index - 1]) + 1)


def test_what_can_be_known_at_the_call_raises_there_and_leaves_nothing_behind() -> None:
    weft.realize()
    before = tape().count
    with pytest.raises(RuntimeError, match="(?s)expected.*got.*fix"):
        weft.ones(2, 3) @ weft.ones(4, 5)
    assert tape().count <= before + 2


def test_a_failure_reaches_its_descendants_only_and_names_the_recording_line() -> None:
    fine = weft.ones(2) * 3
    bad = table_read(7)
    child = bad * 2 + fine.sum()
    also_fine = fine + 1
    assert also_fine.tolist() == [4, 4]
    for failed in (bad, child, child.sum()):
        with pytest.raises(
            IndexError, match="(?s)index out of range in self.*in table_read.*fix"
        ) as caught:
            failed.tolist()
        assert "test_when_work_runs.py:" in str(caught.value)
    assert fine.tolist() == [3, 3]
    assert state(bad) == state(child) == FAILED_STATE


def test_what_is_recorded_on_a_failed_value_later_fails_with_the_same_error() -> None:
    bad = table_read(-9)
    with pytest.raises(IndexError):
        bad.tolist()
    later = (bad + 1).exp()
    fine = weft.ones(2) + 1
    assert fine.tolist() == [2, 2]
    with pytest.raises(IndexError, match="in table_read"):
        later.tolist()


def test_a_failure_in_a_known_program_poisons_as_in_the_first_run() -> None:
    def run(index: int) -> tuple[Any, Any]:
        return table_read(index) * 2, weft.full((2,), float(index)) + 1

    for index in (0, 1, 2, 1):
        good, other = run(index)
        assert (good.tolist(), other.tolist()) == ([[2, 2]], [index + 1] * 2)
    for index in (5, 1, -4, 2):
        result, other = run(index)
        assert other.tolist() == [index + 1] * 2
        if 0 <= index < 3:
            assert result.tolist() == [[2, 2]]
        else:
            with pytest.raises(IndexError, match="in table_read"):
                result.tolist()


def test_a_gradient_through_a_failed_value_fails_and_the_others_do_not() -> None:
    x = weft.ones(2, requires_grad=True)
    y = weft.ones(2, requires_grad=True)
    ((table_read(5) * x).sum() + (y * 3).sum()).backward()
    assert y.grad.tolist() == [3, 3]
    with pytest.raises(IndexError, match="in table_read"):
        x.grad.tolist()
    x.grad = None
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2, 2]


def test_in_eager_mode_a_failure_raises_at_the_call() -> None:
    with weft.eager(), pytest.raises(IndexError, match="index out of range in self"):
        table_read(7).sum().item()


def test_running_out_of_memory_leaves_everything_as_it_was() -> None:
    x = weft.ones(4)
    fine = x + 1
    for make in (
        weft.rand,
        weft.zeros,
        weft.empty,
        weft.arange,
        weft.eye,
        lambda n: weft.full((n,), 2),
    ):
        size = 1 << 44 if make is not weft.eye else 1 << 22
        with pytest.raises(MemoryError, match="(?s)test_when_work_runs.py.*expected.*got.*fix"):
            make(size)
    assert fine.tolist() == [2, 2, 2, 2]
    huge = weft.zeros(1).expand(1 << 43)
    with pytest.raises(MemoryError):
        (huge + 1).tolist()
    assert (x * 3).tolist() == [3, 3, 3, 3]
    assert huge.shape == (1 << 43,) and "..." in repr(huge)


# -- threads ---------------------------------------------------------------------------------------


def in_thread(function: Callable[[], Any]) -> Any:
    """The result of a function in a thread of its own; its exception is raised here."""
    results: list[Any] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(function())
        except BaseException as error:  # handed on
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    if errors:
        raise errors[0]
    return results[0]


def test_tapes_belong_to_threads() -> None:
    weft.realize()
    y = weft.ones(3) + 1
    assert value_of(y) in tape().pending()
    main = tape()
    assert in_thread(lambda: tape() is not main and tape().count == 0)


def test_reading_another_threads_pending_tensor_runs_its_ancestors() -> None:
    y = (weft.ones(3) + 1) * 4
    assert in_thread(y.tolist) == [8, 8, 8]
    assert state(y) == DONE_STATE


def test_what_a_thread_left_pending_can_be_read_when_it_is_gone() -> None:
    y = in_thread(lambda: weft.arange(4) * 2)
    assert state(y) == PENDING_STATE
    assert y.tolist() == [0, 2, 4, 6]
    z = in_thread(lambda: weft.arange(4) * 3)
    assert (z + y).tolist() == [0, 5, 10, 15]


def test_a_failure_in_another_threads_program_is_raised_by_the_reader() -> None:
    y = in_thread(lambda: table_read(9))
    with pytest.raises(IndexError, match="in table_read"):
        y.tolist()


def test_threads_that_read_each_others_values_at_once_agree() -> None:
    shared = [weft.full((64,), float(i)) * 2 for i in range(40)]
    found: list[list[float]] = []
    barrier = threading.Barrier(4)

    def reader(number: int) -> None:
        barrier.wait()
        own = []
        for turn in range(40):
            i = (turn * 7 + number * 11) % 40
            own.append((i, (shared[i] + shared[(i + 1) % 40]).sum().item()))
        found.append(sorted(own))

    threads = [threading.Thread(target=reader, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == [[(i, 64.0 * 2 * (i + (i + 1) % 40)) for i in range(40)]] * 4


def test_threads_train_models_of_their_own_at_once() -> None:
    def train(seed: int) -> list[float]:
        x = weft.full((4, 3), 0.1 * (seed + 1))
        weight = weft.full((3, 2), 0.5, requires_grad=True)
        losses = []
        for _ in range(30):
            loss = (x @ weight - 1).square().mean()
            loss.backward()
            with weft.no_grad():
                weight -= 0.1 * weight.grad
                weight.grad = None
            losses.append(loss.item())
        return losses

    alone = [train(seed) for seed in range(4)]
    together: dict[int, list[float]] = {}
    threads = [
        threading.Thread(target=lambda s=seed: together.update({s: train(s)})) for seed in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [together[seed] for seed in range(4)] == alone


# -- fork ------------------------------------------------------------------------------------------


def test_a_forked_child_reads_what_its_parent_recorded_and_records_its_own() -> None:
    x = weft.rand(300, 300)
    (x @ x).sum().item()  # workers, kernels and the program cache are in use
    pending = (x * 0 + 2).sum()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python warns of forking beside other threads
        child = os.fork()
    if child == 0:
        status = 1
        try:
            right = pending.item() == 180_000 and (weft.ones(300, 300) @ x * 0).sum().item() == 0
            w = weft.ones(3, requires_grad=True)
            (w.exp() * 2).sum().backward()
            status = 0 if right and w.grad[0].item() > 5.4 else 2
        finally:
            os._exit(status)
    for _ in range(2000):
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        time.sleep(0.01)
    else:
        os.kill(child, 9)
        os.waitpid(child, 0)
        pytest.fail("the child hangs")
    assert os.waitstatus_to_exitcode(status) == 0
    assert pending.item() == 180_000
