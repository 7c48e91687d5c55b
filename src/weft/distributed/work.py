"""Work: the handle of an operation that was begun with `async_op=True`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, NamedTuple

from weft.distributed.progress import Operation, Progress
from weft.engine.devices import trace
from weft.futures import Future

Callback = Callable[[Any], Any]
Deliver = Callable[[Any], Any]  # the result of an operation's steps, given to its tensors


class Traced(NamedTuple):
    """An operation in an open profile: when it began, PyTorch's name for it, and the shapes of its operands."""

    begin_ns: int
    name: str
    shapes: tuple[tuple[int, ...], ...]


class Work:
    """An operation under way. What it receives stands in its tensors once `wait` or `is_completed` has said so.

    Args:
        progress: what carries on operations that are under way.
        operation: the operation.
        deliver: gives its result to tensors; None: there is nothing to give.
        traced: what a profile says of it; None: no profile is open.

    Example:
        >>> import weft
        >>> import weft.distributed as dist
        >>> dist.init_process_group()
        >>> x = weft.ones(2)
        >>> work = dist.all_reduce(x, async_op=True)  # what follows runs meanwhile
        >>> work.wait()
        True
        >>> x
        tensor([1., 1.])
        >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        progress: Progress,
        operation: Operation,
        deliver: Deliver | None = None,
        traced: Traced | None = None,
    ) -> None:
        self._progress, self._operation, self._deliver = progress, operation, deliver
        self._traced = traced
        self._result: Any = None

    def wait(self, timeout: timedelta | float | None = None) -> bool:
        """Wait until it is done, for at most `timeout`; False if it is not done then.

        Args:
            timeout: how long at most, a timedelta; None: as long as it takes.

        Raises:
            DistError for one that failed.

        Example:
            >>> import weft
            >>> import weft.distributed as dist
            >>> dist.init_process_group()
            >>> x = weft.ones(2)
            >>> dist.all_reduce(x, async_op=True).wait()
            True
            >>> dist.destroy_process_group()
        """
        seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
        if not self._progress.wait(self._operation, seconds or None):
            return False
        self._finish()
        return True

    def _finish(self) -> None:
        if self._traced is not None:
            traced, self._traced = self._traced, None
            trace.note("collective", traced.begin_ns, ("call", traced.name, traced.shapes))
        if self._operation.error is not None:
            raise self._operation.error
        if self._deliver is not None:
            deliver, self._deliver = self._deliver, None
            self._result = deliver(self._operation.result)

    def is_completed(self) -> bool:
        """True if it is done, well or not."""
        if not self._operation.done:
            self._progress.poll()
        if self._operation.done and self._operation.error is None:
            self._finish()
        return self._operation.done

    def is_success(self) -> bool:
        """True if it is done and has not failed."""
        return self.is_completed() and self._operation.error is None

    def exception(self) -> BaseException | None:
        """The error of one that failed, or None."""
        return self._operation.error

    def result(self) -> list[Any]:
        """The tensors that hold the result, of one that is done."""
        self.wait()
        return self._result if isinstance(self._result, list) else [self._result]

    def source_rank(self) -> int:
        """The rank that a message came from."""
        self.wait()
        return int(self._result)

    _source_rank = source_rank  # PyTorch's name

    def synchronize(self) -> None:
        """Wait."""
        self.wait()

    def get_future(self) -> Future[Any]:
        """A future of the result, which is waited for when the future is."""
        return _WorkFuture(self)


class _WorkFuture(Future[Any]):
    """A future that carries on the operation behind it when it is waited for."""

    def __init__(self, work: Work) -> None:
        super().__init__()
        self._work = work

    def done(self) -> bool:
        """True if the operation is done."""
        if not super().done() and self._work.is_completed():
            self._settle()
        return super().done()

    def wait(self) -> Any:
        """The result, once it is there."""
        if not super().done():
            self._settle()
        return super().wait()

    value = wait

    def then(self, callback: Callback) -> Future[Any]:
        """A future of `callback(future)`, called when it is waited for."""
        return _Following(self, callback)

    def _settle(self) -> None:
        try:
            self.set_result(self._work.result())
        except RuntimeError as error:
            self.set_exception(error)


class _Following(_WorkFuture):
    """The result of a callback on a future of an operation."""

    def __init__(self, before: _WorkFuture, callback: Callback) -> None:
        super().__init__(before._work)
        self._before, self._callback = before, callback

    def _settle(self) -> None:
        try:
            self._before.wait()
            self.set_result(self._callback(self._before))
        except Exception as error:
            self.set_exception(error)
