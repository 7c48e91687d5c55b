"""Worker processes of a DataLoader: they make batches in children, which come back in order.

A worker takes batches of indices and returns collated batches. Children are forked unless asked otherwise, so that the
data set is shared and not copied; the framework discards its threads in them. Large arrays come back as memory that
the child names and this process reads (`transport`). A child ends when it is told to, and when its parent is gone.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import random
import signal
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import weft
from weft.data import transport
from weft.errors import ArgumentError

_END = "end"
_GLANCE = 0.5  # seconds between checks that the other processes live


@dataclass
class Failure:
    """An error in the place of a batch, which is raised where the batch is asked for."""

    error: BaseException | None

    def taken(self) -> BaseException:
        """The error, which is not kept: its traceback leads to the pass that holds this."""
        error, self.error = self.error, None
        assert error is not None
        return error


@dataclass(frozen=True)
class WorkerInfo:
    """The worker that this process is: its number, the number of workers, its seed, its data set."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


_current: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """In a worker its WorkerInfo, in the main process None."""
    return _current


def worker_init_fn(worker_id: int) -> None:
    """Nothing: what a worker needs it has."""


def numpy_seeds(base_seed: int, worker_id: int) -> list[int]:
    """The numbers with which PyTorch seeds NumPy in a worker."""
    entropy = [worker_id, base_seed & 0xFFFFFFFF, base_seed >> 32, 0]
    return [int(word) for word in np.random.SeedSequence(entropy).generate_state(4)]


def _seed(seed: int) -> None:
    """Numbers of their own for a worker, from all sources that data sets use."""
    weft.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % 2**32)


def _next_task(tasks: Any, parent: int) -> Any:
    """The next message; None where the parent is gone."""
    while not tasks._reader.poll(_GLANCE):
        if os.getppid() != parent:
            return None
    return tasks.get()


def run_worker(
    numbers: tuple[int, int, int], fetch: Any, init: Any, tasks: object, results: Any
) -> None:
    """The life of a worker: seed, initialise, then answer (epoch, number, indices) until told to end."""
    global _current
    _current = info = WorkerInfo(*numbers, fetch.dataset)
    parent, epoch, source = os.getppid(), -1, None
    sent = transport.Sent()
    try:
        _seed(info.seed)
        if init is not None:
            init(info.id)
        while (task := _next_task(tasks, parent)) is not None:
            asked, number, indices, received = task
            sent.release(received)
            if asked != epoch:  # a new pass: a stream begins again
                epoch, source = asked, fetch()
            try:
                batch = source(indices)  # type: ignore[misc]
            except StopIteration:
                results.put((epoch, number, _END, None))
                continue
            except Exception as error:  # of one batch: the pass goes on
                results.put((epoch, number, "failure", _told(error, info.id)))
                continue
            # Packed here, not by the queue's thread, so that a failure is reported, not lost.
            results.put((epoch, number, "batch", transport.packed(batch, sent)))
    except KeyboardInterrupt:
        return
    except BaseException as error:
        results.put((epoch, -1, "error", _told(error, info.id)))


def _told(error: BaseException, worker: int) -> tuple[type[BaseException], str]:
    """The class of an error, if another process can have it, and its words; called where it is handled."""
    text = f"Caught {type(error).__name__} in DataLoader worker process {worker}.\n"
    with contextlib.suppress(Exception):
        pickle.dumps(type(error))
        return type(error), text + "Original " + traceback.format_exc()
    return RuntimeError, text + traceback.format_exc()


