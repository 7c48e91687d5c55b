"""Saving then loading is the identity; damaged and foreign files are named."""

from __future__ import annotations

import io
from pathlib import Path

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


def test_things_that_files_do_not_hold_are_named(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    weft.save({"a": 1}, path)
    with pytest.raises(TypeError, match=r"save: model is a Linear; .* save a state_dict\(\)"):
        weft.save({"model": nn.Linear(1, 1)}, path)
    with pytest.raises(TypeError, match="float as key"):
        weft.save({1.5: 1}, path)
    assert weft.load(path) == {"a": 1}
    assert [file.name for file in tmp_path.iterdir()] == ["kept"]


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
