"""The older path of `weft.library`; operations have no form that is only traced."""

from __future__ import annotations

from typing import NoReturn

from weft.errors import NotDefinedError
from weft.library import custom_op

__all__ = ["custom_op", "get_ctx"]


def get_ctx() -> NoReturn:
    """Errors: NotImplementedError, which is a RuntimeError: no operation is being traced."""
    raise NotDefinedError(
        "get_ctx() can only be called inside of an abstract implementation",
        expected="an operation that is being traced",
        got="an ordinary call",
        fix="compute the result of the operation from its inputs",
    )
