"""Stores: keys and values that processes share, with PyTorch's names. `HashStore` is in the memory of one process,
`FileStore` in a file, `TCPStore` with the process that serves it; `PrefixStore` names keys of another store.

Programs use them to agree on something before or beside a group; a group itself needs none here, as its launcher has
brought the processes together. A store reads a key, replaces a value where nobody else has meanwhile, and lists keys:
all else is made of these three. Waiting is asking again.
"""

from __future__ import annotations

import os
import socket
import socketserver
import sqlite3
import struct
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import closing
from copy import copy
from datetime import timedelta
from typing import Self

from weft.distributed.errors import DistNetworkError, DistStoreError, QueueEmptyError
from weft.errors import ArgumentError, ArgumentTypeError

Key = str
Value = str | bytes
Swap = Callable[[bytes | None], bytes | None]
DEFAULT_TIMEOUT = timedelta(minutes=5)
ASK_EVERY_S = 0.01
MOST_BYTES = 1 << 26  # of a message
_WORKERS = "init/"  # how many processes have come to a TCPStore
_QUEUES = "\x1fqueue/"  # before the keys of queues, which are listed nowhere
_LENGTH = struct.Struct("!I")


def _bytes(value: object, name: str) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    raise ArgumentTypeError(
        f"{name}: a store holds text and bytes",
        expected="str or bytes",
        got=type(value).__name__,
        fix="pass str(value)",
    )


def _queued(content: bytes | None) -> list[bytes]:
    """The values of a queue: each a length and as many bytes."""
    found, first = [], 0
    while content is not None and first < len(content):
        (length,) = _LENGTH.unpack_from(content, first)
        first += _LENGTH.size
        found.append(content[first : first + length])
        first += length
    return found


def _as_queue(values: Sequence[bytes]) -> bytes | None:
    """The content of a queue of some values; None of an empty one."""
    return b"".join(_LENGTH.pack(len(value)) + value for value in values) or None


def _listed(keys: Sequence[str]) -> list[str]:
    """Keys without those of queues."""
    return [key for key in keys if not key.startswith(_QUEUES)]


