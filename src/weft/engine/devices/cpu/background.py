"""Background compilation: fused kernels are compiled on a thread of their own, and no step waits long for them.

`BackgroundCompiler.waits_for` takes a kernel that pays once it is compiled, and says whether it is not at hand yet: in
memory, shipped, on disk, or finished by the thread; `wait` waits for some, at most so long. Meanwhile their operations
run one by one (`engine.pipeline.tiering`), with the same bits. The thread writes IR and compiles; LLVM runs without the
interpreter's lock. Whoever links a kernel takes the finished code (`take`), so machine code is mapped on the thread
that runs it. Where compiling fails, the kernel counts as at hand: it fails again where it is wanted, on the user's
line.

The queue is bounded: what does not fit is asked for again by the next flush that meets it. A fork waits until LLVM is
at rest, and the end of the process until the kernel in progress is done; the rest is dropped.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.engine.devices.cpu.jit import Request

MOST_WAITING = 256  # kernels in the queue
# Whose code nobody has taken yet; the oldest are dropped (they are on disk as well).
MOST_FINISHED = 512


class BackgroundCompiler:
    """A queue of kernels and the thread that compiles them, which starts with the first and ends with the last.

    `compile_one` makes object code of a request, on any thread; `is_at_hand` says whether it need not.
    """

    def __init__(
        self, compile_one: Callable[[Request], bytes], is_at_hand: Callable[[Request], bool]
    ) -> None:
        self._compile_one = compile_one
        self._is_at_hand = is_at_hand
        # Locks, no conditions: an exception of a signal handler could leave these locked.
        self._lock = threading.Lock()
        self._in_llvm = threading.Lock()  # held while a kernel is compiled: a fork takes it
        self.asked: dict[
            str, threading.Lock
        ] = {}  # what is queued or in progress: held until it is finished
        self._queue: deque[Request] = deque()
        self._finished: OrderedDict[str, bytes | None] = OrderedDict()  # None: it failed
        self._thread: threading.Thread | None = None
        self._closed = False

    def waits_for(self, request: Request) -> bool:
        """True if a kernel is not at hand: then it is queued, where there is room."""
        if request.key in self.asked:
            return True
        if self._closed or request.key in self._finished or self._is_at_hand(request):
            return False
        with self._lock:
            if len(self._queue) < MOST_WAITING:
                self._queue.append(request)
                self.asked[request.key] = unfinished = threading.Lock()
                unfinished.acquire()
                return self._has_thread()
        return True

    def wait(self, keys: Iterable[str], seconds: float) -> None:
        """Wait until these kernels are finished, at most so long."""
        end = time.monotonic() + seconds
        for key in keys:
            unfinished = self.asked.get(key)
            if unfinished is not None:
                if not unfinished.acquire(timeout=max(0.0, end - time.monotonic())):
                    return
                unfinished.release()

    def take(self, key: str) -> bytes | None:
        """The finished code of a kernel, which is forgotten here; None if there is none."""
        with self._lock:
            return self._finished.pop(key, None)

    def drain(self, seconds: float) -> bool:
        """Wait until nothing is left to compile, at most so long; True if nothing is."""
        self.wait(list(self.asked), seconds)
        return not self.asked

    def _has_thread(self) -> bool:
        """True if a thread works on the queue; where none can be started, callers compile themselves."""
        if self._thread is not None and self._thread.is_alive():
            return True
        self._thread = threading.Thread(target=self._work, name="weft-compiler", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:
            self._thread = None
            self._drop()
            return False
        return True

    def _drop(self) -> None:
        for request in self._queue:
            self.asked.pop(request.key).release()
        self._queue.clear()

    def _work(self) -> None:
        while (request := self._next()) is not None:
            code = None
            try:
                with self._in_llvm:
                    code = self._compile_one(request)
            except Exception:  # noqa: S110 (it is raised again where the kernel is wanted)
                pass
            self._finish(request.key, code)

    def _next(self) -> Request | None:
        """The next request; None where there is none, and the thread ends."""
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
            self.asked.pop(key).release()

    def close(self) -> None:
        """Drop the queue, wait for the kernel in progress, take no more."""
        with self._lock:
            self._closed = True
            self._drop()
        with self._in_llvm:
            pass

    def before_fork(self) -> None:
        """Let LLVM be at rest: its locks could not be given back in the child."""
        self._in_llvm.acquire()

    def after_fork_in_parent(self) -> None:
        """Go on."""
        self._in_llvm.release()

    def after_fork_in_child(self) -> None:
        """The thread does not exist here; what was queued is asked for again."""
        self.__init__(self._compile_one, self._is_at_hand)  # type: ignore[misc]


def register(background: BackgroundCompiler) -> None:
    """Let a process end, and fork, without leaving LLVM in the middle."""
    atexit.register(background.close)
    os.register_at_fork(
        before=background.before_fork,
        after_in_parent=background.after_fork_in_parent,
        after_in_child=background.after_fork_in_child,
    )
