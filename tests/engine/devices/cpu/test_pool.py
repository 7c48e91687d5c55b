"""The memory pool: alignment, reuse, waste, what is given back and what is refused."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.config import config
from weft.engine.devices.api import default_device
from weft.engine.devices.cpu import pool
from weft.errors import OutOfMemoryError

MEGABYTE = 1 << 20
pooled = pytest.mark.skipif(
    bool(config.guard),
    reason="WEFT_GUARD gives each buffer pages of its own: at any address, and never used again",
)


@pooled
@given(st.integers(0, 8 * MEGABYTE))
def test_a_block_is_aligned_and_wastes_at_most_an_eighth(nbytes):
    pool.trim()  # a free block of the next sizes would be taken
    buffer = pool.allocate(nbytes)
    assert buffer.address % 64 == 0
    assert buffer.nbytes == nbytes
    assert nbytes <= buffer.capacity <= max(nbytes * 1.125, nbytes + 63, 64)


@given(st.lists(st.integers(1, 100_000), min_size=2, max_size=30))
def test_live_blocks_do_not_overlap(sizes):
    buffers = [pool.allocate(size) for size in sizes]
    spans = sorted((b.address, b.address + b.capacity) for b in buffers)
    assert all(end <= start for (_, end), (start, _) in zip(spans, spans[1:], strict=False))


@pooled
@pytest.mark.parametrize("nbytes", [1, 64, 5000, 100_000, 3 * MEGABYTE])
def test_a_freed_block_is_the_next_one_handed_out(nbytes):
    buffer = pool.allocate(nbytes)
    address = buffer.address
    before = pool.stats()["mappings"]
    del buffer
    again = pool.allocate(nbytes)
    assert again.address == address
    assert pool.stats()["mappings"] == before


@pooled
def test_a_big_block_may_serve_a_slightly_smaller_request():
    pool.trim()
    buffer = pool.allocate(40 * MEGABYTE)
    address = buffer.address
    del buffer
    smaller = pool.allocate(36 * MEGABYTE)
    assert smaller.address == address


@pooled
def test_stats_count_what_is_live():
    before = pool.stats()["allocated"]
    buffer = pool.allocate(1000)
    assert pool.stats()["allocated"] == before + buffer.capacity
    pool.reset_peak()
    pool.allocate(5 * MEGABYTE)
    assert pool.stats()["peak"] >= before + 5 * MEGABYTE
    del buffer
    assert pool.stats()["allocated"] == before


@pooled
def test_trim_gives_free_blocks_back_and_keeps_live_ones():
    kept = pool.allocate(5 * MEGABYTE)
    np.frombuffer(kept, np.uint8)[:] = 7
    pool.allocate(30 * MEGABYTE)
    assert pool.stats()["idle"] >= 30 * MEGABYTE
    assert pool.trim() >= 30 * MEGABYTE
    assert pool.stats()["idle"] == 0
    assert (np.frombuffer(kept, np.uint8) == 7).all()


def test_blocks_above_the_idle_cap_go_back_at_once():
    pool.trim()
    pool.set_idle(nbytes=10 * MEGABYTE)
    try:
        blocks = [pool.allocate(6 * MEGABYTE) for _ in range(4)]
        del blocks
        assert pool.stats()["idle"] <= 10 * MEGABYTE
    finally:
        pool.set_idle(nbytes=1 << 40)


@pooled
def test_blocks_that_have_idled_go_back_with_the_next_free():
    pool.trim()
    pool.set_idle(seconds=0.02)
    try:
        pool.allocate(30 * MEGABYTE)
        assert pool.stats()["idle"] >= 30 * MEGABYTE
        time.sleep(0.05)
        pool.allocate(3 * MEGABYTE)
        assert pool.stats()["idle"] < 4 * MEGABYTE
    finally:
        pool.set_idle(seconds=10)


def test_ten_terabytes_are_refused_before_anything_is_touched():
    before = pool.stats()
    with pytest.raises(OutOfMemoryError) as caught:
        pool.allocate(10 * 10**12)
    assert isinstance(caught.value, MemoryError) and isinstance(caught.value, RuntimeError)
    assert "10,000,000,000,000 bytes" in caught.value.got
    assert "free tensors" in caught.value.fix
    assert pool.stats() == before


def test_a_refused_small_mapping_is_an_error_not_a_crash():
    """Under a tight address space limit the system says no: trim, retry, then raise."""
    program = """
