"""Signals under PyTorch's `signal` names: the windows.

A window of some length is a vector. Start with `windows`.
"""

from __future__ import annotations

import sys

from weft._build.lazy import gather as _gather
from weft.signal import windows

__all__ = ["windows"]
_WINDOWS = "bartlett blackman cosine exponential gaussian general_cosine general_hamming hamming hann kaiser nuttall"
_gather(sys.modules[__name__], {"windows.windows": {"signal.windows": _WINDOWS}})
