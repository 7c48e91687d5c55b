"""Capsules: what ran gives the same bits again in another process, forward and backward; what is no capsule is refused.

Every row of the op table and random programs go into files; reduction and the Python file are run.
"""

from __future__ import annotations

import io
import json
import random
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import random_programs as programs
import weft
import weft.debug
from weft.debug.capsules import reduction
from weft.debug.capsules.capsule import VERSION
from weft.debug.capsules.records import VALUE
from weft.demo import cli
from weft.engine.frontend.recorder import TO_FLOAT
from weft.engine.ir.primitive import KIND_NAMES
from weft.errors import CheckpointError, WeftError
from weft.ops import OPS
from weft.testing.recording import apply, tensor_of
from weft.testing.samples import operand_type, points, samples

pytest.importorskip("safetensors")
RUN = [op for op in OPS.values() if KIND_NAMES[op.kind] != "collective"]
ELSEWHERE = """
import sys, weft, weft.debug
for path in sys.argv[1:]:
    report = weft.debug.load_capsule(path).replay()
    if not report.same:
        print(path, report)
"""


def model() -> Any:
    weft.manual_seed(0)
    return weft.nn.Sequential(
        weft.nn.Linear(4, 8), weft.nn.ReLU(), weft.nn.Dropout(0.3), weft.nn.Linear(8, 2)
    )


