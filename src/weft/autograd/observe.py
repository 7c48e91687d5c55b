"""Hooks: what users attach to tensors and gradient records, and how a walk calls it.

`Observers` belongs to a gradient record or a leaf: tensor hooks (on the summed gradient, in order), prehooks and
posthooks of the record, `retain_grad` handles (weak), post-accumulate hooks of leaves. A walk only asks
`before_node`, `after_node`, `observe_leaf`.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from typing import Any

from weft.errors import ArgumentTypeError, GradientError
from weft.graph.tensor import Tensor, edge_for

_numbers = itertools.count()
UNSET = object()


class RemovableHandle:
    """Removes one hook: `remove()`, or at the end of a `with` block."""

    def __init__(self, hooks: dict[int, Any]) -> None:
        self._table = hooks
        self.id = next(_numbers)

    def remove(self) -> None:
        """Take the hook off; harmless when it is gone."""
        self._table.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


class Observers:
    """What users attached to one record or leaf: hooks, notes, saves that hooks have packed (and their bits), the
    wanted dtype of the gradient."""

    def __init__(self) -> None:
        self.tensor_hooks: dict[int, tuple[int, Callable[..., Any]]] = {}
        self.prehooks: dict[int, Callable[..., Any]] = {}
        self.posthooks: dict[int, Callable[..., Any]] = {}
        self.post_accumulate: dict[int, Callable[..., Any]] = {}
        self.retained: list[tuple[int, weakref.ref[Any]]] = []
        self.packed: dict[int, Any] = {}
        self.packed_mask = 0
        self.metadata: dict[str, Any] = {}
        self.grad_dtype: Any = UNSET

    def forget_hooks(self) -> None:
        """Let go of all hooks, of a record that cannot run again."""
        for table in (self.tensor_hooks, self.prehooks, self.posthooks):
            table.clear()


def add_hook(table: dict[int, Any], entry: Any) -> RemovableHandle:
    """Register one hook."""
    handle = RemovableHandle(table)
    table[handle.id] = entry
    return handle


def check_replacement(new: Any, old: Any) -> Any:
    """A gradient that a hook returned in place of another. Errors: TypeError, RuntimeError (changed the size)."""
    if new is None:
        return old
    if not isinstance(new, Tensor):
        raise ArgumentTypeError(
            "hook",
            expected="a Tensor or None as the hook's result",
            got=type(new).__name__,
            fix="return the new gradient, or nothing",
        )
    if old is not None and tuple(new.shape) != tuple(old.shape):
        raise GradientError(
            "hook has changed the size of value",
            expected=str(list(old.shape)),
            got=str(list(new.shape)),
            fix="return a gradient of the same shape",
        )
    if old is not None and new.dtype is not old.dtype:
        raise GradientError(
            "hook has changed the type of value",
            expected=old.dtype.name,
            got=new.dtype.name,
            fix="return a gradient of the same dtype",
        )
    return new


def before_node(observers: Observers, gradients: tuple[Any, ...], create: bool) -> tuple[Any, ...]:
    """Tensor hooks in order, then retained gradients."""
    values = list(gradients)
    for number, hook in list(observers.tensor_hooks.values()):
        if values[number] is not None:
            values[number] = check_replacement(hook(values[number]), values[number])
    for number, reference in observers.retained:
        handle = reference()
        if handle is not None and values[number] is not None and _is_at(handle, observers):
            retain(handle, values[number], create)
    return tuple(values)


def _is_at(handle: Any, observers: Observers) -> bool:
    """Whether a tensor is still the output of the record; an in-place operation moves it to another."""
    edge = edge_for(handle)
    return getattr(getattr(edge, "function", edge), "observers", None) is observers


def before_pull(observers: Observers, gradients: tuple[Any, ...]) -> tuple[Any, ...]:
    """Prehooks of the record: they see (and may replace) the gradients of its outputs."""
    values = list(gradients)
    for hook in list(observers.prehooks.values()):
        values = list(_replaced(hook(tuple(values)), values))
    return tuple(values)


def _replaced(result: Any, old: list[Any]) -> Any:
    if result is None:
        return old
    items = result if isinstance(result, (tuple, list)) else (result,)
    if len(items) != len(old):
        raise GradientError(
            f"hook returned an incorrect number of values (expected {len(old)}, got {len(items)})",
            expected=f"{len(old)} gradients",
            got=str(len(items)),
            fix="return one per value, or None",
        )
    return [check_replacement(new, before) for new, before in zip(items, old, strict=True)]


def after_node(observers: Observers, parts: list[Any], gradients: tuple[Any, ...]) -> list[Any]:
    """Posthooks of the record: they see (and may replace) the gradients of its inputs."""
    for hook in list(observers.posthooks.values()):
        parts = list(_replaced(hook(tuple(parts), gradients), parts))
    return parts


def retain(handle: Any, gradient: Any, create: bool) -> None:
    """Keep the gradient of a non-leaf in its `.grad`."""
    before = handle._grad
    handle._grad = gradient if before is None else before + gradient


def observe_leaf(leaf: Any, gradient: Any, create: bool) -> Any:
    """Tensor hooks of a leaf on its summed gradient."""
    observers = leaf.hooks
    if observers is None:
        return gradient
    for _, hook in list(observers.tensor_hooks.values()):
        gradient = check_replacement(hook(gradient), gradient)
    return gradient
