"""`weft.compiler`: questions about a compiler. Every graph is compiled when it runs; nothing is traced."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import weft
from weft.onnx import is_in_onnx_export


def disable(
    fn: Callable[..., object] | None = None, recursive: bool = True, *, reason: str | None = None
) -> Any:
    """The function itself, which runs as ordinary Python anyway; also a decorator with options.

    Args:
        fn: the function; None: a decorator that returns its function.
        recursive: accepted, without effect.
        reason: accepted, without effect.

    Example:
        >>> import weft
        >>> @weft.compiler.disable
        ... def step(x):
        ...     return x + 1
        >>> step(weft.ones(2))
        tensor([2., 2.])
    """
    return (lambda function: function) if fn is None else fn


def is_compiling() -> bool:
    """True while a call is recorded to be exported (`weft.onnx.export`): what it does must not depend on values.

    Example:
        >>> import weft
        >>> weft.compiler.is_compiling()
        False
    """
    return is_in_onnx_export()


def is_dynamo_compiling() -> bool:
    """True if a function is being traced: never."""
    return False


def allow_in_graph(fn: Callable[..., object]) -> Callable[..., Any]:
    """The function itself: it is called as any other.

    Args:
        fn: the function.
    """
    return fn


def reset() -> None:
    """Nothing: no trace is kept."""


def compile(*arguments: object, **options: object) -> Any:  # noqa: A001 - PyTorch's name
    """`weft.compile`: the model itself.

    Args:
        *arguments: those of `weft.compile`, first the model or function.
        **options: those of `weft.compile`.
    """
    return weft.compile(*arguments, **options)


assume_constant_result = wrap_numpy = nested_compile_region = allow_in_graph


def substitute_in_graph(original_fn: object, **options: object) -> Callable[..., Any]:
    """A decorator that leaves the function as it is: nothing is traced.

    Args:
        original_fn: the function that would be replaced in a trace; it stays.
        **options: accepted, without effect.
    """
    return lambda function: function


def is_exporting() -> bool:
    """True while a call is recorded to be exported (`weft.onnx.export`)."""
    return is_in_onnx_export()


def list_backends(exclude_tags: object = ()) -> list[str]:
    """The compilers to choose from: there is one.

    Args:
        exclude_tags: accepted, without effect: it has no tags.

    Example:
        >>> import weft
        >>> weft.compiler.list_backends()
        ['weft']
    """
    return ["weft"]


def cudagraph_mark_step_begin() -> None:
    """Nothing: there is no device to capture on."""


class set_stance(nullcontext[None]):  # noqa: N801 - PyTorch's name
    """A context that changes nothing: nothing is traced again. It decorates functions, too.

    Args:
        stance: accepted, without effect. Default: "default".
        **options: accepted, without effect.
    """

    def __init__(self, stance: str = "default", **options: object) -> None:
        super().__init__()

    def __call__(self, function: Callable[..., object]) -> Callable[..., Any]:
        return function


def set_enable_guard_collectives(enabled: bool) -> bool:
    """Nothing: there are no guards. Returns what was set before, which is False always.

    Args:
        enabled: accepted, without effect.
    """
    return False


def save_cache_artifacts() -> None:
    """None: kernels are kept on disk by themselves (`weft.config`)."""


def load_cache_artifacts(serialized_artifacts: bytes) -> None:
    """Nothing: kernels are kept on disk by themselves.

    Args:
        serialized_artifacts: accepted, without effect.
    """
