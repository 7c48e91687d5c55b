"""Comparing results, under PyTorch's names; and what the framework's own tests are made of."""

from weft._lazy import export_later

_EXPORTS = {"assert_close": "closeness"}
__all__ = ["assert_close"]
__getattr__, __dir__ = export_later(__name__, _EXPORTS)