class Store:
    """Keys and values that processes share: the methods of all stores."""

    _timeout = DEFAULT_TIMEOUT

    # -- the three that each store has for itself ------------------------------------------------------------------

    def _read(self, key: str) -> bytes | None:
        """The value of a key, or None."""
        raise NotImplementedError

    def _swap(self, key: str, expected: bytes | None, desired: bytes | None) -> bool:
        """Give a key another value, or none, if it has the expected one; True if it had."""
        raise NotImplementedError

    def list_keys(self) -> list[str]:
        """All keys."""
        raise NotImplementedError

    # -- values ----------------------------------------------------------------------------------------------------

    def _change(self, key: str, change: Swap) -> tuple[bytes | None, bytes | None]:
        """Replace a value by what a function makes of it; the values before and behind."""
        while True:
            before = self._read(key)
            after = change(before)
            if after == before or self._swap(key, before, after):
                return before, after

    def set(self, key: Key, value: Value) -> None:
        """Give a key a value.

        Args:
            key: a text.
            value: text or bytes.

        Example:
            >>> import weft.distributed as dist
            >>> store = dist.HashStore()
            >>> store.set("lr", "0.1")
            >>> store.get("lr")
            b'0.1'
        """
        content = _bytes(value, "set")
        self._change(key, lambda before: content)

    def get(self, key: Key) -> bytes:
        """The value of a key, once it has one.

        Args:
            key: a text.

        Raises:
            DistStoreError if that takes longer than the timeout.

        Example:
            >>> import weft.distributed as dist
            >>> store = dist.HashStore()
            >>> store.set("address", "node0:2000")
            >>> store.get("address")
            b'node0:2000'
        """
        self.wait([key])
        found = self._read(key)
        return self.get(key) if found is None else found

    def add(self, key: Key, amount: int) -> int:
        """Add to the number that is a key's value, 0 where it has none; the sum.

        Args:
            key: a text.
            amount: a whole number.

        Raises:
            DistStoreError for a value that is no number.

        Example:
            >>> import weft.distributed as dist
            >>> store = dist.HashStore()
            >>> store.add("ready", 1), store.add("ready", 2)
            (1, 3)
        """

        def added(before: bytes | None) -> bytes:
            try:
                return str(int(before or b"0") + int(amount)).encode()
            except ValueError:
                raise DistStoreError(
                    f"add: the value of {key!r} is no number",
                    expected="a value that add has made",
                    got=repr(before),
                    fix="use another key for set",
                ) from None

        return int(self._change(key, added)[1] or 0)

    def append(self, key: Key, value: Value) -> None:
        """Put more behind a value.

        Args:
            key: a text.
            value: text or bytes.
        """
        content = _bytes(value, "append")
        self._change(key, lambda before: (before or b"") + content)

    def compare_set(self, key: Key, expected_value: Value, desired_value: Value) -> bytes:
        """Replace a value if it is the expected one; empty text is also expected of a key without a value. The value
        that the key has then, or the expected one where it has none.

        Args:
            key: a text.
            expected_value: the value that is replaced.
            desired_value: the value that it gets.

        Example:
            >>> import weft.distributed as dist
            >>> store = dist.HashStore()
            >>> store.compare_set("leader", "", "rank 0"), store.compare_set("leader", "", "rank 1")
            (b'rank 0', b'rank 0')
        """
        expected = _bytes(expected_value, "compare_set")
        desired = _bytes(desired_value, "compare_set")

        def chosen(before: bytes | None) -> bytes | None:
            is_expected = not expected if before is None else before == expected
            return desired if is_expected else before

        after = self._change(key, chosen)[1]
        return expected if after is None else after

    def delete_key(self, key: Key) -> bool:
        """Forget a key; True if there was one.

        Args:
            key: a text.

        Example:
            >>> import weft.distributed as dist
            >>> store = dist.HashStore()
            >>> store.set("lr", "0.1")
            >>> store.delete_key("lr"), store.num_keys()
            (True, 0)
        """
        return self._change(key, lambda before: None)[0] is not None

    def check(self, keys: Sequence[Key]) -> bool:
        """True if all keys have values.

        Args:
            keys: a list of texts.

        Example:
            >>> import weft.distributed as dist
            >>> store = dist.HashStore()
            >>> store.set("lr", "0.1")
            >>> store.check(["lr"]), store.check(["lr", "steps"])
            (True, False)
        """
        return all(
            self._read(key) is not None or self._read(_QUEUES + key) is not None for key in keys
        )

    def wait(self, keys: Sequence[Key], timeout: timedelta | None = None) -> None:
        """Wait until all keys have values.

        Args:
            keys: a list of texts.
            timeout: how long at most, a timedelta; None: the store's own timeout.

        Raises:
            DistStoreError if that takes longer than the timeout.
        """
        within = self._timeout if timeout is None else timeout
        deadline = time.monotonic() + within.total_seconds()
        while not self.check(keys):
            if time.monotonic() > deadline:
                missing = [key for key in keys if self._read(key) is None]
                raise DistStoreError(
                    f"wait timeout after {within // timedelta(milliseconds=1)}ms, keys: {', '.join(missing)}",
                    expected="values of all keys",
                    got=f"none of {missing}",
                    fix="set them in another process, or pass a longer timeout",
                )
            time.sleep(ASK_EVERY_S)

    def multi_get(self, keys: Sequence[Key]) -> list[bytes]:
        """The values of some keys, once all have some.

        Args:
            keys: a list of texts.
        """
        return [self.get(key) for key in keys]

    def multi_set(self, keys: Sequence[Key], values: Sequence[Value]) -> None:
        """Give each of some keys a value.

        Args:
            keys: a list of texts.
            values: a value for each key.
        """
        for key, value in zip(keys, values, strict=True):
            self.set(key, value)

    def num_keys(self) -> int:
        """The number of keys, of a `TCPStore` one more: it counts its processes."""
        return len(self.list_keys())

    def has_extended_api(self) -> bool:
        """True: there are append, multi_get and multi_set."""
        return True

    # -- queues ----------------------------------------------------------------------------------------------------

    def queue_push(self, key: Key, value: Value) -> None:
        """Put a value behind those of a queue.

        Args:
            key: a text.
            value: text or bytes.

        Example:
            >>> import weft.distributed as dist
            >>> store = dist.HashStore()
            >>> store.queue_push("jobs", "first")
            >>> store.queue_len("jobs"), store.queue_pop("jobs")
            (1, b'first')
        """
        content = _bytes(value, "queue_push")
        self._change(_QUEUES + key, lambda before: _as_queue([*_queued(before), content]))

    def queue_pop(self, key: Key, block: bool = True) -> bytes:
        """Take the first value of a queue, once there is one.

        Args:
            key: a text.
            block: False: raise an error where there is none. Default: True.

        Raises:
            DistStoreError if that takes longer than the timeout; QueueEmptyError, which is one,
            at once without `block`.
        """
        deadline = time.monotonic() + self._timeout.total_seconds()
        while True:
            before, _ = self._change(_QUEUES + key, lambda before: _as_queue(_queued(before)[1:]))
            if values := _queued(before):
                return values[0]
            if not block or time.monotonic() > deadline:
                raise _nothing_queued(key, block)
            time.sleep(ASK_EVERY_S)

    def queue_len(self, key: Key) -> int:
        """The number of values in a queue.

        Args:
            key: a text.
        """
        return len(_queued(self._read(_QUEUES + key)))

    # -- waiting ---------------------------------------------------------------------------------------------------

    def barrier(self, key: Key, world_size: int, timeout: timedelta | None = None) -> None:
        """Wait until so many processes have called this with the key.

        Args:
            key: a text.
            world_size: how many processes.
            timeout: how long at most, a timedelta; None: the store's own timeout.

        Raises:
            DistStoreError if that takes longer than the timeout.
        """
        if self.add(f"{key}/came", 1) >= world_size:
            self.set(f"{key}/all", b"1")
        self.wait([f"{key}/all"], timeout)

    def clone(self) -> Self:
        """Another object for the same keys and values."""
        return copy(self)

    @property
    def timeout(self) -> timedelta:
        """The time that get and wait wait."""
        return self._timeout

    def set_timeout(self, timeout: timedelta) -> None:
        """Have get and wait wait so long.

        Args:
            timeout: how long at most, a timedelta.
        """
        self._timeout = timeout


