"""PyTorch's `multiprocessing`: the standard library's, whose queues and pipes take tensors, and `spawn`.

An exception in a function of another process is raised here. A tensor that is sent stays one tensor: its memory is
shared from then on, and each process sees what the others write.
"""

from __future__ import annotations

import multiprocessing
import sys
import traceback
from collections.abc import Callable, Sequence
from multiprocessing import *  # noqa: F403 - the module is the standard library's, with more
from multiprocessing.connection import wait
from typing import Any

from weft._build.lazy import gather as _gather
from weft.engine.frontend.tensor import Tensor
from weft.errors import ArgumentError
from weft.tensor.memory import shared_memory  # noqa: F401 - queues and pipes send tensors from here on

__all__ = [
    *multiprocessing.__all__,  # type: ignore[attr-defined]
    "ProcessContext", "ProcessException", "ProcessExitedException", "ProcessRaisedException", "SpawnContext",
    "get_all_sharing_strategies", "get_sharing_strategy", "set_sharing_strategy", "spawn", "start_processes",
]  # fmt: skip
_STRATEGY = "file_descriptor"  # PyTorch's name of unnamed memory, whose descriptor is sent


class ProcessException(Exception):
    """A process of `spawn` did not end well.

    Args:
        msg: what happened.
        error_index: the number of the process among those started.
        pid: the number that the system gave it.
    """

    def __init__(self, msg: str, error_index: int, pid: int) -> None:
        super().__init__(msg)
        self.msg, self.error_index, self.pid = msg, error_index, pid


class ProcessRaisedException(ProcessException):
    """A process raised; the text has its traceback."""


class ProcessExitedException(ProcessException):
    """A process ended by a signal or an exit code."""

    def __init__(self, msg: str, error_index: int, error_pid: int, exit_code: int) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code = exit_code


def get_all_sharing_strategies() -> set[str]:
    """The ways in which tensors can go to other processes."""
    return {_STRATEGY}


def get_sharing_strategy() -> str:
    """The way in which tensors go to other processes.

    Example:
        >>> import weft
        >>> weft.multiprocessing.get_sharing_strategy() in weft.multiprocessing.get_all_sharing_strategies()
        True
    """
    return _STRATEGY


def set_sharing_strategy(new_strategy: str) -> None:
    """Nothing to choose: memory goes by its descriptor.

    Args:
        new_strategy: "file_descriptor" or "file_system", without effect.

    Errors: AssertionError, as in PyTorch, on a strategy that does not exist.
    """
    assert new_strategy in (_STRATEGY, "file_system"), f"no sharing strategy {new_strategy!r}"


def _run(fn: Callable[..., Tensor], index: int, args: tuple[object, ...], errors: Any) -> None:
    """Run a function in a process of `spawn`."""
    try:
        fn(index, *args)
    except KeyboardInterrupt:
        pass  # the parent has got it, too
    except Exception:
        errors.put(traceback.format_exc())
        raise SystemExit(1) from None


class ProcessContext:
    """Processes that have been started.

    Args:
        processes: the processes, in the order of their numbers.
        error_queues: for each the queue into which it puts the text of what it raised.
    """

    def __init__(self, processes: Sequence[Any], error_queues: Sequence[Any]) -> None:
        self.processes, self.error_queues = list(processes), list(error_queues)
        self._running = {process.sentinel: index for index, process in enumerate(processes)}

    def pids(self) -> list[int]:
        """The numbers that the system gives them."""
        return [int(process.pid) for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait for one to end; whether all have. Where one has failed, the others are ended.

        Args:
            timeout: how many seconds to wait at most; None: until one has ended.
            grace_period: how many seconds the others have to end when asked to, before they are killed; None: 5.

        Errors: ProcessRaisedException, ProcessExitedException.
        """
        ended = [self._running.pop(sentinel) for sentinel in wait(list(self._running), timeout)]
        for index in ended:
            self.processes[
                index
            ].join()  # it has closed its files; its exit code comes a little later
        failed = [index for index in ended if self.processes[index].exitcode]
        if not failed:
            return not self._running
        self._end(5.0 if grace_period is None else grace_period)
        raise self._error(min(failed))

    def _end(self, grace_period: float) -> None:
        for process in self.processes:
            if process.is_alive():
                process.terminate()
        for process in self.processes:
            process.join(grace_period)
            if process.is_alive():
                process.kill()
                process.join()

    def _error(self, index: int) -> ProcessException:
        process = self.processes[index]
        code, pid = int(process.exitcode), int(process.pid)
        if code == 1 and not self.error_queues[index].empty():
            text = self.error_queues[index].get()
            return ProcessRaisedException(
                f"\n\n-- Process {index} terminated with the following error:\n{text}", index, pid
            )
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return ProcessExitedException(f"process {index} terminated with {how}", index, pid, code)


SpawnContext = ProcessContext


def start_processes(
    fn: Callable[..., object],
    args: tuple[object, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Run `fn(i, *args)` in `nprocs` processes; they end all where one fails.

    Args:
        fn: the function; its first argument is the number of the process, from 0.
        args: the arguments behind it.
        nprocs: the number of processes.
        join: True: wait until all have ended. False: return their context at once.
        daemon: True: they are ended where this process ends.
        start_method: how they are started: "spawn", "fork" or "forkserver", as of the standard library.

    Errors: ArgumentError on a number below one, ProcessRaisedException, ProcessExitedException.
    """
    if nprocs < 1:
        raise ArgumentError(
            f"spawn: nprocs is {nprocs}",
            expected="nprocs >= 1",
            got=str(nprocs),
            fix="pass 1 or more",
        )
    context: Any = multiprocessing.get_context(start_method)
    processes, errors = [], []
    for index in range(nprocs):
        errors.append(context.SimpleQueue())
        task = (fn, index, args, errors[index])
        processes.append(context.Process(target=_run, args=task, daemon=daemon))
        processes[index].start()
    started = ProcessContext(processes, errors)
    if not join:
        return started
    while not started.join():
        pass
    return None


def spawn(
    fn: Callable[..., object],
    args: tuple[object, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """`start_processes`: each process begins afresh and imports the module of `fn`, which must be at its top level.

    Args:
        fn: the function; its first argument is the number of the process, from 0.
        args: the arguments behind it.
        nprocs: the number of processes.
        join: True: wait until all have ended. False: return their context at once.
        daemon: True: they are ended where this process ends.
        start_method: how they are started: "spawn", as the name says, or another of `start_processes`.

    Errors: ArgumentError on a number below one, ProcessRaisedException, ProcessExitedException.
    """
    return start_processes(fn, args, nprocs, join, daemon, start_method)


_SPAWNING = (
    "ProcessContext ProcessException ProcessExitedException ProcessRaisedException SpawnContext spawn "
    "start_processes"
)
_gather(
    sys.modules[__name__],
    {
        "pool": {"multiprocessing": "Pool"},
        "queue": {"multiprocessing": "Queue SimpleQueue"},
        "spawn": {"multiprocessing": _SPAWNING},
    },
)
