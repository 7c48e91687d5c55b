"""What elementwise operations cost, in additions: what fusion weighs computing a value again with.

Rough measures of vectors of float32 on current processors. They decide between equal bits, and never between values.
"""

from __future__ import annotations

_SIMPLE = (
    "add sub mul neg abs square cube cast eq ne lt le gt ge where maximum minimum clamp_min clamp_max relu sign "
    "logical_and logical_or logical_not logical_xor bitwise_and bitwise_or bitwise_xor bitwise_not isnan isinf "
    "isfinite real imag conj complex clone floor ceil trunc round iota"
)
COSTS: dict[str, float] = {
    **dict.fromkeys(_SIMPLE.split(), 1.0),
    "div": 5.0,
    "reciprocal": 5.0,
    "sqrt": 5.0,
    "rsqrt": 9.0,
    "exp": 12.0,
    "normal_float32": 120.0,
    "normal_float64": 240.0,
}
UNKNOWN = 30.0  # of any other
