"""Stores: the answers of PyTorch's, in one process and between threads, and errors for what does not come."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import weft.distributed as dist
from oracle import torch

SHORT = timedelta(milliseconds=50)
LONG = timedelta(seconds=60)


def tcp(library: Any, folder: Path) -> Any:
    return library.TCPStore("127.0.0.1", 0, 1, True, LONG)


def file(library: Any, folder: Path) -> Any:
    return library.FileStore(str(folder / library.__name__), 1)


def memory(library: Any, folder: Path) -> Any:
    return library.HashStore()


MADE = [tcp, file, memory]


def answers(store: Any) -> list[Any]:
    """What a store says in turn."""
    said = [store.set("a", "one"), store.get("a"), store.add("n", 2), store.add("n", 40)]
    said += [store.get("n"), store.compare_set("a", "other", "two"), store.get("a")]
    said += [store.compare_set("a", "one", "two"), store.get("a")]
    said += [store.check(["a"]), store.check(["a", "b"])]
    store.set("b", b"\x00\xff")
    return [*said, store.wait(["a", "b"]), store.get("b")]


@pytest.mark.parametrize("make", MADE)
def test_answers_are_those_of_pytorch(make: Callable[[Any, Path], Any], tmp_path: Path) -> None:
    assert answers(make(dist, tmp_path)) == answers(make(torch.distributed, tmp_path))


@pytest.mark.parametrize("make", [tcp, memory])
def test_further_answers_are_those_of_pytorch(
    make: Callable[[Any, Path], Any], tmp_path: Path
) -> None:
    found = []
    for library in (dist, torch.distributed):
        store = make(library, tmp_path)
        store.multi_set(["a", "b"], ["1", "2"])
        store.append("a", "0")
        inner = library.PrefixStore("within", store)
        inner.set("k", "v")
        said = [
            store.multi_get(["a", "b"]),
            store.num_keys(),
            inner.get("k"),
            store.get("within/k"),
        ]
        said += [store.delete_key("b"), store.delete_key("b"), store.check(["b"])]
        said += [store.compare_set("new", "", "x"), store.get("new"), inner.check(["k"])]
        found.append(said)
    assert found[0] == found[1]


@pytest.mark.parametrize("make", MADE)
def test_threads_count_together(make: Callable[[Any, Path], Any], tmp_path: Path) -> None:
    store = make(dist, tmp_path)

    def count() -> None:
        for _ in range(10):
            store.add("n", 1)

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.get("n") == b"40"


@pytest.mark.parametrize("make", MADE)
def test_what_does_not_come(make: Callable[[Any, Path], Any], tmp_path: Path) -> None:
    store = make(dist, tmp_path)
    store.set_timeout(SHORT)
    assert store.timeout == SHORT and store.has_extended_api()
    with pytest.raises(dist.DistStoreError, match="wait timeout after 50ms, keys: absent"):
        store.get("absent")
    store.set("text", "no number")
    with pytest.raises(dist.DistStoreError, match="use another key for set"):
        store.add("text", 1)
    with pytest.raises(TypeError, match=r"pass str\(value\)"):
        store.set("a", 3)
    assert not store.check(["a"]) and "text" in store.list_keys()


def test_words_for_addresses_that_cannot_be_used(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(dist.DistNetworkError, match="start one process with is_master=True"):
            dist.TCPStore("127.0.0.1", port, 1, False, SHORT)
    with pytest.raises(ValueError, match="there is no port 70000"):
        dist.TCPStore("127.0.0.1", 70000)
    with pytest.raises(dist.DistStoreError, match="waiting for 2 processes"):
        dist.TCPStore("127.0.0.1", 0, 2, True, SHORT)
    with pytest.raises(dist.DistStoreError, match="name another file"):
        dist.FileStore(tmp_path / "no folder" / "store")


def test_a_server_closes_connections_that_say_nonsense() -> None:
    store = dist.TCPStore("127.0.0.1", 0, 1, True, LONG)
    for content in (
        struct.pack("!ii", 1, 1 << 30),
        struct.pack("!ii4s", 1, 4, b"what"),
        struct.pack("!iii", 2, 4, -1),
    ):
        with socket.create_connection(("127.0.0.1", store.port), 60) as other:
            other.sendall(content + b"\0" * 64)
            try:
                assert other.recv(1) == b""
            except ConnectionResetError:
                continue
    store.set("still", "there")
    assert store.get("still") == b"there"
