"""Copies written past the caches: every byte of every line, none beside it, wherever the lines lie."""

from __future__ import annotations

import numpy as np
import pytest

from kernel_jit import Function, address
from weft.engine.devices.cpu.kernels.streaming_copy import launch_lines, lower_lines
from weft.engine.devices.cpu.llvm.target import AVX2, AVX512, NEON, host, last_cache

TARGETS = [target for target in (AVX512, AVX2, NEON) if host() == AVX512 or target != AVX512]


def aligned(count: int, start: int) -> np.ndarray:
    """Bytes of which the first lies `start` behind a line of the cache."""
    raw = np.zeros(count + 192, np.uint8)
    first = -address(raw) % 64 + start
    return raw[first : first + count]


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize("start", [0, 1, 16, 63])
@pytest.mark.parametrize("length", [0, 1, 63, 64, 65, 500, 2048])
def test_lines_anywhere(length, start, target):
    function = Function(lower_lines("lines", target), ["lines"], target)
    rows, source_step, out_step = 5, length + 7, length + (64 if start == 0 else 3)
    source = aligned(rows * source_step + 1, 5)
    source[:] = np.random.default_rng(length).integers(1, 256, source.size)
    out = aligned(rows * out_step + 64, start)
    for begin, end in ((0, 2), (2, 2), (2, rows)):
        arguments = [rows, length, source_step, out_step]
        function("lines", [address(source), address(out)], arguments, begin, end)
    expected = np.zeros_like(out)
    for row in range(rows):
        line = source[row * source_step : row * source_step + length]
        expected[row * out_step : row * out_step + length] = line
    np.testing.assert_array_equal(out, expected)


def test_what_a_thread_takes():
    assert launch_lines(100, 2048) == (100, 64)
    assert launch_lines(3, 1 << 20) == (3, 1)
    assert last_cache() >= 1 << 18
