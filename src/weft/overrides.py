"""Modes that see every call of a public function: `TorchFunctionMode`, under PyTorch's name.

In: a class with `__torch_function__`. Out: calls on this thread go to it while it is entered. Operators other than `@`
are recorded without a call and are not seen.
"""

from __future__ import annotations

from typing import Any

import weft
from weft import Tensor
from weft.graph.bound import bind
from weft.graph.public import enter_mode, leave_mode


def see_products() -> None:
    """From now on `a @ b` is a call that modes see."""
    bind({}, {"matmul": weft.matmul})


class TorchFunctionMode:
    """A context in which each call `func(*args, **kwargs)` is `mode.__torch_function__(func, types, args, kwargs)`.

    While it runs, the mode is off: it may call `func` itself. NotImplemented lets the call go on.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call the function; subclasses do something about it."""
        return func(*args, **(kwargs or {}))

    def __enter__(self) -> TorchFunctionMode:
        see_products()
        enter_mode(self)
        return self

    def __exit__(self, *exception: object) -> None:
        leave_mode()


def is_tensor_like(inp: Any) -> bool:
    """Whether something is a tensor, or answers calls itself."""
    return isinstance(inp, Tensor) or hasattr(inp, "__torch_function__")


def has_torch_function(relevant_args: Any) -> bool:
    """Whether an argument is of a type that answers calls itself."""
    return any(
        hasattr(type(value), "__torch_function__") and type(value) is not Tensor
        for value in relevant_args
    )
