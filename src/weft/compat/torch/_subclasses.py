"""What libraries ask about tensors without values, which PyTorch's tracing makes: there are none."""

from __future__ import annotations

import sys

from weft._build.lazy import join as _join
from weft.engine.frontend.tensor import Tensor


def is_fake(x: Tensor) -> bool:
    """Whether a tensor has no values: never."""
    return False


_join(sys.modules[__name__], {"fake_tensor": {"is_fake": is_fake}})
