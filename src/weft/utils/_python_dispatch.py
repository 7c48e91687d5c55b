"""Names that packages import about modes below PyTorch's functions; here functions are the lowest level that modes
see.

`weft.overrides.TorchFunctionMode` sees every call of a public function; there are no operators below them.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, NoReturn

from weft.errors import NotDefinedError

__all__ = ["TorchDispatchMode", "is_traceable_wrapper_subclass", "return_and_correct_aliasing"]


class TorchDispatchMode:
    """A mode of operators. Subclasses can be defined. Errors: NotImplementedError when one is entered."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """The call itself."""
        return func(*args, **(kwargs or {}))

    def __enter__(self) -> NoReturn:
        raise NotDefinedError(
            f"{type(self).__name__}: there are no operators below the functions that programs call",
            expected="a mode of functions",
            got="a TorchDispatchMode",
            fix="inherit from weft.overrides.TorchFunctionMode and define __torch_function__",
        )

    def __exit__(self, *exception: object) -> None:
        """Nothing has been entered."""


def is_traceable_wrapper_subclass(t: object) -> bool:
    """True if a tensor is made of others that a trace looks at: never."""
    return False


def return_and_correct_aliasing(func: object, args: object, kwargs: object, out: object) -> Any:
    """The result of a function, as it is."""
    return out


def _get_current_dispatch_mode() -> None:
    """The innermost mode: none."""


def _get_current_dispatch_mode_stack() -> list[TorchDispatchMode]:
    """The modes that are on: none."""
    return []


def _disable_current_modes() -> nullcontext[None]:
    """A context that changes nothing: no mode is on."""
    return nullcontext()


no_dispatch = _disable_current_modes


def all_same_mode(modes: Sequence[object]) -> bool:
    """True if all modes are the first of them."""
    return all(mode == modes[0] for mode in modes)
