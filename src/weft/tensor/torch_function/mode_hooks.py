"""Interception of plain tensors' operators for modes: operators, indexing, properties, special methods.

These are recorded without a call, so that nothing could be asked. While a mode is on, Tensor has other members in
their place, which ask the thread's mode first; when the last one ends, it has its own again, and no operation has paid
for it. Functions and methods ask by themselves (`weft.engine.api.api_function`), types of the user's their own way
(`subclasses`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from weft.engine.capi.type_slots import replace_in_type
from weft.engine.dispatch.torch_function import ask_mode, has_mode
from weft.engine.frontend.tensor import Tensor
from weft.tensor.torch_function.subclasses import asked_members, is_operator, method_of, replaced

_entered = 0  # modes that are on and see operators, of all threads


def see_operators() -> None:
    """A mode that sees operators begins."""
    global _entered
    _entered += 1
    if _entered == 1:
        replaced.update(asked_members())
        replace_in_type(Tensor, _asking())


def forget_operators() -> None:
    """Such a mode ends."""
    global _entered
    _entered -= 1
    if _entered == 0:
        replace_in_type(Tensor, replaced)


@cache
def _asking() -> dict[str, Any]:
    """The members that ask the mode."""
    return {name: _member(name, plain) for name, plain in replaced.items()}


def _member(name: str, plain: object) -> Any:
    if name == "__iter__":
        return _iteration(plain)
    if hasattr(plain, "__set__"):
        return _property(plain)
    return _operator(name, plain) if is_operator(name) else _method(plain)


def _method(plain: Any) -> Callable[..., Any]:
    def call(self: object, *given: Any, **keywords: object) -> Any:
        if has_mode():
            answer = ask_mode(plain, (self, *given), keywords)
            if answer is not NotImplemented:
                return answer
        return plain(self, *given, **keywords)

    return call


def _operator(name: str, plain: Any) -> Callable[..., Any]:
    named = method_of(name)

    def call(self: object, *given: object) -> Any:
        if has_mode():
            known = not given or isinstance(given[0], (Tensor, int, float, complex))
            answer = ask_mode(named if known else plain, (self, *given), {})
            if answer is not NotImplemented:
                return answer
        return plain(self, *given)

    return call


def _iteration(plain: Any) -> Callable[..., Any]:
    def call(self: Any) -> Any:
        return iter(self.unbind(0)) if has_mode() and self.dim() else plain(self)

    return call


def _property(plain: Any) -> property:
    def asked(function: Callable[..., Tensor], *args: object) -> Any:
        answer = ask_mode(function, args, {}) if has_mode() else NotImplemented
        return function(*args) if answer is NotImplemented else answer

    return property(
        lambda self: asked(plain.__get__, self),
        lambda self, value: asked(plain.__set__, self, value),
        lambda self: asked(plain.__delete__, self),
        getattr(plain, "__doc__", None),
    )
