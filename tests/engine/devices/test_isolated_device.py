"""A device whose memory the host cannot touch gives the CPU's values, gradients and parameters, bit for bit.

Each program runs on the CPU and on `weft.testing.isolated_device`, in a process of its own: one that goes around the
device protocol ends where it does. This file is that process's program, too, which imports Weft once and forks.
"""

from __future__ import annotations

import ctypes
import faulthandler
import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft.engine.devices import api
from weft.engine.devices.cpu.device import CPU
from weft.engine.frontend.resolve import value_of
from weft.engine.frontend.transfer import copy_to
from weft.nn import functional as F
from weft.ops import OPS
from weft.testing.isolated_device import IsolatedDevice

Move = Callable[[Any], Any]  # a tensor to the device that a program runs on

FORWARD: dict[
    str, tuple[Callable[..., Any], list[Any]]
] = {  # function, shapes or lists of its operands
    "a chain": (lambda x: x.exp().sin() * 2 + 1, [(5, 7)]),
    "a row kernel": (lambda x: weft.softmax(x, 1), [(8, 33)]),
    "sums": (lambda x: weft.stack([x.sum(), x.sum(0).max(), x.mean(1)[0]]), [(8, 33)]),
    "a product": (lambda x, y: (x @ y + 1).relu(), [(8, 33), (33, 5)]),
    "views": (lambda x: x.mT[1:, ::2].contiguous() + x[0, 0], [(8, 33)]),
    "an index": (lambda x, i: x[i], [(8, 3), [1, 2, 7]]),
    "a computed index": (lambda x, i: F.embedding(i * 2 - 1, x), [(8, 3), [1, 2, 4]]),
    "a mask": (lambda x: x[x > 0], [(8, 3)]),
    "a choice": (lambda x: weft.where(x > 0, x, 0.0), [(8, 3)]),
    "a sort": (lambda x: weft.sort(x, dim=1)[0], [(8, 33)]),
    "a scan": (lambda x: x.cumsum(1), [(8, 33)]),
    "a concatenation": (lambda x, y: weft.cat([x, y]), [(8, 3), (2, 3)]),
    "a convolution": (lambda x, w: F.conv2d(x, w, padding=1), [(2, 3, 8, 8), (4, 3, 3, 3)]),
    "attention": (F.scaled_dot_product_attention, [(2, 9, 4), (2, 9, 4), (2, 9, 4)]),
    "numbers of its own": (lambda x: weft.zeros_like(x) + weft.full_like(x, 2.0) * x, [(3, 3)]),
    "constants of the CPU": (lambda x: x + weft.arange(3.0).exp(), [(3, 3)]),
}


def drawn(number: int, shape: Any) -> Any:
    if isinstance(shape, list):
        return weft.tensor(shape)
    rng = np.random.default_rng(number)
    return weft.tensor(rng.normal(size=shape).astype(np.float32))


def forward(name: str, move: Move) -> Any:
    """The value, three times: new, as a known program, and on the CPU again."""
    function, shapes = FORWARD[name]
    operands = [move(drawn(number, shape)) for number, shape in enumerate(shapes)]
    weft.realize(*operands)
    first, second = function(*operands), function(*operands)
    if move is not stays:
        assert str(first.device) == "isolated"
        assert not isinstance(memoryview_of(first), memoryview)
    return [first.tolist(), second.tolist(), copy_to(CPU, first, OPS["clone"]).tolist()]


def memoryview_of(tensor: Any) -> Any:
    weft.realize(tensor)
    try:
        return memoryview(value_of(tensor).buffer)
    except TypeError:
        return None


def writes(move: Move) -> Any:
    x = move(drawn(0, (8, 3))) * 1
    x[1:3] = 0
    x.add_(1)
    x[0].mul_(3)
    x[weft.tensor([4, 6])] = 5.0
    return x.tolist(), x.sum().item(), repr(x)


def draws(move: Move) -> Any:
    weft.manual_seed(0)
    return F.dropout(move(drawn(0, (8, 33))), 0.5).tolist()


def an_index_outside(move: Move) -> Any:
    """It is found when the kernel has run, with the index that is to blame."""
    index = move(weft.tensor([1, 2, 9]))
    weft.realize(index)
    with pytest.raises(IndexError) as caught:
        F.embedding(index * 1, move(drawn(0, (8, 3)))).tolist()
    return str(caught.value).splitlines()[1:]


def host_functions(move: Move) -> Any:
    x = move(drawn(0, (4, 4)) + 10 * weft.eye(4))
    return weft.linalg.inv(x).tolist(), (x > 0).nonzero().tolist(), weft.linalg.svdvals(x).tolist()


def gradients(move: Move) -> Any:
    x, w = move(drawn(0, (8, 3))), move(drawn(1, (3, 2))).requires_grad_()
    ((x @ w).relu() - 1).square().mean().backward()
    assert move is stays or str(w.grad.device) == "isolated"
    return w.grad.tolist()


