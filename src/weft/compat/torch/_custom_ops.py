"""The older path of `weft.library`; operations have no form that is only traced."""

from __future__ import annotations

from weft.library import custom_op, get_ctx

__all__ = ["custom_op", "get_ctx"]