import resource
from weft.engine.devices.cpu import pool
from weft.errors import OutOfMemoryError
free = pool.allocate(64 << 20)
del free
used = int(open("/proc/self/statm").read().split()[0]) * 4096
resource.setrlimit(resource.RLIMIT_AS, (used + (40 << 20), -1))
held = [pool.allocate(48 << 20)]  # fits only in what trimming returns
try:
    while True:
        held.append(pool.allocate(1 << 20))
except OutOfMemoryError as error:
    print("refused")
"""
    environment = {**os.environ, "WEFT_GUARD": ""}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment
    )
    assert done.stdout == "refused\n", done.stderr


def test_a_budget_bounds_what_is_live():
    pool.set_budget(pool.stats()["allocated"] + MEGABYTE)
    try:
        buffer = pool.allocate(MEGABYTE // 2)
        with pytest.raises(OutOfMemoryError, match="memory budget"):
            pool.allocate(MEGABYTE)
        del buffer
        pool.allocate(MEGABYTE)
    finally:
        pool.set_budget(None)
    with pytest.raises(ValueError, match="positive"):
        pool.set_budget(0)


def test_negative_sizes_are_refused():
    with pytest.raises(ValueError, match="nbytes >= 0"):
        pool.allocate(-1)
    with pytest.raises(ValueError, match="nbytes >= 0"):
        pool.wrap(0, -1, None)


@pooled
def test_numpy_sees_the_memory_without_a_copy_and_keeps_it():
    buffer = pool.allocate(4096)
    address = buffer.address
    array = np.frombuffer(buffer, np.float32)
    assert array.ctypes.data == address and array.flags.writeable
    array[:] = 3
    del buffer
    other = pool.allocate(4096)
    assert other.address != address
    assert (array == 3).all()
    del array
    assert pool.allocate(4096).address == address


def test_foreign_memory_is_kept_alive_and_never_pooled():
    array = np.arange(10, dtype=np.int64)
    references = sys.getrefcount(array)
    buffer = pool.wrap(array.ctypes.data, array.nbytes, array, True)
    assert buffer.foreign and buffer.owner is array and buffer.capacity == 80
    assert sys.getrefcount(array) == references + 1
    view = np.frombuffer(buffer, np.int64)
    assert not view.flags.writeable and (view == array).all()
    before = pool.stats()
    del view, buffer
    assert sys.getrefcount(array) == references
    assert pool.stats() == before


def test_buffers_are_outside_the_collector_and_made_by_the_pool_only():
    assert not gc.is_tracked(pool.allocate(10))
    with pytest.raises(TypeError, match="allocate"):
        pool.PooledBuffer()


def test_fill_marks_memory_that_was_never_written():
    pool.set_fill(0xFF)
    try:
        assert np.isnan(np.frombuffer(pool.allocate(64), np.float32)).all()
    finally:
        pool.set_fill(None)


@pooled
def test_arenas_of_programs_that_take_turns_share_one_block():
    arena = default_device().memory.allocate_arena
    pool.trim()
    before = pool.stats()
    for megabytes in (3, 5, 4, 2, 5):
        buffer = arena(megabytes * MEGABYTE)
        assert pool.stats()["allocated"] == before["allocated"] + megabytes * MEGABYTE
        del buffer
    assert pool.stats()["mappings"] == before["mappings"] + 2
    assert pool.stats()["reserved"] == before["reserved"] + 5 * MEGABYTE
    assert pool.trim() == 5 * MEGABYTE


@pooled
def test_two_arenas_at_a_time_leave_the_larger_one():
    arena = default_device().memory.allocate_arena
    pool.trim()
    before = pool.stats()["idle"]
    large, small = arena(4 * MEGABYTE), arena(MEGABYTE)
    assert large.nbytes == 4 * MEGABYTE and small.nbytes == MEGABYTE
    del large, small
    assert pool.stats()["idle"] == before + 4 * MEGABYTE
    pool.trim()