def examples_one_at_a_time(move: Move) -> Any:
    """They are batched, also by the third time, when flush and walk are known."""
    w = move(drawn(0, (3, 3))).requires_grad_()
    found = []
    for _ in range(3):
        losses = []
        for number in range(9):
            h = move(drawn(number, (1, 3)))
            for _ in range(number % 3 + 1):
                h = (h @ w).tanh()
            losses.append(h.square().sum())
        loss = weft.stack(losses).mean()
        loss.backward()
        found.append((loss.item(), w.grad.tolist()))
    return found


def rows_of_a_table(move: Move) -> Any:
    """Gathered by a table of addresses, which the host makes and the device reads."""
    table = move(drawn(0, (50, 4)))
    weft.realize(table)
    found = []
    for shift in range(3):
        rows = [table[(7 * n + shift) % 50] for n in range(20)]
        found.append(weft.stack([(row * 2).tanh() for row in rows]).sum(0).tolist())
    return found


def steps_of(optimizer: str) -> Callable[[Move], Any]:
    def steps(move: Move) -> Any:
        model = weft.nn.Sequential(
            weft.nn.Linear(5, 8), weft.nn.Tanh(), weft.nn.LayerNorm(8), weft.nn.Linear(8, 3)
        )
        for number, parameter in enumerate(model.parameters()):
            parameter.data = move(drawn(number, tuple(parameter.shape)))
        algorithm = getattr(weft.optim, optimizer)(model.parameters(), lr=0.1)
        losses = []
        for number in range(4):
            x, y = move(drawn(number, (6, 5))), move(weft.tensor([0, 1, 2, 0, 1, 2]))
            loss = F.cross_entropy(model(x), y)
            algorithm.zero_grad()
            loss.backward()
            weft.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            algorithm.step()
            losses.append(loss.item())
        if move is not stays:
            assert {str(p.device) for p in model.parameters()} == {"isolated"}
        return losses, [p.tolist() for p in model.parameters()]

    return steps


def stays(tensor: Any) -> Any:
    return tensor


PROGRAMS: dict[str, Callable[[Move], Any]] = {
    "writes": writes,
    "draws": draws,
    "an index outside": an_index_outside,
    "host functions": host_functions,
    "gradients": gradients,
    "examples one at a time": examples_one_at_a_time,
    "rows of a table": rows_of_a_table,
    **{f"steps of {name}": steps_of(name) for name in ("SGD", "Adam", "AdamW")},
    **{name: lambda move, name=name: forward(name, move) for name in FORWARD},
}


def both(name: str) -> None:
    device = IsolatedDevice()
    here = PROGRAMS[name](stays)
    there = PROGRAMS[name](lambda tensor: copy_to(device, tensor, OPS["clone"]))
    assert there == here


def goes_around(name: str) -> None:
    """What no program may do: the host reads the device's memory by its address."""
    x = copy_to(IsolatedDevice(), weft.ones(3), OPS["clone"])
    weft.realize(x)
    ctypes.string_at(value_of(x).buffer.address, 4)


def outcome(run: Callable[[str], None], name: str) -> str:
    """What becomes of a fork that runs a program; empty if all is well."""
    seen, shown = os.pipe()
    if os.fork() == 0:
        os.dup2(shown, 2)
        faulthandler.enable()
        try:
            run(name)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    os.close(shown)
    with os.fdopen(seen) as stream:
        text = stream.read()
    status = os.waitstatus_to_exitcode(os.wait()[1])
    return "" if status == 0 else f"status {status}\n{text.partition('Extension modules')[0]}"


@pytest.fixture(scope="module")
def outcomes() -> Any:
    """What became of all programs, by name."""
    done = subprocess.run([sys.executable, __file__], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_gives_the_cpus_values(outcomes: Any, name: str) -> None:
    assert outcomes[name] == ""


def test_what_goes_around_the_protocol_ends_the_process(outcomes: Any) -> None:
    assert outcomes["goes around"].startswith("status -11")


@pytest.fixture
def isolated() -> Any:
    device = IsolatedDevice()
    yield device
    weft.realize()
    api.withdraw(device)


def test_numpy_is_refused_as_pytorch_refuses_it(isolated: Any) -> None:
    x = copy_to(isolated, weft.ones(3), OPS["clone"])
    with pytest.raises(TypeError, match="can't convert isolated device type tensor to numpy"):
        x.numpy()
    assert copy_to(CPU, x, OPS["clone"]).numpy().tolist() == [1.0, 1.0, 1.0]
    del x


def test_memory_is_given_back(isolated: Any) -> None:
    buffer = isolated.memory.allocate(1000)
    address = buffer.address
    del buffer
    assert isolated.memory.allocate(1000).address == address
    with pytest.raises(MemoryError):
        isolated.memory.allocate(isolated.memory.size() + 1)


if __name__ == "__main__":
    found = {name: outcome(both, name) for name in PROGRAMS}
    print(json.dumps({**found, "goes around": outcome(goes_around, "")}))
