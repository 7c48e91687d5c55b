"""`weft.futures`: values that are set later, as libraries pass them around."""

from __future__ import annotations

from collections.abc import Callable
from concurrent import futures
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Future(Generic[T]):
    """A value, or an error, that somebody sets.

    Args:
        devices: accepted, without effect; None: the same.
    """

    def __init__(self, *, devices: object = None) -> None:
        self._held: futures.Future[T] = futures.Future()

    def done(self) -> bool:
        """True if the value has been set."""
        return self._held.done()

    def wait(self) -> T:
        """The value, once it is there. Errors: the one that was set."""
        return self._held.result()

    value = wait

    def set_result(self, result: T) -> None:
        """Set the value.

        Args:
            result: the value that `wait` returns.
        """
        self._held.set_result(result)

    def set_exception(self, result: BaseException) -> None:
        """Set an error.

        Args:
            result: the error that `wait` raises.
        """
        self._held.set_exception(result)

    def add_done_callback(self, callback: Callable[[Any], Any]) -> None:
        """Call `callback(future)` once it is set, at once where it is.

        Args:
            callback: a function of one argument, the future.
        """
        self._held.add_done_callback(lambda _: callback(self))

    def then(self, callback: Callable[[object], object]) -> Future[Any]:
        """A future of `callback(future)`, called once this one is set.

        Args:
            callback: a function of one argument, the future.
        """
        result: Future[Any] = Future()

        def follow(_: object) -> None:
            try:
                result.set_result(callback(self))
            except Exception as error:
                result.set_exception(error)

        self._held.add_done_callback(follow)
        return result


def wait_all(futures: list[Future[object]]) -> list[Any]:
    """The values of all.

    Args:
        futures: a list of futures.

    Raises:
        the first that was set.

    Example:
        >>> import weft
        >>> made = weft.futures.Future()
        >>> made.set_result(3)
        >>> weft.futures.wait_all([made])
        [3]
    """
    return [future.wait() for future in futures]


def collect_all(futures: list[Future[object]]) -> Future[list[Future[Any]]]:
    """The futures themselves, once all are set.

    Args:
        futures: a list of futures.

    Raises:
        the first that is set.

    Example:
        >>> import weft
        >>> made = weft.futures.Future()
        >>> both = weft.futures.collect_all([made])
        >>> made.set_result(3)
        >>> [each.wait() for each in both.wait()]
        [3]
    """
    result: Future[list[Future[Any]]] = Future()
    left = [len(futures)]

    def count(future: Future[object]) -> None:
        left[0] -= 1
        error = future._held.exception()
        if result.done():
            return
        if error is not None:
            result.set_exception(error)
        elif not left[0]:
            result.set_result(futures)

    for future in futures:
        future.add_done_callback(count)
    if not futures:
        result.set_result(futures)
    return result
