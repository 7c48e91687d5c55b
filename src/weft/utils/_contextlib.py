"""Contexts that are decorators too, as packages inherit from: `_DecoratorContextManager`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Generator
from typing import Any

from weft.engine.frontend.tensor import Tensor


def context_decorator(ctx: Any, func: Callable[..., Tensor]) -> Callable[..., Any]:
    """A function that runs in a context: `ctx` is one, or makes a new one for each call. A generator is in it while it
    runs, and out of it between."""
    make = ctx if callable(ctx) and not hasattr(ctx, "__enter__") else lambda: ctx
    if inspect.isgeneratorfunction(func):
        return _generating(make, func)

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with make():
            return func(*args, **kwargs)

    return wrapped


def _generating(make: Callable[[], Any], func: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        running = func(*args, **kwargs)
        answer: Any = None
        send: Callable[[Any], Any] = running.send
        try:
            while True:
                with make():
                    value = send(answer)
                try:
                    answer, send = (yield value), running.send
                except GeneratorExit:
                    raise
                except BaseException as error:
                    answer, send = error, running.throw
        except StopIteration as ended:
            return ended.value
        finally:
            with make():
                running.close()

    return wrapped


class _DecoratorContextManager:
    """A context of which an instance decorates functions; each call runs in a clone of it."""

    def __call__(self, orig_func: Any) -> Any:
        return context_decorator(self.clone, orig_func)

    def __enter__(self) -> None:
        raise NotImplementedError

    def __exit__(self, exc_type: object, exc_value: object, traceback: object) -> None:
        raise NotImplementedError

    def clone(self) -> Any:
        """Another of its kind; a subclass with arguments passes them on."""
        return type(self)()


class _NoParamDecoratorContextManager(_DecoratorContextManager):
    """One that takes no arguments: the class itself decorates."""

    def __new__(cls, orig_func: Any = None) -> Any:
        made = super().__new__(cls)
        return made if orig_func is None else made(orig_func)