def _nothing_queued(key: Key, waited: bool) -> DistStoreError:
    cls = DistStoreError if waited else QueueEmptyError
    return cls(
        "Wait timeout" if waited else "queue is empty",
        expected=f"a value in the queue {key!r}",
        got="none",
        fix="call queue_push in another process, or pass block=True to wait for that",
    )


class HashStore(Store):
    """A store in the memory of this process, for its threads.

    Example:
        >>> import weft.distributed as dist
        >>> store = dist.HashStore()
        >>> store.set("address", "node0:2000")
        >>> store.get("address"), store.add("ready", 1)
        (b'node0:2000', 1)
    """

    def __init__(self) -> None:
        self._values: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def _read(self, key: str) -> bytes | None:
        return self._values.get(key)

    def _swap(self, key: str, expected: bytes | None, desired: bytes | None) -> bool:
        with self._lock:
            if self._values.get(key) != expected:
                return False
            if desired is None:
                self._values.pop(key, None)
            else:
                self._values[key] = desired
            return True

    def list_keys(self) -> list[str]:
        """All keys."""
        with self._lock:
            return _listed(list(self._values))


class PrefixStore(Store):
    """A store whose keys are those of another one behind a prefix.

    Args:
        prefix: what stands before each key, with a `/` between them.
        store: the other one, which holds the values.

    Example:
        >>> import weft.distributed as dist
        >>> store = dist.HashStore()
        >>> dist.PrefixStore("run1", store).set("step", "7")
        >>> dist.PrefixStore("run2", store).check(["step"])  # names of their own
        False
    """

    def __init__(self, prefix: str, store: Store) -> None:
        self._prefix, self.underlying_store = prefix, store
        self._timeout = store.timeout

    def _named(self, key: str) -> str:
        """The key in the other store."""
        if key.startswith(_QUEUES):
            return f"{_QUEUES}{self._prefix}/{key.removeprefix(_QUEUES)}"
        return f"{self._prefix}/{key}"

    def _read(self, key: str) -> bytes | None:
        return self.underlying_store._read(self._named(key))

    def _swap(self, key: str, expected: bytes | None, desired: bytes | None) -> bool:
        return self.underlying_store._swap(self._named(key), expected, desired)

    def list_keys(self) -> list[str]:
        """The keys of the other store, with their prefixes."""
        return self.underlying_store.list_keys()


