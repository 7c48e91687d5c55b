"""What the lowering has to know of a processor: which masked memory accesses it has.

Values never depend on it: every kernel is written for the same lanes, and a target only chooses
how a partial vector is read and written and how wide the registers may be.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True)
class Target:
    """A processor family: register bits, and the element sizes that it can load under a mask."""

    name: str
    register_bits: int
    masked: tuple[int, ...]


AVX512 = Target("avx512", 512, (1, 2, 4, 8))
AVX2 = Target("avx2", 256, (4, 8))
NEON = Target("neon", 128, ())


@cache
def host() -> Target:
    """The target of this machine."""
    from llvmlite import binding

    features = binding.get_host_cpu_features()
    if all(features.get(name) for name in ("avx512f", "avx512bw", "avx512vl", "avx512dq")):
        return AVX512
    return AVX2 if features.get("avx2") else NEON
