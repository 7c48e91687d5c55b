"""Comparing results, under PyTorch's names; and what the framework's own tests are made of.

In come values and what they should be; out goes nothing, or an error that names the first place of difference. Start
with `closeness`.
"""

from weft._build.lazy import export_later as _export_later

_EXPORTS = {"assert_close": "closeness", "assert_allclose": "closeness", "make_tensor": "making"}
__all__ = ["assert_allclose", "assert_close", "make_tensor"]
__getattr__, __dir__ = _export_later(__name__, _EXPORTS)
