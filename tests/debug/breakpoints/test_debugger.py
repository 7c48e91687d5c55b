"""The debugger: it stops in the frame of the line, changes no result, and explains values and gradients."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import weft
from weft import debug


class Net(weft.nn.Module):
    def __init__(self, scale: float = 100.0) -> None:
        super().__init__()
        self.inner = weft.nn.Linear(3, 3)
        self.scale = scale

    def forward(self, x: Any) -> Any:
        hidden = self.inner(x)
        return (hidden + 1).square() * self.scale


Noted = list[tuple[Any, Any]]


def note_in(found: Noted) -> Any:
    return lambda stop, frame: found.append((stop, frame and dict(frame.f_locals)))


def always(value: Any) -> bool:
    return True


def test_a_module_stops_in_its_own_frame() -> None:
    found: Noted = []
    net = Net()
    with debug.watch(net, lambda out: out.abs().max() > 0, on_stop=note_in(found)):
        net(weft.ones(2, 3)).sum().backward()
    forward = [(stop, names) for stop, names in found if stop.phase == "forward"]
    assert len(forward) == 1
    stop, names = forward[0]
    assert names["self"] is net and "hidden" in names
    assert stop.where.startswith("test_debugger.py:") and stop.where.endswith("in forward")
    assert {stop.name for stop, _ in found if stop.phase == "backward"} == {
        "Net", "Net.inner.weight", "Net.inner.bias",
    }  # fmt: skip
    assert sys.getprofile() is None
    found.clear()
    net(weft.ones(2, 3)).sum().backward()
    assert found == []


def test_operations_stop_where_they_are_recorded() -> None:
    found: Noted = []
    net = Net()
    with debug.watch("squ*", always, on_stop=note_in(found)):
        out = net(weft.ones(2, 3))
        out.sum().backward()
    assert [(stop.name, stop.phase) for stop, _ in found] == [
        ("square", "forward"), ("square", "backward"),
    ]  # fmt: skip
    assert "hidden" in found[0][1] and found[1][1] is None  # its function has returned


def test_a_library_module_stops_in_the_calling_frame() -> None:
    found: Noted = []
    layer = weft.nn.Linear(3, 3)
    with debug.watch(layer, always, on_stop=note_in(found)):
        layer(weft.ones(2, 3))
    assert found[0][1]["layer"] is layer


def test_a_tensor_and_its_gradient() -> None:
    found: Noted = []
    x = weft.ones(2, requires_grad=True)
    y = x * 2
    with debug.watch(y, always, on_stop=note_in(found)):
        (y * 3).sum().backward()
    assert [(s.phase, s.value.tolist()) for s, _ in found] == [
        ("forward", [2.0, 2.0]), ("backward", [3.0, 3.0]),
    ]  # fmt: skip


@pytest.mark.parametrize("target", ["net", "*"])
def test_results_are_unchanged(target: str) -> None:
    results = []
    for watched in (False, True):
        weft.manual_seed(0)
        net = Net(0.1)
        optimizer = weft.optim.AdamW(net.parameters(), lr=0.1)
        watching = None
        if watched:
            watching = debug.watch(net if target == "net" else target, lambda v: v.isnan().any())
        losses = []
        for _ in range(3):
            loss = net(weft.randn(2, 3)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        if watching:
            watching.remove()
        results.append((losses, [p.tolist() for p in net.parameters()]))
    assert results[0] == results[1]


PROGRAM = """
import weft, weft.debug
def forward(x):
    secret = x * 2
    return secret.exp()
def step():
    x = weft.tensor([1.0, 2.0], requires_grad=True)
    out = forward(x)
    out.sum().backward()
