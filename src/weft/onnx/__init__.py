"""`weft.onnx`: models as ONNX files, which other programs run.

`export` records a call, and writes what was recorded as an ONNX graph by the package `onnx` (an extra). `recording`
takes the call apart, `dynamic` finds which sizes may change, `sizes` what depends on them; `graph` makes the nodes, by
the tables in `operators`. Start with `exporting`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from weft._build.lazy import export_later as _export_later
from weft._build.lazy import join as _join

_EXPORTS = {
    "export": "exporting",
    "ONNXProgram": "program",
    "OnnxExporterError": "errors",
    "TrainingMode": "exporting",
    "OperatorExportTypes": "exporting",
}
_exports_under_way = 0


def is_in_onnx_export() -> bool:
    """True while `weft.onnx.export` records a call.

    Example:
        >>> import weft
        >>> weft.onnx.is_in_onnx_export()
        False
    """
    return _exports_under_way > 0


def register_custom_op_symbolic(
    symbolic_name: str, symbolic_fn: object, opset_version: int, **options: object
) -> None:
    """Nothing: what is exported is what was recorded, which no operation of the user's stands in.

    Args:
        symbolic_name: accepted.
        symbolic_fn: accepted.
        opset_version: accepted.
        **options: accepted.
    """


def unregister_custom_op_symbolic(symbolic_name: str, opset_version: int) -> None:
    """Nothing: none was kept.

    Args:
        symbolic_name: accepted.
        opset_version: accepted.
    """


def _parse_args(*kinds: str) -> Callable[[Any], Any]:
    """A decorator that leaves functions as they are."""
    return lambda function: function


_join(
    sys.modules[__name__], {"symbolic_helper": {"parse_args": _parse_args}, "symbolic_opset11": {}}
)
__getattr__, __dir__ = _export_later(__name__, _EXPORTS)
