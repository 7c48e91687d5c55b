"""Autocast where it is off, and by its older names for the CPU: devices, types, warnings, as in PyTorch."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import weft
from oracle import submodule, torch

both = pytest.mark.parametrize("lib", [weft, torch], ids=["weft", "torch"])


def _type_of_product(lib: Any) -> str:
    x = lib.ones(2, 2)
    return str((x @ x).dtype).rsplit(".", 1)[-1]


@both
def test_a_block_that_is_off_takes_any_type(lib: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with lib.autocast("cpu", dtype=lib.float32, enabled=False):
            assert _type_of_product(lib) == "float32"
            assert not lib.is_autocast_enabled("cpu")


@both
def test_another_type_turns_it_off_with_a_warning(lib: Any) -> None:
    with pytest.warns(UserWarning, match="In CPU autocast, but the target dtype is not supported"):
        block = lib.autocast("cpu", dtype=lib.float32)
    with block:
        assert _type_of_product(lib) == "float32"
    with lib.autocast("cpu", dtype=lib.float16):
        assert _type_of_product(lib) == "float16"


@both
def test_types_can_be_set_back(lib: Any) -> None:
    before = lib.get_autocast_dtype("cpu")
    assert before == lib.bfloat16
    for dtype in (lib.float32, lib.float16):
        lib.set_autocast_dtype("cpu", dtype)
        assert lib.get_autocast_dtype("cpu") == dtype
    with lib.autocast("cpu"):
        assert _type_of_product(lib) == "float16"
    lib.set_autocast_dtype("cpu", before)
    assert lib.get_autocast_dtype("cuda") == lib.float16


@both
def test_devices_are_named_by_strings(lib: Any) -> None:
    with pytest.raises(ValueError, match="Expected `device_type` of type `str`, got: `<class '"):
        lib.autocast(lib.device("cpu"))
    for call in (lib.autocast, lib.amp.is_autocast_available, lib.get_autocast_dtype):
        with pytest.raises(RuntimeError, match="Invalid device string: 'not a device'"):
            call("not a device")
        with pytest.raises(RuntimeError, match="Expected one of cpu, cuda, .*: nowhere"):
            call("nowhere")


@both
def test_the_older_names_of_the_cpu(lib: Any) -> None:
    older = submodule(f"{lib.__name__}.cpu.amp")
    with pytest.warns(FutureWarning, match=r"`torch.cpu.amp.autocast\(args...\)` is deprecated"):
        block = older.autocast()
    with block:
        assert _type_of_product(lib) == "bfloat16"
    with pytest.warns(FutureWarning):
        block = older.autocast(True, lib.float16)
    with block:
        assert _type_of_product(lib) == "float16"
    with pytest.warns(FutureWarning):
        block = older.autocast(False)
    with block:
        assert _type_of_product(lib) == "float32"
    with pytest.warns(FutureWarning, match=r"Please use `torch.amp.GradScaler\('cpu', args...\)`"):
        scaler = older.GradScaler(8.0)
    assert scaler.is_enabled()
    assert scaler.scale(lib.ones(1)).tolist() == [8.0]


@both
def test_the_plain_ranking_loss_broadcasts_and_the_functional_one_refuses(lib: Any) -> None:
    a, b, target = lib.arange(4.0).reshape(2, 2), lib.ones(2, 2), lib.tensor([1.0, -1.0])
    assert lib.margin_ranking_loss(a, b, target).tolist() == [[1.0, 0.0], [0.0, 2.0]]
    with pytest.raises(RuntimeError, match=r"input1: torch.Size\(\[2, 2\]\), input2: torch.Size"):
        lib.nn.functional.margin_ranking_loss(a, b, target)


@pytest.mark.parametrize(
    "text", ["not a device", "nowhere", "cpu:", "CPU", "cuda:x", "a1", "a_b", "", "é"]
)
def test_the_words_for_no_device_are_pytorchs(text: str) -> None:
    with pytest.raises(RuntimeError) as expected:
        torch.device(text)
    with pytest.raises(RuntimeError) as found:
        weft.device(text)
    assert str(found.value).startswith(str(expected.value).splitlines()[0])