def step(net: Any, optimizer: Any) -> float:
    loss = net(weft.randn(3, 4)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def captured_step(path: Path) -> Any:
    net = model()
    optimizer = weft.optim.AdamW(net.parameters(), lr=1e-2)
    for _ in range(2):
        step(net, optimizer)
    with weft.debug.capture(path, names=dict(net.named_parameters())):
        step(net, optimizer)
    return weft.debug.load_capsule(path)


def test_a_step_gives_the_same_bits_in_another_process(tmp_path: Path) -> None:
    capsule = captured_step(tmp_path / "step.weft")
    report = capsule.replay()
    assert report.same
    assert len(report.outcomes) > 8  # new weights, moments, gradients and the loss
    text = capsule.text()
    assert "value 0.weight" in text
    assert f"{Path(__file__).name}:" in text
    assert any(record.edges and record.source for record in capsule.records)
    found = subprocess.run(
        [sys.executable, "-m", "weft", "replay", str(tmp_path / "step.weft")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    assert (
        f"{len(report.outcomes)} of {len(report.outcomes)} values have the same bits"
        in found.stdout
    )


@pytest.mark.parametrize("op", RUN, ids=lambda op: op.name)
def test_every_operation(op: Any, tmp_path: Path) -> None:
    dtype = "float32" if "float32" in op.dtypes else op.dtypes[-1]
    found = samples(op)
    for sample in (found[0], found[-1]):
        check_row(op, sample, dtype, tmp_path)


@pytest.mark.parametrize("dtype", sorted({name for op in RUN for name in op.dtypes}))
def test_every_dtype(dtype: str, tmp_path: Path) -> None:
    for name in ("add", "eq", "where", "sum", "permute", "strided", "cat", "take", "matmul"):
        if dtype in OPS[name].dtypes:
            check_row(OPS[name], samples(OPS[name])[-1], dtype, tmp_path)


def check_row(op: Any, sample: Any, dtype: str, folder: Path) -> None:
    """A row gives the same bits in a replay, and as a Python file."""
    arrays = points(op, sample, dtype)
    types = [operand_type(op, i, domain, dtype) for i, domain in enumerate(sample.domains)]
    tensors = [tensor_of(a, t, sample.layout) for a, t in zip(arrays, types, strict=True)]
    params = weft.float64 if op.name == "cast" else sample.params
    with weft.debug.capture(folder / "a.weft"):
        result = apply(op, tensors, params, sample.shape)
    capsule = weft.debug.load_capsule(folder / "a.weft")
    assert capsule.replay().same, capsule.text()
    written = folder / "again.py"
    written.write_text(weft.debug.to_python(capsule))
    runpy.run_path(str(written), run_name="__main__")
    del result


def test_random_programs_elsewhere(tmp_path: Path) -> None:
    draw = random.Random(5)
    paths = []
    for seed in range(30):
        steps = [tuple(draw.randrange(100) for _ in range(4)) for _ in range(12)]
        path = tmp_path / f"{seed}.weft"
        with weft.debug.capture(path):
            programs.Machine(weft, "float32", seed, hold=bool(seed % 2)).run(steps, losses=2)
        paths.append(str(path))
    assert sum(len(weft.debug.load_capsule(path).held()) for path in paths) > 200
    found = subprocess.run(
        [sys.executable, "-c", ELSEWHERE, *paths], capture_output=True, text=True, check=False
    )
    assert (found.stdout, found.returncode) == ("", 0), found.stderr


def test_results_are_unchanged(tmp_path: Path) -> None:
    found = []
    for watched in (False, True):
        net = model()
        optimizer = weft.optim.SGD(net.parameters(), lr=0.1)
        if watched:
            with weft.debug.capture(tmp_path / "a.weft"):
                losses = [step(net, optimizer) for _ in range(3)]
        else:
            losses = [step(net, optimizer) for _ in range(3)]
        found.append((losses, [p.tolist() for p in net.parameters()]))
    assert found[0] == found[1]


def test_what_comes_from_another_operation_is_not_a_value(tmp_path: Path) -> None:
    x = weft.tensor([1.0, 2.0], requires_grad=True)
    with weft.debug.capture(tmp_path / "a.weft"):
        y = (x * 3).exp()
        assert y.sum() > 0  # runs
        y.log().sum().backward()
    capsule = weft.debug.load_capsule(tmp_path / "a.weft")
    assert [r.op for r in capsule.records if r.op == VALUE] == [VALUE]
    assert capsule.replay().same


def test_an_error_is_captured_and_raised_again(tmp_path: Path) -> None:
    x = weft.ones(4)
    with pytest.raises(IndexError), weft.debug.capture(tmp_path / "a.weft"):
        index = weft.tensor([0.0, 7.0]).exp().log().round().long()
        (x * 3)[index].tolist()
    capsule = weft.debug.load_capsule(tmp_path / "a.weft")
    assert capsule.error.startswith("IndexRangeError: index 7 is out of bounds")
    report = capsule.replay()
    assert report.same
    assert "raised IndexRangeError" in str(report)
    smaller = weft.debug.reduce_capsule(capsule)
    assert [record.op for record in smaller.records] == [VALUE, VALUE, "take"]
    assert smaller.replay().same


def test_reduction_to_the_operation_that_made_a_nan(tmp_path: Path) -> None:
    x = weft.tensor([1.0, 0.0, -1.0, 2.0], requires_grad=True)
    with weft.debug.capture(tmp_path / "a.weft"):
        ((x * 2).log() * 3).exp().sum().backward()
    capsule = weft.debug.load_capsule(tmp_path / "a.weft")
    smaller = weft.debug.reduce_capsule(capsule, "nan")
    assert [record.op for record in smaller.records] == [VALUE, "log"]
    smaller.save(tmp_path / "b.weft")
    assert weft.debug.load_capsule(tmp_path / "b.weft").replay().same
    written = tmp_path / "again.py"
    written.write_text(weft.debug.to_python(smaller))
    runpy.run_path(str(written), run_name="__main__")


def test_reduction_keeps_what_must_run_together(monkeypatch: pytest.MonkeyPatch) -> None:
    assert reduction.ddmin(list(range(50)), lambda kept: {3, 29} <= set(kept)) == [3, 29]
    assert reduction.ddmin(list(range(50)), lambda kept: 17 in kept) == [17]


def test_reduction_of_other_bits(tmp_path: Path) -> None:
    x = weft.tensor([1.0, 2.0])
    with weft.debug.capture(tmp_path / "a.weft"):
        kept = (x.exp() * 2 + 1).sqrt()
    capsule = weft.debug.load_capsule(tmp_path / "a.weft")
    with pytest.raises(ValueError, match="does not fail here"):
        weft.debug.reduce_capsule(capsule)
    capsule.records[-1] = reduction.replace(capsule.records[-1], digest="0" * 32)
    assert not capsule.replay().same
    smaller = weft.debug.reduce_capsule(capsule)
    assert [record.op for record in smaller.records] == [VALUE, "sqrt"]
    assert "other bits" in str(smaller.replay())
    del kept


def test_the_last_step_of_what_fails(tmp_path: Path) -> None:
    path = tmp_path / "bug.weft"
    net = model()
    optimizer = weft.optim.SGD(net.parameters(), lr=0.1)
    with pytest.raises(RuntimeError, match="shape"), weft.debug.capture.on_error(path):
        for number in range(4):
            step(net, optimizer)
            if number == 2:
                kept = net(weft.ones(3, 4))
                kept @ weft.ones(7)
    capsule = weft.debug.load_capsule(path)
    assert "matmul" in capsule.error
    products = [record.op for record in capsule.records if record.op == "linear_bias"]
    assert len(products) == 2  # of the call that failed alone
    assert capsule.replay().same
    path.unlink()
    with weft.debug.capture.on_error(path):
        step(net, optimizer)
    assert not path.exists()


def test_the_hook_of_exceptions(tmp_path: Path) -> None:
    program = """
import weft, weft.debug
weft.debug.capture.on_error("bug.weft")
x = weft.ones(3)
y = x.exp()
raise ValueError("planted")
"""
    found = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "ValueError: planted" in found.stderr
    capsule = weft.debug.load_capsule(tmp_path / "bug.weft")
    assert capsule.error == "ValueError: planted"
    assert [record.op for record in capsule.records][-1:] == ["exp"]


# -- bad input -----------------------------------------------------------------------------------------------------


def refused(path: Path) -> str:
    with pytest.raises(CheckpointError) as raised:
        weft.debug.load_capsule(path)
    return str(raised.value)


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.weft"
    with pytest.raises(FileNotFoundError):
        weft.debug.load_capsule(path)
    weft.save({"w": weft.ones(2)}, path)
    assert "a file without a capsule" in refused(path)
    weft.save({"capsule": VERSION + 1, "weft": "9.0"}, path)
    assert f"of version {VERSION + 1}, written by weft '9.0'" in refused(path)
    captured_step(path)
    content = path.read_bytes()
    for size in (0, 7, 100, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:size])
        refused(path)
    with pytest.raises(TypeError, match="expected a path"):
        weft.debug.capture(3)  # type: ignore[arg-type]
    assert cli.main(["replay", str(path)]) == 2


def rewritten(path: Path, change: Any) -> None:
    """Change the records of a capsule as text."""
    content = weft.load(path)
    entries = json.loads(content["records"].tobytes())
    change(entries)
    content["records"] = np.frombuffer(json.dumps(entries).encode(), np.uint8)
    weft.save(content, path)


@pytest.mark.parametrize(
    ("number", "field", "value"),
    [
        (1, "op", "system"),
        (1, "op", "softmax"),
        (1, "op", None),
        (1, "in", [1]),
        (1, "in", [-1]),
        (1, "in", [0, 0]),
        (1, "params", {"tuple": [0, {"tuple": [1 << 30, 1]}]}),
        (1, "params", {"tuple": [-4, {"tuple": [3, 1]}]}),
        (1, "params", {"code": "print(1)"}),
        (1, "shape", [1 << 40, 1 << 40]),
        (1, "shape", [2, -2]),
        (1, "dtype", "float99"),
        (1, "dtype", "int64"),
        (1, "line", 7),
        (1, "edges", [99]),
        (1, "more", 1),
        (0, "shape", [5]),
        (0, "dtype", "complex64"),
        (0, "op", "exp"),
    ],
)
def test_hostile_records_are_refused(tmp_path: Path, number: int, field: str, value: Any) -> None:
    path = tmp_path / "a.weft"
    x = weft.arange(6.0) * 1
    x.tolist()
    with weft.debug.capture(path):
        kept = weft.as_strided(x, (2, 2), (2, 1), 1) * 1
    assert weft.debug.load_capsule(path).records[1].op == "strided"
    rewritten(path, lambda entries: entries[number].update({field: value}))
    refused(path)
    del kept


def test_classes_out_of_range_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.weft"
    with weft.debug.capture(path):
        loss = weft.nn.functional.cross_entropy(weft.randn(2, 3), weft.tensor([2, 0]))
    content = weft.load(path)
    capsule = weft.debug.load_capsule(path)
    index = next(number for number, array in capsule.arrays.items() if array.dtype == np.int64)
    assert capsule.replay().same
    content["values"][str(index)] = np.array([1 << 20, 0])
    weft.save(content, path)
    with pytest.raises(ValueError, match="classes out of range"):
        weft.debug.load_capsule(path).replay()
    del loss


@pytest.mark.parametrize("dtype", ["bool", "int32", "int64"])
@pytest.mark.parametrize(
    "op", [op for op in OPS.values() if op.rule == TO_FLOAT and len(op.operands) == 1], ids=str
)
def test_operands_that_a_recorder_would_have_converted_are_refused(op: Any, dtype: str) -> None:
    """There is no kernel for them."""
    kind = getattr(weft, dtype)
    with pytest.raises(ValueError, match="operands that are no floats|dtypes"):
        weft.debug.primitive(op.name, [weft.ones(4, dtype=kind)], shape=(4,), dtype=kind)


def test_fields_that_are_missing_and_other_entries(tmp_path: Path) -> None:
    path = tmp_path / "a.weft"
    captured_step(path)
    content = weft.load(path)
    for key in content:
        weft.save({k: v for k, v in content.items() if k != key}, path)
        refused(path)
    weft.save({**content, "code": "print(1)"}, path)
    refused(path)
    weft.save({**content, "records": np.frombuffer(b"[" * 100_000, np.uint8)}, path)
    refused(path)
    weft.save(content, path)
    for field in ("op", "in", "dtype", "shape"):
        weft.save(content, path)
        rewritten(path, lambda entries, field=field: entries[-1].pop(field))
        refused(path)


def test_changed_records_are_refused_or_run(tmp_path: Path) -> None:
    """Random changes to the records of a file: an error of the library, or a replay that ends."""
    path = tmp_path / "a.weft"
    captured_step(path)
    content = weft.load(path)
    text = content["records"].tobytes()
    draw = random.Random(0)
    for _ in range(150):
        changed = bytearray(text)
        for _ in range(draw.choice((1, 1, 2, 5))):
            place = draw.randrange(len(changed))
            changed[place : place + 1] = draw.choice(
                (b"", b"9", b"0", b"-1", b"[", b'"', b",", bytes([draw.randrange(256)]))
            )
        file = io.BytesIO()
        weft.save({**content, "records": np.frombuffer(bytes(changed), np.uint8)}, file)
        path.write_bytes(file.getvalue())
        try:
            capsule = weft.debug.load_capsule(path)
        except CheckpointError:
            continue
        try:
            str(capsule.replay())
        except WeftError:
            continue


def test_a_file_is_written_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.weft"
    captured_step(path)
    before = path.read_bytes()

    def failing(*arguments: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.replace", failing)
    with pytest.raises(OSError, match="disk full"), weft.debug.capture(path):
        weft.ones(2).exp().tolist()
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.fixture
def twenty_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    from weft.debug.capsules import capture

    monkeypatch.setattr(capture, "MOST_OPERATIONS", 20)


def _many(times: int) -> weft.Tensor:
    x = weft.ones(2)
    for _ in range(times):
        x = (x * 2 + 1).sin()
        x.tolist()
    return x


def test_a_block_of_too_many_operations_is_told(twenty_operations: None, tmp_path: Path) -> None:
    """Nothing is kept from then on, in however many runs; no file is written, and values are as without."""
    path = tmp_path / "bug.weft"
    kept = weft.debug.capture(path)
    words = r"no capsule was written(.|\n)*at most 20 operations"
    with pytest.raises(RuntimeError, match=words), kept:
        x = _many(10)
        assert not kept.recording.snapshot.inputs
    assert not path.exists()
    assert x.equal(_many(10))
    with weft.debug.capture(path):
        x = _many(2)
    assert weft.debug.load_capsule(path).replay().same


def test_the_error_of_a_block_comes_before_that_of_its_size(
    twenty_operations: None, tmp_path: Path
) -> None:
    for context in (weft.debug.capture, weft.debug.capture.on_error):
        path = tmp_path / "bug.weft"
        with (
            pytest.warns(RuntimeWarning, match="no capsule was written"),
            pytest.raises(ValueError, match="the user's"),
            context(path),
        ):
            _many(10)
            raise ValueError("the user's")
        assert not path.exists()