class FileStore(Store):
    """A store in a file that all processes see, an SQLite database.

    Args:
        file_name: the file, made where there is none.
        world_size: accepted.

    Example:
        >>> import tempfile
        >>> import weft.distributed as dist
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     store = dist.FileStore(f"{folder}/store", 1)
        ...     store.set("address", "node0:2000")
        ...     print(store.get("address"))
        b'node0:2000'
    """

    def __init__(self, file_name: str | os.PathLike[str], world_size: int = -1) -> None:
        self.path = os.fspath(file_name)
        try:
            self._execute("CREATE TABLE IF NOT EXISTS pairs (key TEXT PRIMARY KEY, value BLOB)")
        except sqlite3.Error as error:
            raise DistStoreError(
                f"FileStore: {self.path} cannot be used",
                expected="a new file in a folder that is there, or one of a FileStore",
                got=str(error),
                fix="name another file",
            ) from error

    def _execute(
        self, command: str, *values: str | bytes
    ) -> tuple[list[tuple[str | bytes, ...]], int]:
        """The rows that a command gives, and how many it has changed."""
        with (
            closing(sqlite3.connect(self.path, timeout=self._timeout.total_seconds())) as database,
            database,
        ):
            done = database.execute(command, values)
            return done.fetchall(), done.rowcount

    def _read(self, key: str) -> bytes | None:
        rows, _ = self._execute("SELECT value FROM pairs WHERE key = ?", key)
        return bytes(rows[0][0]) if rows else None  # type: ignore[arg-type]  # a BLOB

    def _swap(self, key: str, expected: bytes | None, desired: bytes | None) -> bool:
        values: list[str | bytes] = [key, expected or b""]
        command = "DELETE FROM pairs WHERE key = ? AND value = ?"
        if desired is not None and expected is None:
            command, values = "INSERT OR IGNORE INTO pairs VALUES (?, ?)", [key, desired]
        elif desired is not None:
            command = "UPDATE pairs SET value = ? WHERE key = ? AND value = ?"
            values = [desired, *values]
        return self._execute(command, *values)[1] == 1

    def list_keys(self) -> list[str]:
        """All keys."""
        return _listed([str(row[0]) for row in self._execute("SELECT key FROM pairs")[0]])


# -- over a network ------------------------------------------------------------------------------------------------

# A message is a number of fields, each a length (-1: None) and as many bytes.
_NUMBER = struct.Struct("!i")
Fields = Sequence[bytes | None]


def _send(connection: socket.socket, fields: Fields) -> None:
    parts = [_NUMBER.pack(len(fields))]
    for field in fields:
        parts += [_NUMBER.pack(-1)] if field is None else [_NUMBER.pack(len(field)), field]
    connection.sendall(b"".join(parts))


def _exactly(connection: socket.socket, count: int) -> bytes:
    """Bytes that come. Errors: ConnectionError where the other side has closed, or says nonsense."""
    if not 0 <= count <= MOST_BYTES:
        raise ConnectionError(f"a message of {count} bytes")
    found = bytearray()
    while len(found) < count:
        more = connection.recv(count - len(found))
        if not more:
            raise ConnectionError("the other side has closed the connection")
        found += more
    return bytes(found)


def _receive(connection: socket.socket) -> list[bytes | None]:
    (count,) = _NUMBER.unpack(_exactly(connection, _NUMBER.size))
    if not 0 <= count <= MOST_BYTES // _NUMBER.size:
        raise ConnectionError(f"a message of {count} fields")
    fields: list[bytes | None] = []
    for _ in range(count):
        (length,) = _NUMBER.unpack(_exactly(connection, _NUMBER.size))
        fields.append(None if length == -1 else _exactly(connection, length))
    return fields


class _Handler(socketserver.BaseRequestHandler):
    """The thread of a connection."""

    server: _Server

    def handle(self) -> None:
        """Answer until the other side goes, or says what no store says."""
        try:
            while True:
                _send(self.request, self._answer(_receive(self.request)))
        except (OSError, ValueError):
            return

    def _answer(self, fields: Fields) -> Fields:
        held = self.server.held
        if len(fields) == 1 and fields[0] == b"keys":
            return [key.encode() for key in held.list_keys()]
        verb, key, *values = fields
        if verb == b"read" and key is not None and not values:
            return [held._read(key.decode())]
        if verb == b"swap" and key is not None and len(values) == 2:
            return [b"1" if held._swap(key.decode(), values[0], values[1]) else None]
        raise ValueError("not a message of a store")


class _Server(socketserver.ThreadingTCPServer):
    """The process that holds the values of a `TCPStore`."""

    daemon_threads = allow_reuse_address = True

    def __init__(self, address: tuple[str, int]) -> None:
        self.held = HashStore()
        super().__init__(address, _Handler)
        threading.Thread(target=self.serve_forever, name="weft-store", daemon=True).start()

    def end(self) -> None:
        """Listen no more."""
        self.shutdown()
        self.server_close()


