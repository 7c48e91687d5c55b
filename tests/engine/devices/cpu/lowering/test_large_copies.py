"""Copies of more than the last cache holds are written past it, and are the copies that they were."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.debug import stages
from weft.engine.devices.cpu.llvm import target

SHAPES = [(700, 512), (700, 515), (64, 9001), (20000, 33), (1, 400000)]


@pytest.fixture(autouse=True)
def small_cache(monkeypatch):
    monkeypatch.setattr(target, "last_cache", lambda: 1 << 20)


def numbers(shape, dtype="float32") -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_cat(shape, dim, threads):
    before = weft.get_num_threads()
    weft.set_num_threads(threads)
    try:
        parts = [numbers(shape) + number for number in range(3)]
        got = weft.cat([weft.tensor(part) for part in parts], dim).numpy()
        np.testing.assert_array_equal(got, np.concatenate(parts, dim))
    finally:
        weft.set_num_threads(before)


@pytest.mark.parametrize("dtype", ["float64", "int16", "complex128", "bool"])
def test_types(dtype):
    parts = [numbers((600, 1001)).astype(dtype) for _ in range(2)]
    got = weft.cat([weft.tensor(part) for part in parts], 1).numpy()
    np.testing.assert_array_equal(got, np.concatenate(parts, 1))


def test_what_was_written_is_read_by_the_next_kernel():
    parts = [numbers((700, 513)) for _ in range(3)]
    joined = weft.cat([weft.tensor(part) for part in parts], 1)
    np.testing.assert_array_equal((joined * 2).numpy(), np.concatenate(parts, 1) * 2)


def test_regions_of_foreign_memory():
    """Memory that begins anywhere is written to as elsewhere."""
    raw = np.zeros(700 * 1500 + 3, "float32")
    base = raw[3:].reshape(700, 1500)
    part = numbers((700, 900))
    tensor = weft.from_numpy(base)
    tensor[:, 101:1001] = weft.tensor(part)
    np.testing.assert_array_equal(tensor.numpy()[:, 101:1001], part)
    assert not tensor.numpy()[:, :101].any() and not tensor.numpy()[:, 1001:].any()


def test_only_long_lines_take_this_way(monkeypatch):
    def launches(shape):
        parts = [weft.tensor(numbers(shape)) for _ in range(2)]
        return stages(lambda: weft.cat(parts, 1).sum())["lower"]

    assert " lines " in launches((700, 515))
    assert " lines " not in launches((20000, 33))
    monkeypatch.setattr(target, "last_cache", lambda: 1 << 30)
    assert " lines " not in launches((700, 516))
