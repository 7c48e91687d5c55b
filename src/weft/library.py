"""`weft.library`: operations of one's own, under PyTorch's names. An operation is a Python function of tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.autograd import Function
from weft.errors import ArgumentError


class CustomOpDef:
    """A function under a name; `register_autograd` gives it a derivative."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self.name, self.function = name, function
        self._backward: Callable[..., Any] | None = None
        self._setup: Callable[..., Any] | None = None
        self.__doc__ = function.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._backward is None:
            return self.function(*args, **kwargs)
        return self._as_function().apply(*args, *kwargs.values())

    def _as_function(self) -> Any:
        function, setup, backward = self.function, self._setup, self._backward

        class Operation(Function):
            """The operation as autograd sees it."""

            @staticmethod
            def forward(*args: Any) -> Any:
                """The function."""
                return function(*args)

            @staticmethod
            def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
                """What the derivative needs."""
                if setup is not None:
                    setup(ctx, inputs, output)

            @staticmethod
            def backward(ctx: Any, *cotangents: Any) -> Any:
                """The derivative."""
                assert backward is not None
                return backward(ctx, *cotangents)

        return Operation

    def register_autograd(
        self, backward: Callable[..., Any], /, *, setup_context: Callable[..., Any] | None = None
    ) -> None:
        """`backward(ctx, *cotangents)`, after `setup_context(ctx, inputs, output)` has kept what it needs."""
        self._backward, self._setup = backward, setup_context

    def register_fake(self, fn: Callable[..., Any], /) -> Callable[..., Any]:
        """Accepted: nothing is traced."""
        return fn

    def register_kernel(
        self, device_types: Any, fn: Callable[..., Any] | None = None, /
    ) -> Callable[..., Any]:
        """Another function for the CPU; those for other devices are accepted."""

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            if device_types is None or "cpu" in device_types:
                self.function = function
            return function

        return register if fn is None else register(fn)


def custom_op(
    name: str,
    fn: Callable[..., Any] | None = None,
    /,
    *,
    mutates_args: Any = (),
    device_types: Any = None,
    schema: str | None = None,
) -> Any:
    """A decorator that makes an operation `namespace::name` of a function.

    Errors: ValueError for a name without a namespace.
    """
    if "::" not in name:
        raise ArgumentError(
            f"custom_op: {name!r} has no namespace",
            expected="a name such as 'mylib::mysin'",
            got=repr(name),
            fix=f"call it 'mylib::{name}'",
        )
    if fn is None:
        return lambda function: CustomOpDef(name, function)
    return CustomOpDef(name, fn)


def register_fake(op: Any, func: Any = None, /, **options: Any) -> Any:
    """Accepted: nothing is traced."""
    return (lambda function: function) if func is None else func