class Pool:
    """Workers that answer tasks in the order in which they were given."""

    def __init__(
        self, context: Any, fetch: Any, workers: int, seed: int, init: object, timeout: float
    ) -> None:
        self.results = context.Queue()
        self.tasks = [context.SimpleQueue() for _ in range(workers)]
        self.received: list[list[int]] = [[] for _ in range(workers)]
        self.timeout, self.epoch = timeout, -1
        self.processes: list[Any] = []
        weft.realize()  # a child inherits values, not work in progress
        for number, tasks in enumerate(self.tasks):
            info = (number, workers, seed + number)
            arguments = (info, fetch, init, tasks, self.results)
            process = context.Process(target=run_worker, args=arguments, daemon=True)
            process.start()
            self.processes.append(process)

    def batches(self, tasks: Iterator[object], ahead: int) -> Iterator[Any]:
        """The batches in the order of the tasks, each worker `ahead` tasks in advance."""
        self.epoch += 1
        live = set(range(len(self.processes)))
        assigned: dict[int, int] = {}
        waiting: dict[int, tuple[str, Any]] = {}
        given = taken = 0

        def give(worker: int) -> None:
            nonlocal given
            task = next(tasks, _END)
            if task != _END and worker in live:
                received, self.received[worker] = self.received[worker], []
                self.tasks[worker].put((self.epoch, given, task, received))
                assigned[given] = worker
                given += 1

        for _ in range(ahead):
            for worker in sorted(live):
                give(worker)
        while taken < given:
            while taken not in waiting:
                number, kind, content = self._receive()
                waiting[number] = (kind, content)
            kind, content = waiting.pop(taken)
            worker = assigned.pop(taken)
            taken += 1
            if kind == _END:
                live.discard(worker)
                continue
            failed = kind == "failure"
            batch = Failure(_as_exception(*content)) if failed else self._unpacked(worker, content)
            give(worker)
            yield batch

    def _unpacked(self, worker: int, content: Any) -> Any:
        try:
            batch, descriptor = transport.unpacked(content, self.processes[worker].pid)
        except OSError:
            self.processes[worker].join(
                _GLANCE
            )  # its memory is gone before it can be seen to have ended
            self._check_alive()
            raise
        if descriptor is not None:
            self.received[worker].append(descriptor)
        return batch

    def _receive(self) -> tuple[int, str, Any]:
        """The next answer of this pass; RuntimeError where a worker died or raised."""
        waited = 0.0
        while True:
            glance = min(_GLANCE, self.timeout) if self.timeout > 0 else _GLANCE
            try:
                epoch, number, kind, content = self.results.get(timeout=glance)
            except queue.Empty:
                waited += glance
                self._check_alive()
                self._check_time(waited)
                continue
            if kind == "error":
                raise _as_exception(*content)
            if epoch == self.epoch:  # else of a pass that was left in the middle
                return number, kind, content

    def _check_alive(self) -> None:
        """Errors: RuntimeError where a worker has ended."""
        dead = [process for process in self.processes if not process.is_alive()]
        if dead:
            pids = ", ".join(str(process.pid) for process in dead)
            raise ArgumentError(
                f"DataLoader worker (pid(s) {pids}) exited unexpectedly",
                expected="workers that live until the data ends",
                got=", ".join(_end_of(process) for process in dead),
                fix="run with num_workers=0 to see what ends them (often memory)",
            )

    def _check_time(self, waited: float) -> None:
        """Errors: RuntimeError where a batch takes longer than it may."""
        if 0 < self.timeout <= waited:
            raise ArgumentError(
                f"DataLoader timed out after {self.timeout} seconds",
                expected=f"a batch within {self.timeout} seconds",
                got=f"none in {waited:.1f} seconds",
                fix="pass a larger timeout, or 0",
            )

    def close(self) -> None:
        """End all workers."""
        for process, tasks in zip(self.processes, self.tasks, strict=True):
            if process.is_alive():
                tasks.put(None)
        for process in self.processes:
            process.join(timeout=1.0)
            if process.is_alive():
                process.kill()
                process.join()
        self.results.cancel_join_thread()
        self.results.close()


def _end_of(process: Any) -> str:
    """The end of a process in words: by a signal, or with a code."""
    code = process.exitcode
    if code is not None and code < 0:
        return f"{process.pid} killed by {signal.Signals(-code).name}"
    return f"{process.pid} ended with {code}"


def _as_exception(kind: type[BaseException], text: str) -> BaseException:
    """The worker's exception with its traceback as text, or a RuntimeError with it."""
    try:
        return kind(text)
    except Exception:  # a class with other arguments
        return RuntimeError(text)
