"""`weft._inductor`: the settings of PyTorch's code generator, which change nothing, and the devices that it has."""

from __future__ import annotations

import sys

from weft._dynamo import Settings

from weft._build.lazy import join as _join

config = Settings(cpp_wrapper=False, fallback_random=False)
_join(sys.modules[__name__], {"utils": {"GPU_TYPES": ["cuda", "mps", "xpu", "mtia"]}})
sys.modules[f"{__name__}.config"] = config  # type: ignore[assignment]  # programs import it
