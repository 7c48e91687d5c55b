"""Background compilation: fused kernels are compiled on a thread of their own, and no step waits long for them.

`BackgroundCompiler.waits_for` takes a kernel that pays once it is compiled, and says whether it is not at hand yet: in
memory, shipped, on disk, or finished by the thread; `wait` waits for some, at most so long, and `wait_in_step` also
within an allowance that grows with time, so that steps do not wait again and again. Meanwhile their operations run one
by one (`engine.pipeline.tiering`), with the same bits. IR is written where a kernel is asked for, so that the thread
hardly needs the interpreter's lock, without which LLVM runs. Whoever links a kernel takes the finished code (`take`):
machine code is mapped on the thread that runs it. A kernel that could not be compiled counts as at hand: it fails again
where it is wanted, on the user's line.

The queue is bounded: what does not fit is asked for again by the next flush that meets it. A fork waits until LLVM is
at rest, and the end of the process until the kernel in progress is done; the rest is dropped. What asks is called
where signal handlers wait (`uninterrupted`), so that no exception leaves a kernel half asked for.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from weft.engine.capi.interrupts import uninterrupted

MOST_WAITING = 256  # kernels in the queue
MOST_FINISHED = 2048  # whose code nobody has taken yet, some 10 kB each; the oldest are dropped
MOST_SECONDS_SAVED = 10e-3  # of waiting, if nothing has waited for long
SHARE_OF_TIME = 0.1  # that may be waiting
STACK_BYTES = 16 << 20  # of the thread: LLVM recurses


class KernelRequest(NamedTuple):
    """A kernel that is wanted: its key, what writes its IR, and the functions to look up in it. Where `revision` is
    given, keys with one revision stand for one text in every process."""

    key: str
    build: Callable[[], str]
    symbols: Sequence[str]
    revision: str = ""


class BackgroundCompiler:
    """A queue of kernels and the thread that compiles them, which starts with the first and ends with the last.

    `find` gives the object code of a kernel that is at hand (nothing where it is in memory), or its IR; `compile_text`
    makes code of IR, on any thread.
    """

    def __init__(
        self,
        find: Callable[[KernelRequest], bytes | str],
        compile_text: Callable[[KernelRequest, str], bytes],
    ) -> None:
        self._find = find
        self._compile_text = compile_text
        # Locks, no conditions: an exception of a signal handler could leave these locked.
        self._lock = threading.RLock()
        self._in_llvm = threading.Lock()  # held while a kernel is compiled: a fork takes it
        self._forking = False
        self.asked: dict[str, threading.Lock] = {}  # queued or in progress: held until finished
        self._queue: deque[tuple[KernelRequest, str]] = deque()
        self._finished: OrderedDict[str, bytes | None] = OrderedDict()  # None: it failed
        self._thread: threading.Thread | None = None
        self._closed = False
        self._allowance = MOST_SECONDS_SAVED  # seconds of waiting, at the time `_counted`
        self._counted = time.monotonic()

    def waits_for(self, request: KernelRequest) -> bool:
        """True if a kernel is not at hand: then it is queued, where there is room."""
        key = request.key
        if key in self.asked:
            return self._has_thread()
        if self._closed or key in self._finished:
            return False
        if len(self._queue) >= MOST_WAITING:
            return True
        found = self._find(request)
        with self._lock:
            if isinstance(found, bytes):
                if found:
                    self._finished[key] = found
                return False
            if self._closed:
                return False
            self.asked[key] = unfinished = threading.Lock()
            unfinished.acquire()
            self._queue.append((request, found))
            return self._has_thread()

    def wait(self, keys: Iterable[str], seconds: float) -> None:
        """Wait until these kernels are finished, at most so long."""
        end = time.monotonic() + seconds
        for key in keys:
            unfinished = self.asked.get(key)
            if unfinished is not None:
                if not unfinished.acquire(timeout=max(0.0, end - time.monotonic())):
                    return
                unfinished.release()

    def wait_in_step(self, keys: Iterable[str], seconds: float) -> None:
        """`wait`, within the allowance."""
        begin = time.monotonic()
        saved = self._allowance + SHARE_OF_TIME * (begin - self._counted)
        saved = min(saved, MOST_SECONDS_SAVED)
        self.wait(keys, min(seconds, saved))
        self._counted = time.monotonic()
        self._allowance = max(0.0, saved - (self._counted - begin))

    def take(self, key: str) -> bytes | None:
        """The finished code of a kernel, which is forgotten here; None if there is none."""
        with self._lock:
            code = self._finished.get(key)
            if code is not None:
                del self._finished[key]
            return code

    def drain(self, seconds: float) -> bool:
        """Wait until nothing is left to compile, at most so long; True if nothing is."""
        self.wait(list(self.asked), seconds)
        return not self.asked

    def _has_thread(self) -> bool:
        """True if a thread works on the queue; where none can be started, callers compile themselves."""
        with self._lock:
            if self._thread is not None and self._thread.is_alive():
                return True
            try:
                self._thread = threading.Thread(
                    target=self._work, name="weft-compiler", daemon=True
                )
                _start(self._thread)
            except (RuntimeError, ValueError):
                self._thread = None
                self._drop()
                return False
            return True

    def _drop(self) -> None:
        for request, _ in self._queue:
            self._settle(request.key)
        self._queue.clear()

    def _settle(self, key: str) -> None:
        """Nobody waits for this kernel any more."""
        unfinished = self.asked.pop(key, None)
        if unfinished is not None:
            unfinished.release()

    def _work(self) -> None:
        while (upcoming := self._next()) is not None:
            request, text = upcoming
            code = None
            try:
                with self._in_llvm:
                    if not self._closed:
                        code = self._compile_text(request, text)
            except BaseException:  # noqa: B036, S110 - it is raised again where the kernel is wanted
                pass
            self._finish(request.key, code)

    def _next(self) -> tuple[KernelRequest, str] | None:
        """The next request and its IR; None where there is none, and the thread ends."""
        with self._lock:
            if not self._queue:
                self._thread = None
                return None
            return self._queue.popleft()

    def _finish(self, key: str, code: bytes | None) -> None:
        with self._lock:
            self._finished[key] = code
            if len(self._finished) > MOST_FINISHED:
                self._finished.popitem(last=False)
            self._settle(key)

    def close(self) -> None:
        """Drop the queue, wait for the kernel in progress, take no more."""
        with self._lock:
            self._closed = True
            self._drop()
        with self._in_llvm:
            pass

    def before_fork(self) -> None:
        """Let LLVM be at rest: its locks could not be given back in the child."""
        with uninterrupted():
            self._in_llvm.acquire()
            self._forking = True

    def after_fork_in_parent(self) -> None:
        """Go on."""
        if self._forking:
            self._forking = False
            self._in_llvm.release()

    def after_fork_in_child(self) -> None:
        """The thread does not exist here; what was queued is asked for again."""
        self.__init__(self._find, self._compile_text)  # type: ignore[misc]


def _start(thread: threading.Thread) -> None:
    """Start a thread with a stack of its own size, whatever the program has set for others."""
    usual = threading.stack_size(STACK_BYTES)
    try:
        thread.start()
    finally:
        threading.stack_size(usual)


def register(background: BackgroundCompiler) -> None:
    """Let a process end, and fork, without leaving LLVM in the middle."""
    atexit.register(background.close)
    os.register_at_fork(
        before=background.before_fork,
        after_in_parent=background.after_fork_in_parent,
        after_in_child=background.after_fork_in_child,
    )
