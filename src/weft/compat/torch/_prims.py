"""`weft._prims`: the namespace below which PyTorch's tests look for rules of types."""

from __future__ import annotations

import weft._prims_common as utils

__all__ = ["utils"]
