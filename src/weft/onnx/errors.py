"""Errors of the export."""

from __future__ import annotations

from weft.errors import MissingPackageError, WeftError


class OnnxExporterError(WeftError, RuntimeError):
    """A call that ONNX cannot say: control flow that depends on values, an operation, a size."""


def missing(package: str) -> MissingPackageError:
    """The error where a package of the extra is not installed."""
    return MissingPackageError(
        f"weft.onnx needs the package {package}",
        expected=f"{package} installed",
        got=f"no module {package}",
        fix="pip install 'weft[onnx]'",
    )