watching = weft.debug.watch("exp", lambda value: value.max() > 50)
step()
print("finished")
"""


def run_program(folder: Path, commands: str, **environment: str) -> str:
    path = folder / "program.py"
    path.write_text(PROGRAM)
    import os

    found = subprocess.run(
        [sys.executable, str(path)], input=commands, capture_output=True, text=True, check=False,
        env={**os.environ, **environment},
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    return found.stdout


def test_pdb_in_the_frame_and_behind_it(tmp_path: Path) -> None:
    said = run_program(
        tmp_path, "p secret.tolist()\nwhere\np watched.shape\nc\np self.tolist()\np watched\nc\n"
    )
    assert "[2.0, 4.0]" in said  # alive in forward
    assert "return secret.exp()" in said
    assert "finished" in said


def test_another_debugger(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import sys\n"
        "def stop():\n"
        "    frame = sys._getframe(1)\n"
        "    print('mine', frame.f_lineno, sorted(set(frame.f_locals) & {'secret', 'watched'}))\n"
    )
    said = run_program(tmp_path, "", PYTHONBREAKPOINT="mine.stop", PYTHONPATH=path_with(tmp_path))
    assert "mine 5 ['secret', 'watched']" in said


def path_with(folder: Path) -> str:
    import os

    return os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])


def test_bad_targets() -> None:
    with pytest.raises(TypeError, match="cannot watch a int"):
        debug.watch(3, always)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="the condition is a"):
        debug.watch("exp", 3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="no operation is called"):
        debug.watch("nonsense", always)
    with pytest.raises(TypeError, match="expected a tensor"):
        debug.why_grad(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="expected a capsule"):
        debug.stepper(3)  # type: ignore[arg-type]


def test_stepping() -> None:
    at = debug.stepper((weft.tensor([1.0, 4.0]).sqrt() * 3).sum())
    assert at.record.op == "sum"
    assert at.next().record.op == "sum"
    assert at.prev().prev().record.op == "sqrt"
    assert at.prev().record.op == "sqrt"
    assert at.value().tolist() == [1.0, 2.0]
    assert at.up().value().tolist() == [1.0, 4.0]
    assert at.down().down().record.op == "mul"
    assert "test_debugger.py" in at.where() and "sqrt() * 3" in at.where()
    assert "max 6" in str(at)
    with pytest.raises(IndexError):
        at.goto(99)


def test_why_of_finite_and_other_values(tmp_path: Path) -> None:
    x = weft.tensor([1.0, 2.0])
    text = str(debug.why((x * 1000 + 1).sum()))
    assert text.startswith("sum gave %3 float32[]: min 3002")
    assert "%1 = mul(%0, 1000)" in text
    assert "was given a value that was nan" in str(debug.why(weft.tensor([float("nan")]) * 2))
    y = (x - 1).log()
    y.tolist()
    assert "a value from outside" in str(debug.why(x))
    with debug.capture(tmp_path / "a.weft"):
        z = ((x - 1).log() * 2).sum()
        z.item()
        assert debug.why(z).summary == "log made inf of finite inputs"
    assert debug.why(tmp_path / "a.weft").summary == "log made inf of finite inputs"


def test_why_a_gradient_is_as_it_is() -> None:
    w = weft.tensor([2.0, 3.0], requires_grad=True)
    a = weft.tensor([1.0, -1.0], requires_grad=True)
    said = {
        "zero": debug.why_grad(w, (w * 0).sum()).summary,
        "dead": debug.why_grad(w, (w - 5).relu().sum()).summary,
        "half": debug.why_grad(a, (a * w).relu().sum()).summary,
        "huge": debug.why_grad(w, (w * 1e6).sum()).summary,
        "nan": debug.why_grad(w, (w - 2).sqrt().sum()).summary,
        "unused": debug.why_grad(w, (a * 2).sum()).summary,
        "index": debug.why_grad(w, (w * a).argmax().float()).summary,
        "detached": debug.why_grad(w, (w.detach() * a).sum()).summary,
        "fine": debug.why_grad(w, (w * 2).sum()).summary,
        "frozen": debug.why_grad(weft.ones(2), a.sum()).summary,
        "fresh": debug.why_grad(w).summary,
        "inner": debug.why_grad(w * 2).summary,
    }
    assert said == {
        "zero": "the gradient is 0: MulBackward0 multiplies it by 0",
        "dead": "the gradient is 0: 100% of relu's results are 0",
        "half": "50% of the gradient is 0; 50% of relu's results are 0",
        "huge": "the gradient is huge (largest element 1e+06); MulBackward0 makes it 1e+06 times as large",
        "nan": "sqrt_vjp_self of SqrtBackward0 made inf in the backward pass",
        "unused": "no path leads from the loss to it: the loss does not use it, or uses a detached copy",
        "index": "argmax has no derivative (the result is an index)",
        "detached": "mul was recorded without a gradient: in no_grad, or of a detached value",
        "fine": "the gradient has elements of up to 2",
        "frozen": "requires_grad is False: no gradient is recorded",
        "fresh": "no backward() has reached it yet",
        "inner": "it is not a leaf: its .grad stays None unless retain_grad() is called",
    }
    assert w.grad is None
    w.sum().backward()
    assert debug.why_grad(w).summary.startswith("it has a gradient float32[2]: min 1")
