# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False
"""Hooks: functions that users attach to tensors and gradient records, and their calls during backward.

`Observers` belongs to a gradient record or a leaf: tensor hooks (on the summed gradient, in order), prehooks and
posthooks of the record, `retain_grad` handles (weak), post-accumulate hooks of leaves. A walk only asks `before_node`,
`after_node`, `observe_leaf`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cython
from cython.cimports.weft.engine.frontend.tensor import Tensor

from weft._build.compiled import require
from weft._build.lazy import later
from weft.engine.frontend.resolve import edge_for
from weft.errors import ArgumentTypeError, GradientError

require(__name__, cython.compiled)

discovery = later("weft.engine.backward.reachability")

_numbers = cython.declare(cython.longlong, 0)
UNSET = object()


@cython.cclass
class RemovableHandle:
    """Removes one hook: `remove()`, or at the end of a `with` block."""

    def __cinit__(self) -> None:
        global _numbers
        _numbers += 1
        self.id = _numbers

    def __init__(self, hooks: dict[int, Any]) -> None:
        self._table = hooks

    def remove(self) -> None:
        """Take the hook off; harmless when it is gone."""
        self._table.pop(self.id, None)

    def hooks_dict_ref(self) -> dict[int, Any]:
        """The table that has the hook, under `id`."""
        return self._table

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()

    def __reduce__(self) -> tuple[Any, ...]:
        return _handle_again, (self._table, self.id)


def _handle_again(table: dict[int, Any], number: int) -> RemovableHandle:
    """A handle that has been copied or loaded with what it belongs to."""
    handle: RemovableHandle = RemovableHandle.__new__(RemovableHandle)
    handle._table, handle.id = table, number
    return handle


@cython.cclass
class Observers:
    """The attachments of one record or leaf: hooks, notes, residuals that hooks have packed (and their bits), the
    wanted dtype of the gradient. Tables are made when they are first asked for."""

    def __cinit__(self) -> None:
        self.tensor_hooks = {}
        self.grad_dtype = UNSET

    @property
    def prehooks(self) -> dict[Any, Any]:
        """The hooks to call before the record runs."""
        if self._prehooks is None:
            self._prehooks = {}
        return self._prehooks

    @property
    def posthooks(self) -> dict[Any, Any]:
        """The hooks to call after the record has run."""
        if self._posthooks is None:
            self._posthooks = {}
        return self._posthooks

    @property
    def post_accumulate(self) -> dict[Any, Any]:
        """The hooks to call when a leaf has its gradient."""
        if self._post_accumulate is None:
            self._post_accumulate = {}
        return self._post_accumulate

    @property
    def retained(self) -> list[Any]:
        """(output, weak reference to its handle) of tensors that keep their gradient."""
        if self._retained is None:
            self._retained = []
        return self._retained

    @property
    def packed(self) -> dict[Any, Any]:
        """Saves that hooks have packed, by number."""
        if self._packed is None:
            self._packed = {}
        return self._packed

    @property
    def has_packed(self) -> bool:
        """True if hooks have packed any residual."""
        return bool(self._packed)

    @property
    def metadata(self) -> dict[Any, Any]:
        """The user's notes."""
        if self._metadata is None:
            self._metadata = {}
        return self._metadata

    def forget_hooks(self) -> None:
        """Let go of all hooks, of a record that cannot run again."""
        for table in (self.tensor_hooks, self._prehooks, self._posthooks):
            if table is not None:
                table.clear()


@cython.ccall
def add_hook(table: dict, entry: object) -> RemovableHandle:
    """Register one hook."""
    handle: RemovableHandle = RemovableHandle.__new__(RemovableHandle)
    handle._table = table
    table[handle.id] = entry
    return handle


def _name(hook: object) -> str:
    return str(getattr(hook, "__name__", type(hook).__name__))


def check_replacement(new: object, old: Any, hook: object = None) -> Any:
    """A gradient that a hook returned in place of another. Errors: TypeError, RuntimeError (changed the size)."""
    if new is None:
        return old
    if old is None:
        raise GradientError(
            "can't replace a None gradient with a non-None value",
            expected="None from a hook that is called with None: nothing arrives here",
            got=type(new).__name__,
            fix="begin the hook with `if grad is None: return`",
        )
    if not isinstance(new, Tensor):
        raise ArgumentTypeError(
            f"expected Variable, but hook returned '{type(new).__name__}'",
            expected="a Tensor or None as the hook's result",
            got=type(new).__name__,
            fix="return the new gradient, or nothing",
        )
    if tuple(new.shape) != tuple(old.shape):
        raise GradientError(
            f"hook '{_name(hook)}' has changed the size of value",
            expected=str(list(old.shape)),
            got=str(list(new.shape)),
            fix="return a gradient of the same shape",
        )
    if new.dtype is not old.dtype:
        raise GradientError(
            f"hook '{_name(hook)}' has changed the type of value (was {old.type()} got {new.type()})",
            expected=old.dtype.name,
            got=new.dtype.name,
            fix="return a gradient of the same dtype",
        )
    return new


