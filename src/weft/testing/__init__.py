"""Comparison of results, under PyTorch's names, and the parts of the framework's own tests.

An assertion returns nothing, or raises an error that names the first position of difference. Start with `closeness`.
"""

from weft._build.lazy import export_later as _export_later
from weft.testing import _utils as _utils

_EXPORTS = {"assert_close": "closeness", "assert_allclose": "closeness", "make_tensor": "making"}
__all__ = ["assert_allclose", "assert_close", "make_tensor"]
__getattr__, __dir__ = _export_later(__name__, _EXPORTS)
