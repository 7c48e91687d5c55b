"""Parameters and buffers: the tensors that a Module recognises when they are assigned to it.

In: a tensor or nothing. Out: a leaf that shares the tensor's value. What a Module does with them is
its own.
"""

from __future__ import annotations

from typing import Any, Self

import weft
from weft import Tensor
from weft.functional.arguments import need_flag, need_tensor


class Parameter(Tensor):
    """A tensor that is trained: a leaf that requires a gradient, listed by `Module.parameters()`.

    Shapes: those of `data`, whose value it shares. Errors: RuntimeError where `requires_grad` is
    asked of integers.
    """

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Self:
        need_flag("Parameter", requires_grad, "requires_grad")
        source = weft.empty(0) if data is None else need_tensor("Parameter", data, "data")
        made: Self = Tensor._make_subclass(cls, source.detach(), requires_grad)
        return made

    def __init__(self, data: Tensor | None = None, requires_grad: bool = True) -> None:
        """Everything is done by `__new__`."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.detach().clone(), self.requires_grad)
        copied: Parameter = memo[id(self)]
        return copied

    def __repr__(self, **options: Any) -> str:
        return "Parameter containing:\n" + super().__repr__()

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.detach(), self.requires_grad)


def _rebuild(cls: type[Parameter], data: Tensor, requires_grad: bool) -> Parameter:
    """What unpickling calls."""
    return cls(data, requires_grad)


class Buffer(Tensor):
    """A tensor that is a module's state without being trained; `persistent` ones are saved."""

    persistent: bool

    def __new__(
        cls,
        data: Tensor | None = None,
        requires_grad: bool = False,
        *,
        persistent: bool = True,
    ) -> Self:
        need_flag("Buffer", requires_grad, "requires_grad")
        source = weft.empty(0) if data is None else need_tensor("Buffer", data, "data")
        made: Self = Tensor._make_subclass(cls, source.detach(), requires_grad)
        made.persistent = persistent
        return made

    def __init__(
        self,
        data: Tensor | None = None,
        requires_grad: bool = False,
        *,
        persistent: bool = True,
    ) -> None:
        """Everything is done by `__new__`."""