@cython.cfunc
def before_one(observers: Observers, gradient: object) -> object:
    """`before_node` for a record with one output. As in PyTorch, hooks are also called where nothing arrives."""
    if len(observers.tensor_hooks) == 1:
        (entry,) = observers.tensor_hooks.values()
        hook = cython.cast(tuple, entry)[1]
        new = hook(gradient)
        if new is not None:
            gradient = check_replacement(new, gradient, hook)
    elif observers.tensor_hooks:
        for entry in list(observers.tensor_hooks.values()):
            hook = cython.cast(tuple, entry)[1]
            gradient = check_replacement(hook(gradient), gradient, hook)
    if observers._retained is not None:
        _retain_all(observers, [gradient])
    return gradient


@cython.cfunc
def before_node(observers: Observers, gradients: tuple) -> tuple:
    """Tensor hooks in order, then retained gradients."""
    values: list = list(gradients)
    if observers.tensor_hooks:
        for number, hook in list(observers.tensor_hooks.values()):
            values[number] = check_replacement(hook(values[number]), values[number], hook)
    if observers._retained is not None:
        _retain_all(observers, values)
    return tuple(values)


@cython.cfunc
def _retain_all(observers: Observers, values: list):
    for number, reference in observers._retained:
        handle = reference()
        if handle is not None and values[number] is not None and _is_at(handle, observers):
            retain(handle, values[number])


def _is_at(handle: Tensor, observers: Observers) -> bool:
    """True if a tensor is still the output of the record; an in-place operation moves it to another."""
    edge = edge_for(handle)
    return edge is not None and discovery.target_for(edge)[0].observers is observers


@cython.cfunc
def before_vjp(observers: Observers, gradients: tuple) -> tuple:
    """Prehooks of the record: they see (and may replace) the gradients of its outputs."""
    if not observers._prehooks:
        return gradients
    values = list(gradients)
    for hook in list(observers.prehooks.values()):
        values = list(_replaced(hook(tuple(values)), values, hook))
    return tuple(values)


def _replaced(result: object, old: list[object], hook: object) -> Any:
    if result is None:
        return old
    if not isinstance(result, tuple):
        raise ArgumentTypeError(
            f"expected tuple, but hook returned '{type(result).__name__}'",
            expected=f"a tuple of {len(old)} gradients, or None",
            got=type(result).__name__,
            fix="return one per value, or nothing",
        )
    items: tuple = result
    if len(items) != len(old):
        raise GradientError(
            f"hook '{_name(hook)}' has returned an incorrect number of values (got {len(items)}, but expected "
            f"{len(old)})",
            expected=f"{len(old)} gradients",
            got=str(len(items)),
            fix="return one per value, or None",
        )
    return [check_replacement(new, before, hook) for new, before in zip(items, old, strict=True)]


@cython.cfunc
def after_node(observers: Observers, parts: list, gradients: tuple) -> list:
    """Posthooks of the record: they see (and may replace) the gradients of its inputs."""
    if not observers._posthooks:
        return parts
    for hook in list(observers.posthooks.values()):
        parts = list(_replaced(hook(tuple(parts), gradients), parts, hook))
    return parts


def retain(handle: Tensor, gradient: Tensor) -> None:
    """Keep the gradient of a non-leaf in its `.grad`."""
    before = handle._grad
    handle._grad = gradient if before is None else before + gradient


@cython.cfunc
def observe_leaf(leaf: Tensor, gradient: object) -> object:
    """Tensor hooks of a leaf on its summed gradient."""
    if leaf.hooks is None:
        return gradient
    observers: Observers = leaf.hooks
    for _, hook in list(observers.tensor_hooks.values()):
        gradient = check_replacement(hook(gradient), gradient, hook)
    return gradient


def call_after(leaf: Tensor, hooks: dict[int, Callable[[Tensor], object]]) -> None:
    """Call the post-accumulate hooks of a leaf. Errors: TypeError, RuntimeError where one returns another tensor."""
    for hook in list(hooks.values()):
        result = hook(leaf)
        if result is None or result is leaf:
            continue
        if not isinstance(result, Tensor):
            raise ArgumentTypeError(
                f"expected Variable, but hook returned '{type(result).__name__}'",
                expected="nothing from a post accumulate grad hook",
                got=type(result).__name__,
                fix="return nothing; change the leaf or its .grad in place",
            )
        raise GradientError(
            "Tensor post accumulate grad hooks should return None.",
            expected="nothing: the gradient has been accumulated",
            got=f"a tensor from hook '{_name(hook)}'",
            fix="return nothing; change the leaf or its .grad in place",
        )
