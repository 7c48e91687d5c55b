"""`weft.onnx`: the question whether a model is being exported, which never is."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NoReturn

from weft._build.lazy import join as _join


def is_in_onnx_export() -> bool:
    """True if a model is being exported: never."""
    return False


def register_custom_op_symbolic(
    symbolic_name: str, symbolic_fn: object, opset_version: int, **options: object
) -> None:
    """Nothing: what an operation would be exported as is not asked for."""


def unregister_custom_op_symbolic(symbolic_name: str, opset_version: int) -> None:
    """Nothing: none was kept."""


def _parse_args(*kinds: str) -> Callable[[Any], Any]:
    """A decorator that leaves functions as they are."""
    return lambda function: function


_join(
    sys.modules[__name__], {"symbolic_helper": {"parse_args": _parse_args}, "symbolic_opset11": {}}
)


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(
        f"module 'weft.onnx' has no attribute {name!r}: models are not exported to other formats; weft.save writes "
        "their weights as safetensors",
        name=name,
    )
