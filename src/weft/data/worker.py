"""Worker processes of a DataLoader: what runs in a child and how its batches come back in order.

In: a data set and batches of indices. Out: collated batches, tensors travelling as NumPy arrays.
Children are forked, so that the data set is shared and not copied; the framework discards its
threads in them.
"""

from __future__ import annotations

import multiprocessing
import pickle
import queue
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import weft
from weft import Tensor
from weft.errors import ArgumentError

_END = "end"


@dataclass
class WorkerInfo:
    """Which worker this process is: its number, how many there are, its seed, its data set."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


_current: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """In a worker its WorkerInfo, in the main process None."""
    return _current


class _Packed:
    """A tensor on its way between processes."""

    def __init__(self, tensor: Tensor) -> None:
        self.is_bfloat16 = tensor.dtype == weft.bfloat16
        value = tensor.detach()
        self.array = (value.to(weft.float32) if self.is_bfloat16 else value).numpy()

    def unpack(self) -> Tensor:
        """The tensor again."""
        tensor = weft.as_tensor(self.array)
        return tensor.to(weft.bfloat16) if self.is_bfloat16 else tensor


def _convert(data: Any, kind: type, function: Callable[[Any], Any]) -> Any:
    """A structure with `function` applied to everything of one kind."""
    if isinstance(data, kind):
        return function(data)
    if isinstance(data, dict):
        return {key: _convert(value, kind, function) for key, value in data.items()}
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(_convert(value, kind, function) for value in data))
    if isinstance(data, list | tuple):
        return type(data)(_convert(value, kind, function) for value in data)
    return data


def run_worker(info: WorkerInfo, fetch: Any, init: Any, tasks: Any, results: Any) -> None:
    """The life of a worker: seed, initialise, then answer (number, indices) until told to end."""
    global _current
    _current = info
    weft.manual_seed(info.seed)
    try:
        if init is not None:
            init(info.id)
        source = fetch()
        while (task := tasks.get()) is not None:
            number, indices = task
            try:
                batch = source(indices)
            except StopIteration:
                results.put((number, _END, None))
                continue
            # Pickled here, not by the queue's thread, so that a failure is reported, not lost.
            results.put((number, "batch", pickle.dumps(_convert(batch, Tensor, _Packed))))
    except KeyboardInterrupt:
        return
    except BaseException as error:
        text = f"Caught {type(error).__name__} in DataLoader worker process {info.id}.\n"
        results.put((-1, "error", (type(error), text + "Original " + traceback.format_exc())))


class Pool:
    """Forked workers that answer tasks in the order in which they were given."""

    def __init__(
        self, dataset: Any, fetch: Any, workers: int, seed: int, init: Any, timeout: float
    ) -> None:
        context = multiprocessing.get_context("fork")
        self.results = context.Queue()
        self.tasks = [context.SimpleQueue() for _ in range(workers)]
        self.timeout = timeout
        self.processes = []
        weft.realize()  # a child inherits values, not work in progress
        for number, tasks in enumerate(self.tasks):
            info = WorkerInfo(number, workers, seed + number, dataset)
            arguments = (info, fetch, init, tasks, self.results)
            process = context.Process(target=run_worker, args=arguments, daemon=True)
            process.start()
            self.processes.append(process)

    def batches(self, tasks: Iterator[Any], ahead: int) -> Iterator[Any]:
        """The batches in the order of the tasks, each worker `ahead` tasks in advance."""
        live = set(range(len(self.processes)))
        assigned: dict[int, int] = {}
        waiting: dict[int, tuple[str, Any]] = {}
        given = taken = 0

        def give(worker: int) -> None:
            nonlocal given
            task = next(tasks, _END)
            if task != _END and worker in live:
                self.tasks[worker].put((given, task))
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
            give(worker)
            yield _convert(pickle.loads(content), _Packed, _Packed.unpack)

    def _receive(self) -> tuple[int, str, Any]:
        """The next answer; RuntimeError where a worker died or raised."""
        waited = 0.0
        while True:
            try:
                number, kind, content = self.results.get(timeout=1.0)
                break
            except queue.Empty:
                waited += 1.0
            dead = [str(p.pid) for p in self.processes if not p.is_alive()]
            if dead:
                raise ArgumentError(
                    f"DataLoader worker (pid(s) {', '.join(dead)}) exited unexpectedly",
                    expected="workers that live until the data ends",
                    got=f"{len(dead)} ended",
                    fix="run with num_workers=0 to see what ends them (often memory)",
                )
            if 0 < self.timeout <= waited:
                raise ArgumentError(
                    f"DataLoader timed out after {self.timeout} seconds",
                    expected=f"a batch within {self.timeout} seconds",
                    got=f"none in {waited:.0f} seconds",
                    fix="pass a larger timeout, or 0",
                )
        if kind == "error":
            raise _as_exception(*content)
        return number, kind, content

    def close(self) -> None:
        """End all workers."""
        for process, tasks in zip(self.processes, self.tasks, strict=True):
            if process.is_alive():
                tasks.put(None)
        for process in self.processes:
            process.join(timeout=1.0)
            if process.is_alive():
                process.terminate()
                process.join()
        self.results.cancel_join_thread()
        self.results.close()


def _as_exception(kind: type[BaseException], text: str) -> BaseException:
    """The worker's exception with its traceback as text, or a RuntimeError with it."""
    try:
        return kind(text)
    except Exception:  # a class with other arguments
        return RuntimeError(text)
