"""The disk cache: whose directory it takes, damaged entries, the cap."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.engine.devices.cpu.kernel_files import disk_cache
from weft.engine.devices.cpu.kernel_files.disk_cache import DiskCache, default_directory

KEY = "ab" * 32


@pytest.fixture
def cache(tmp_path) -> DiskCache:
    return DiskCache(tmp_path / "kernels")


def test_what_is_stored_is_loaded(cache):
    assert cache.load(KEY) is None
    cache.store(KEY, b"code")
    assert cache.load(KEY) == b"code"
    assert DiskCache(cache.directory).load(KEY) == b"code"


def test_the_directory_and_its_entries_are_the_users_alone(cache):
    cache.store(KEY, b"code")
    assert os.stat(cache.directory).st_mode & 0o777 == 0o700
    assert os.stat(cache.path(KEY)).st_mode & 0o077 == 0


@pytest.mark.parametrize("mode", [0o755, 0o777, 0o770, 0o500])
def test_a_directory_with_another_mode_is_not_used(tmp_path, mode):
    tmp_path.chmod(mode)
    cache = DiskCache(tmp_path)
    tmp_path.chmod(0o700)
    assert cache.directory is None
    cache.store(KEY, b"code")
    assert cache.load(KEY) is None and cache.prune() == 0
    assert list(tmp_path.iterdir()) == []


def test_a_directory_of_somebody_else_is_not_used(tmp_path, monkeypatch):
    tmp_path.chmod(0o700)
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    assert DiskCache(tmp_path).directory is None


def test_a_symbolic_link_or_a_file_is_not_used(tmp_path):
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "file").write_text("")
    assert DiskCache(tmp_path / "link").directory is None
    assert DiskCache(tmp_path / "file").directory is None
    assert DiskCache(tmp_path / "file" / "below").directory is None


@given(st.data())
def test_any_damage_counts_as_absent(tmp_path_factory, data):
    cache = DiskCache(tmp_path_factory.mktemp("cache") / "kernels")
    cache.store(KEY, b"some object code")
    path = Path(cache.path(KEY))
    entry = bytearray(path.read_bytes())
    if data.draw(st.booleans(), label="truncate"):
        entry = entry[: data.draw(st.integers(0, len(entry) - 1))]
    else:
        entry[data.draw(st.integers(0, len(entry) - 1))] ^= data.draw(st.integers(1, 255))
    path.write_bytes(bytes(entry))
    assert cache.load(KEY) is None
    assert not path.exists()
    cache.store(KEY, b"some object code")
    assert cache.load(KEY) == b"some object code"


def test_an_entry_under_another_name_is_damaged(cache):
    cache.store(KEY, b"code")
    os.rename(cache.path(KEY), cache.path("cd" * 32))
    assert cache.load("cd" * 32) is None


def test_the_least_recently_used_go_above_the_cap(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "urandom", bytes)  # no look before the sixth write
    cache = DiskCache(tmp_path / "kernels", cap=1000)
    for number in range(6):
        cache.store(str(number), b"x" * 250)
        os.utime(cache.path(str(number)), (1000 + number, 1000 + number))
    assert cache.load("1") is not None  # a use: it is now the latest
    assert cache.prune() == 3
    assert [n for n in range(6) if os.path.exists(cache.path(str(n)))] == [1, 4, 5]


def test_looks_at_the_total_become_rare_where_there_is_much(cache, monkeypatch):
    """What a look takes grows with the entries: so does the number of writes until the next one."""
    looks = []
    entries = [(0.0, 1, str(Path(cache.directory) / "absent"))] * 10_000
    monkeypatch.setattr(disk_cache, "_entries", lambda directory: looks.append(1) or entries)
    for number in range(1000):
        cache.store(str(number), b"x")
    assert len(looks) == 2  # the first one within 256 writes, then after 625


def test_files_that_a_crash_left_are_cleared_and_fresh_ones_kept(cache):
    folder = Path(cache.directory)
    old, fresh = folder / "old.tmp", folder / "fresh.tmp"
    for path in (old, fresh):
        path.write_bytes(b"x")
    os.utime(old, (1000, 1000))
    small = DiskCache(cache.directory, cap=0)
    small.prune()
    assert not old.exists() and fresh.exists()


def test_a_write_that_fails_leaves_nothing(cache, monkeypatch):
    def refuse(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    cache.store(KEY, b"code")
    assert os.listdir(cache.directory) == []


def test_where_the_cache_stands(monkeypatch):
    monkeypatch.setenv("WEFT_CACHE_DIR", "/somewhere")
    assert default_directory() == "/somewhere"
    monkeypatch.setenv("WEFT_CACHE_DIR", "")
    assert default_directory() is None
    monkeypatch.delenv("WEFT_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert default_directory() == "/cache/weft/kernels"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/someone")
    assert default_directory() == "/home/someone/.cache/weft/kernels"
