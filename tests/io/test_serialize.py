"""Saving then loading is the identity; damaged and foreign files are named."""

from __future__ import annotations

import importlib
import io
import os
import pickle
import subprocess
import sys
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from weft import nn
from weft.errors import CheckpointError

safetensors = pytest.importorskip("safetensors.numpy")


def test_nested_state_comes_back(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    optimizer = weft.optim.Adam(model.parameters())
    model(weft.ones(4, 3)).square().sum().backward()
    optimizer.step()
    content = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "plain": [1, 2.5, "text", None, True, (float("inf"), -0.0)],
        7: {"a.b": weft.tensor(1), "a": {"b": weft.tensor(2)}},
    }
    weft.save(content, tmp_path / "state.safetensors")
    loaded = weft.load(tmp_path / "state.safetensors")
    assert loaded["plain"] == content["plain"]
    assert loaded[7]["a.b"].item() == 1 and loaded[7]["a"]["b"].item() == 2
    other = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    other.load_state_dict(loaded["model"])
    for a, b in zip(model.state_dict().values(), other.state_dict().values(), strict=True):
        assert weft.equal(a, b) and a.dtype == b.dtype
    restored = weft.optim.Adam(other.parameters())
    restored.load_state_dict(loaded["optimizer"])
    assert restored.param_groups[0]["betas"] == (0.9, 0.999)
    assert restored.state[other[0].weight]["step"] == 1


@pytest.mark.parametrize(
    "dtype",
    [
        "bool",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "int8",
        "int16",
        "int32",
        "int64",
        "float16",
        "bfloat16",
        "float32",
        "float64",
    ],
)
def test_every_dtype_and_shape(dtype: str) -> None:
    for shape in ((), (0, 3), (2, 3)):
        tensor = weft.ones(shape).to(getattr(weft, dtype))
        file = io.BytesIO()
        weft.save({"t": tensor, "view": tensor.expand(2, *shape)}, file)
        file.seek(0)
        loaded = weft.load(file)
        assert loaded["t"].dtype == tensor.dtype and loaded["t"].shape == tensor.shape
        assert weft.equal(loaded["t"], tensor) and loaded["view"].shape == (2, *shape)


def test_a_single_tensor_and_map_location(tmp_path: Path) -> None:
    weft.save(weft.arange(3), tmp_path / "t")
    assert weft.load(tmp_path / "t", map_location="cpu", weights_only=True).tolist() == [0, 1, 2]


def test_files_of_other_programs_come_as_a_flat_dictionary(tmp_path: Path) -> None:
    safetensors.save_file({"x.y": np.ones((2, 2), np.float32)}, tmp_path / "other")
    assert weft.load(tmp_path / "other")["x.y"].shape == (2, 2)


def test_other_programs_can_read_ours(tmp_path: Path) -> None:
    weft.save({"a": {"w": weft.ones(2)}}, tmp_path / "ours")
    assert safetensors.load_file(tmp_path / "ours")["a.w"].tolist() == [1.0, 1.0]


def test_equal_objects_make_equal_files(tmp_path: Path) -> None:
    obj = {"ä": weft.ones(2), "b": weft.ones(3, dtype=weft.bfloat16), "n": [1, "two"]}
    for number in range(8):  # metadata come in another order in about every second file
        weft.save(obj, tmp_path / str(number))
    assert len({(tmp_path / str(number)).read_bytes() for number in range(8)}) == 1
    assert weft.load(tmp_path / "0")["b"].dtype is weft.bfloat16


