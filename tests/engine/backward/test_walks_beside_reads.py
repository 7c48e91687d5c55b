"""One thread walks back over what another one is just computing: each numbers nodes only where the other does not."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

import weft

PROGRAM = """
import queue, sys, threading, time
import pytest

import weft
sys.setswitchinterval(1e-6)
weft.set_num_threads(1)
handed, end, errors = queue.Queue(4), time.monotonic() + 4, []

def walk():
    weight = weft.rand(8, 8, requires_grad=True)
    for step in range(1 << 30):
        if time.monotonic() > end:
            return
        inputs = [weft.ones((7 * step + 3 * n) % 9 + 1, 8) for n in range(5)]
        values = [((x @ weight).tanh() + 0.5).cumsum(-1) for x in inputs]
        for value in values:
            try:
                handed.put(value.detach(), timeout=1)
            except queue.Full:
                pass
        weft.stack([value.sum() for value in values]).sum().backward()

def read():
    while time.monotonic() < end:
        try:
            value = handed.get(timeout=0.2)
        except queue.Empty:
            continue
        found = [float((value * (1 + n)).mT.exp().sum()) for n in range(4)]
        if not all(number > 0 for number in found):
            errors.append(found)

threads = [threading.Thread(target=task) for task in (walk, read, read)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not errors, errors
"""


def test_walking_and_reading_at_once() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr.decode()


@pytest.mark.parametrize("heights", [[4] * 5, [1, 4, 7, 2, 3]], ids=["equal", "different"])
@pytest.mark.parametrize("walk", [False, True], ids=["forward", "with backward"])
def test_examples_of_another_threads_batch_are_read_one_after_the_other(
    heights: list[int], walk: bool
) -> None:
    """What one read needs is computed with its batch; the others go on from there."""
    weight = weft.rand(8, 8, requires_grad=True)
    examples = [weft.rand(height, 8) * 1 for height in heights]
    expected = [(x @ weight).tanh().add(0.5).cumsum(-1).exp().sum().item() for x in examples]
    pending = [((x @ weight).tanh() + 0.5).cumsum(-1) for x in examples]
    seen = [y.detach() for y in pending]
    if walk:
        weft.stack([y.sum() for y in pending]).sum().backward()
    found: list[float] = []
    thread = threading.Thread(target=lambda: found.extend(y.exp().sum().item() for y in seen))
    thread.start()
    thread.join()
    assert found == expected
    if not walk:
        weft.stack([y.sum() for y in pending]).sum().backward()
    assert weight.grad is not None and bool(weight.grad.isfinite().all())