class TCPStore(Store):
    """A store that one process serves to others over a network; it listens at the address that is given.

    Args:
        host_name: the address of the process that serves it.
        port: its port; for that process 0 may be any free one, which `port` then says.
        world_size: the number of processes, if they are to wait for each other.
        is_master: whether this process serves it.
        timeout: how long to wait for a connection, for values and for the other processes.
        wait_for_workers: have the serving process wait until all have come.
        multi_tenant, master_listen_fd, use_libuv: accepted.

    Errors: DistNetworkError (a RuntimeError) where there is no connection; DistStoreError for what does not come in
    time.
    """

    _origin: TCPStore | None = None

    def __init__(
        self,
        host_name: str,
        port: int,
        world_size: int | None = None,
        is_master: bool = False,
        timeout: timedelta = DEFAULT_TIMEOUT,
        wait_for_workers: bool = True,
        multi_tenant: bool = False,
        master_listen_fd: int | None = None,
        use_libuv: bool = True,
    ) -> None:
        if not 0 <= port < 1 << 16:
            raise ArgumentError(
                f"TCPStore: there is no port {port}",
                expected="0 <= port < 65536",
                got=str(port),
                fix="pass 0 for any free one",
            )
        self.host, self._timeout, self._lock = host_name, timeout, threading.Lock()
        self.port = self._serve(port) if is_master else port
        self._connection = self._connect()
        self.add(_WORKERS, 1)
        if is_master and wait_for_workers and world_size:
            self._wait_for(world_size)

    def _serve(self, port: int) -> int:
        try:
            server = _Server((self.host, port))
        except OSError as error:
            raise self._unreachable(port, error) from error
        weakref.finalize(self, server.end)
        return int(server.server_address[1])

    def _connect(self) -> socket.socket:
        deadline = time.monotonic() + self._timeout.total_seconds()
        while True:
            try:
                left = max(deadline - time.monotonic(), ASK_EVERY_S)
                found = socket.create_connection((self.host, self.port), left)
            except OSError as error:
                if time.monotonic() > deadline:
                    raise self._unreachable(self.port, error) from error
                time.sleep(ASK_EVERY_S)
            else:
                found.settimeout(None)
                found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                weakref.finalize(self, found.close)
                return found

    def clone(self) -> Self:
        """Another connection to the same store."""
        found = copy(self)
        found._lock = threading.Lock()
        found._connection = found._connect()
        found._origin = self  # which serves it, perhaps
        return found

    def _unreachable(self, port: int, error: OSError) -> DistNetworkError:
        return DistNetworkError(
            f"TCPStore: {self.host}:{port} cannot be used",
            expected="an address of this machine where is_master=True, and one that serves a store elsewhere",
            got=str(error),
            fix="start one process with is_master=True, and all with its address and a free port",
        )

    def _wait_for(self, count: int) -> None:
        deadline = time.monotonic() + self._timeout.total_seconds()
        while int(self._read(_WORKERS) or 0) < count:
            if time.monotonic() > deadline:
                raise DistStoreError(
                    f"TCPStore: timed out after {self._timeout} waiting for {count} processes",
                    expected=f"{count} processes",
                    got=(self._read(_WORKERS) or b"0").decode(),
                    fix="start them all, or pass wait_for_workers=False",
                )
            time.sleep(ASK_EVERY_S)

    def _ask(self, *fields: bytes | None) -> list[bytes | None]:
        """The answer of the serving process. Errors: DistNetworkError where it is gone."""
        try:
            with self._lock:
                _send(self._connection, fields)
                return _receive(self._connection)
        except OSError as error:
            raise DistNetworkError(
                f"TCPStore: the process that serves {self.host}:{self.port} is gone",
                expected="an answer",
                got=str(error),
                fix="see what that process printed",
            ) from error

    def _read(self, key: str) -> bytes | None:
        return self._ask(b"read", key.encode())[0]

    def _swap(self, key: str, expected: bytes | None, desired: bytes | None) -> bool:
        return self._ask(b"swap", key.encode(), expected, desired)[0] is not None

    def list_keys(self) -> list[str]:
        """All keys but that which counts processes."""
        found = [key.decode() for key in self._ask(b"keys") if key is not None]
        return [key for key in found if key != _WORKERS]

    def num_keys(self) -> int:
        """The number of keys, with one that counts processes."""
        return len(self.list_keys()) + 1