def test_things_that_files_do_not_hold_are_named(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    weft.save({"a": 1}, path)
    with pytest.raises(TypeError, match=r"save: model.f is a function; .* save a state_dict\(\)"):
        weft.save({"model": {"f": lambda x: x}}, path)
    with pytest.raises(TypeError, match="range as key"):
        weft.save({range(2): 1, "f": lambda x: x}, path)
    assert weft.load(path) == {"a": 1}
    assert [file.name for file in tmp_path.iterdir()] == ["kept"]


def test_plain_values_of_all_kinds_come_back(tmp_path: Path) -> None:
    kept = {
        "numbers": [1, -2.5, 3 + 4j, complex("nan+infj"), float("-inf"), True, None],
        "bytes": (b"\x00\xff", bytearray(b"ab")),
        "sets": [{1, "a"}, frozenset({(1, 2.0)})],
        "ordered": OrderedDict([("b", 1), ("a", weft.ones(2))]),
        "types": [weft.float16, weft.device("cpu"), weft.Size((2, 3))],
        (1, "a"): {None: 0, 1.5: 1, b"k": 2},
    }
    weft.save({**kept, "array": np.arange(6, dtype=np.int16).reshape(2, 3)}, tmp_path / "v")
    loaded = weft.load(tmp_path / "v")
    array = loaded.pop("array")
    assert array.dtype == np.int16 and array.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert loaded["ordered"].pop("a").tolist() == kept["ordered"].pop("a").tolist()
    assert repr(loaded) == repr(kept)
    assert [type(part) for part in loaded["types"]] == [type(part) for part in kept["types"]]


def test_modules_are_pickled_and_loaded_only_on_request(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    model[0].weight.grad = weft.ones(2, 3)
    x = weft.randn(4, 3)
    expected = model(x).tolist()
    running = model[1].running_mean.tolist()
    weft.save({"model": model, "epoch": 3}, tmp_path / "m")
    with pytest.raises(pickle.UnpicklingError, match="fix .* weights_only=False"):
        weft.load(tmp_path / "m")
    loaded = weft.load(tmp_path / "m", weights_only=False)
    again = loaded["model"]
    assert loaded["epoch"] == 3 and again[1].running_mean.tolist() == running
    assert again(x).tolist() == expected
    assert isinstance(again[0].weight, nn.Parameter) and again[0].weight.grad is None
    (tmp_path / "m").write_bytes((tmp_path / "m").read_bytes()[:-20])
    with pytest.raises(CheckpointError, match="cannot be read"):
        weft.load(tmp_path / "m", weights_only=False)


def test_shared_memory_is_stored_once_and_shared_again(tmp_path: Path) -> None:
    base = weft.arange(1000.0)
    views = {"tail": base[900:], "base": base, "columns": base.view(10, 100).t()[:3], "again": base}
    weft.save(views, tmp_path / "v")
    assert (tmp_path / "v").stat().st_size < 5000
    loaded = weft.load(tmp_path / "v")
    assert all(loaded[key].tolist() == views[key].tolist() for key in views)
    assert loaded["again"] is loaded["base"] and loaded["columns"].stride() == (1, 100)
    loaded["base"].zero_()
    assert loaded["tail"].sum() == 0 and loaded["columns"].sum() == 0
    weft.save([base[:2], base[1:3].bfloat16(), base[2:4]], tmp_path / "parts")
    first, half, last = weft.load(tmp_path / "parts")
    assert [first.tolist(), half.tolist(), last.tolist()] == [[0, 1], [1, 2], [2, 3]]


def test_tied_weights_stay_tied_and_leaves_stay_leaves(tmp_path: Path) -> None:
    weight = nn.Parameter(weft.ones(2, 2))
    weft.save({"a": weight, "b": weight, "view": weight.detach()[0], "leaf": weft.ones(1).requires_grad_()},
              tmp_path / "t")  # fmt: skip
    loaded = weft.load(tmp_path / "t")
    assert loaded["a"] is loaded["b"] and isinstance(loaded["a"], nn.Parameter)
    assert loaded["a"].requires_grad and loaded["leaf"].requires_grad
    assert not loaded["view"].requires_grad
    with weft.no_grad():
        loaded["a"].add_(1)
    assert loaded["view"].tolist() == [2, 2]


def test_damaged_files_are_named(tmp_path: Path) -> None:
    path = tmp_path / "state"
    weft.save({"w": weft.ones(100)}, path)
    whole = path.read_bytes()
    for content in (
        b"",
        whole[:60],
        whole[:-4],
        b"hello" * 50,
        b"PK\x03\x04zip",
        b"\x80\x02pickle",
    ):
        path.write_bytes(content)
        with pytest.raises(CheckpointError, match=r"expected .*\n  got .*\n  fix"):
            weft.load(path)
    with pytest.raises(FileNotFoundError):
        weft.load(tmp_path / "absent")


def test_a_header_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    metadata = {"format": "weft-1", "structure": '{"tensor": "absent"}'}
    safetensors.save_file({"w": np.ones(1)}, tmp_path / "f", metadata=metadata)
    with pytest.raises(CheckpointError, match="does not fit the tensors"):
        weft.load(tmp_path / "f")


# -- paths that cannot be used ---------------------------------------------------------------------


def test_views_in_a_file_stay_within_their_memory(tmp_path: Path) -> None:
    base = weft.arange(10.0)
    weft.save([base, base[2:]], tmp_path / "v")
    content = (tmp_path / "v").read_bytes()
    assert weft.load(io.BytesIO(content))[1].tolist() == list(range(2, 10))
    for place in (b"[8], [1], 3", b"[9], [1], 2", b"[8], [9], 2", b"[8], [1], -"):
        lying = content.replace(b"[8], [1], 2", place)
        assert lying != content
        with pytest.raises(CheckpointError, match="a header that does not fit"):
            weft.load(io.BytesIO(lying))


def test_a_path_that_is_not_there_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "nowhere" / "model.st"
    with pytest.raises(FileNotFoundError, match="(?s)nowhere/model.st.*fix") as caught:
        weft.load(missing)
    assert "test_serialize.py" in str(caught.value)
    with pytest.raises(
        RuntimeError, match="(?s)Parent directory .*nowhere does not exist.*fix"
    ) as caught:
        weft.save({"a": weft.ones(2)}, missing)
    assert isinstance(caught.value, FileNotFoundError) and ".tmp" not in str(caught.value)


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    for call in (weft.load, lambda path: weft.save({}, path)):
        with pytest.raises(IsADirectoryError, match="(?s)Is a directory: .*expected.*fix"):
            call(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_directory_without_leave_to_write_is_named(tmp_path: Path, monkeypatch: Any) -> None:
    def refuse(*arguments: Any, **keywords: Any) -> None:
        raise PermissionError(13, "Permission denied", str(tmp_path / "model.stx1.tmp"))

    monkeypatch.setattr("tempfile.mkstemp", refuse)
    with pytest.raises(PermissionError, match="(?s)Permission denied: .*model.st'.*fix") as caught:
        weft.save({}, tmp_path / "model.st")
    assert ".tmp" not in str(caught.value)


def test_links_devices_and_modes_stay(tmp_path: Path) -> None:
    target, link, pipe = tmp_path / "target", tmp_path / "link", tmp_path / "pipe"
    target.write_bytes(b"")
    target.chmod(0o600)
    link.symlink_to(target)
    weft.save({"a": weft.ones(2)}, link)
    assert link.is_symlink() and target.stat().st_mode & 0o777 == 0o600
    assert weft.load(target)["a"].tolist() == [1.0, 1.0]
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        weft.save({"a": weft.ones(2)}, pipe)
        assert weft.load(io.BytesIO(os.read(reader, 1 << 16)))["a"].tolist() == [1.0, 1.0]
    finally:
        os.close(reader)
    assert pipe.is_fifo()


@pytest.mark.parametrize("name", ["a\0b", "x" * 300])
def test_a_name_that_no_file_can_have_is_refused(tmp_path: Path, name: str) -> None:
    for run in (lambda: weft.save({}, tmp_path / name), lambda: weft.load(tmp_path / name)):
        with pytest.raises(OSError, match="(?s)expected .*fix "):
            run()
    assert list(tmp_path.iterdir()) == []


def test_the_longest_name_is_a_name(tmp_path: Path) -> None:
    weft.save({"a": 1}, tmp_path / ("x" * 255))
    assert weft.load(tmp_path / ("x" * 255)) == {"a": 1}


def test_a_file_of_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="open for text"):
        weft.save({}, io.StringIO())
    with open(tmp_path / "t", "w+") as file, pytest.raises(TypeError, match="open for text"):
        weft.load(file)


def trained(model: nn.Module, optimizer: Any, schedule: Any, steps: int) -> list[float]:
    losses = []
    for _ in range(steps):
        inputs = weft.randn(8, 4)
        loss = (model(inputs).squeeze(1) - inputs.sum(1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("algorithm", ["SGD", "AdamW", "NAdam", "Muon"])
def test_a_checkpoint_resumes_to_the_bit(tmp_path: Path, algorithm: str) -> None:
    def make() -> tuple[Any, Any, Any]:
        model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.Linear(8, 1))
        chosen = [p for p in model.parameters() if p.dim() == 2 or algorithm != "Muon"]
        optimizer = getattr(weft.optim, algorithm)(chosen, lr=0.05)
        warm = weft.optim.lr_scheduler.LinearLR(optimizer, total_iters=3)
        then = weft.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
        schedule = weft.optim.lr_scheduler.SequentialLR(optimizer, [warm, then], [4])
        return model, optimizer, schedule

    weft.manual_seed(3)
    model, optimizer, schedule = parts = make()
    trained(*parts, 5)
    names = ("model", "optimizer", "schedule")
    kept = {name: part.state_dict() for name, part in zip(names, parts, strict=True)}
    weft.save({**kept, "random": weft.get_rng_state()}, tmp_path / "checkpoint")
    expected = trained(*parts, 6)
    again = make()
    weft.manual_seed(99)
    loaded = weft.load(tmp_path / "checkpoint")
    for name, part in zip(names, again, strict=True):
        part.load_state_dict(loaded[name])
    weft.set_rng_state(loaded["random"])
    assert trained(*again, 6) == expected
    for mine, other in zip(model.parameters(), again[0].parameters(), strict=True):
        assert np.array_equal(mine.detach().numpy(), other.detach().numpy())
    assert again[2].get_last_lr() == schedule.get_last_lr()
    assert set(optimizer.state_dict()) == {"state", "param_groups"}


PROGRAM = """
import sys
import weft
from weft import data, nn

weft.manual_seed(int(sys.argv[2]))
class Noisy(data.Dataset):
    def __len__(self):
        return 20
    def __getitem__(self, index):
        return index / 20 + weft.rand(3) / 9, weft.tensor(index / 20)
rows = Noisy()
model = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.3), nn.Linear(8, 1))
optimizer = weft.optim.Adam(model.parameters(), lr=0.01)
schedule = weft.optim.lr_scheduler.StepLR(optimizer, 1, 0.7)
parts = {"model": model, "optimizer": optimizer, "schedule": schedule}
loader = data.DataLoader(rows, 4, shuffle=True, num_workers=1)
first = 0
if sys.argv[3:]:
    kept = weft.load(sys.argv[1])
    for name, part in parts.items():
        part.load_state_dict(kept[name])
    weft.set_rng_state(kept["random"])
    first = kept["epoch"]
for epoch in range(first, 4):
    if epoch == 2:
        kept = {name: part.state_dict() for name, part in parts.items()}
        weft.save({**kept, "random": weft.get_rng_state(), "epoch": epoch}, sys.argv[1])
    for x, y in loader:
        loss = (model(x).squeeze(1) - y).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(epoch, x[:, 0].tolist(), loss.item().hex(), flush=True)
    schedule.step()
print([p.tolist() for p in model.parameters()], schedule.get_last_lr())
"""


def test_another_process_goes_on_from_a_checkpoint_in_the_same_order_of_examples(
    tmp_path: Path,
) -> None:
    """Model, optimizer, schedule, random state; the loader's order and its workers' seeds follow from that."""

    def output(*arguments: Any) -> list[str]:
        command = [
            sys.executable,
            "-c",
            PROGRAM,
            str(tmp_path / "checkpoint"),
            *map(str, arguments),
        ]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    whole = output(1)
    assert len(whole) == 4 * 5 + 1 and whole[0].split(" ", 1)[1] != whole[5].split(" ", 1)[1]
    assert output(2, "resume") == whole[10:]


def test_complex_numbers_of_double_precision(tmp_path: Path) -> None:
    """Parts of one storage, and conjugates: safetensors has no such type."""
    base = weft.arange(6.0, dtype=weft.float64) * (1 + 2j)
    weft.save({"all": base, "part": base[2:], "conj": base.conj()}, tmp_path / "f")
    found = weft.load(tmp_path / "f")
    assert {name: one.dtype for name, one in found.items()} == dict.fromkeys(found, weft.complex128)
    assert found["all"].tolist() == base.tolist() and found["part"].tolist() == base[2:].tolist()
    assert found["conj"].tolist() == base.conj().tolist()
    found["all"][2] = 0
    assert found["part"][0].item() == 0


def test_a_file_that_is_still_open_holds_what_was_saved(tmp_path: Path, lib: Any) -> None:
    """Whoever opens the file by its path, before the writer closes it, finds all of it."""
    with (tmp_path / "tensors").open("wb") as file:
        lib.save({"a": lib.arange(3)}, file)
        assert lib.load(tmp_path / "tensors")["a"].tolist() == [0, 1, 2]


def test_storages_are_loaded_without_running_code() -> None:
    tensor = weft.arange(6.0)
    given = {"bytes": tensor.untyped_storage(), "elements": tensor.storage(), "tensor": tensor}
    file = io.BytesIO()
    weft.save(given, file)
    file.seek(0)
    loaded = weft.load(file)
    assert list(loaded["elements"]) == list(given["elements"])
    assert bytes(loaded["bytes"]) == bytes(given["bytes"])
    loaded["elements"][0] = 7.0
    assert loaded["tensor"][0].item() == 7.0  # one memory, as it was
    for name, arguments in (
        ("storage._of_cell", (b"no memory",)),
        ("typed_storage._rebuilt", (1, "float32")),
    ):
        with pytest.raises(CheckpointError):
            weft.load(io.BytesIO(pickle.dumps(Reduced(name, arguments))))


class Reduced:
    """What is pickled as a call of a function of `weft.tensor`."""

    def __init__(self, name: str, arguments: tuple[object, ...]) -> None:
        self.name, self.arguments = name, arguments

    def __reduce__(self) -> Any:
        module, name = self.name.split(".")
        return getattr(importlib.import_module(f"weft.tensor.{module}"), name), self.arguments
