"""The target of code generation: the processor's masked memory accesses, and the sizes of its caches.

Values never depend on it: every kernel is written for the same lanes, and a target only chooses how a partial vector
is read and written and how wide the registers may be.
"""

from __future__ import annotations

import os
from functools import cache
from typing import NamedTuple


class Target(NamedTuple):
    """A processor family: register bits, and the element sizes that it can load under a mask."""

    name: str
    register_bits: int
    masked: tuple[int, ...]


AVX512 = Target("avx512", 512, (1, 2, 4, 8))
AVX2 = Target("avx2", 256, (4, 8))
NEON = Target("neon", 128, ())


CACHES = "/sys/devices/system/cpu/cpu0/cache"
USUAL_CACHE = 32 << 20  # of the last cache if the system does not tell


@cache
def last_cache() -> int:
    """Bytes of the largest cache of the first processor."""
    found = []
    for number in range(8):
        try:
            with open(f"{CACHES}/index{number}/size") as file:
                text = file.read().strip()
        except OSError:
            break
        unit = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:])
        if unit is not None and text[:-1].isdigit():
            found.append(int(text[:-1]) * unit)
    return max(found, default=USUAL_CACHE)


def processor() -> str:
    """The lines on the first processor in Linux's /proc/cpuinfo that do not change over time; empty elsewhere."""
    try:
        with open("/proc/cpuinfo") as file:
            lines = file.read().partition("\n\n")[0].splitlines()
    except OSError:
        return ""
    lasting = ("vendor", "model", "cpu family", "stepping", "flags", "CPU ", "Features")
    return "\n".join(line for line in lines if line.startswith(lasting))


@cache
def reads_lane_by_lane() -> bool:
    """True if gathers load lane by lane, which is quicker than the gather instruction: on AMD's processors."""
    told = processor() if os.uname().machine == "x86_64" else ""
    return any("AMD" in line for line in told.splitlines() if line.startswith("vendor_id"))


def _features() -> set[str]:
    """The processor's features by their names in LLVM, which Linux uses too on x86-64: LLVM is asked only elsewhere,
    since that takes its whole library into memory."""
    for line in processor().splitlines():
        name, _, words = line.partition(":")
        if name.strip() == "flags":
            return set(words.split())
    from llvmlite import binding

    return {name for name, has in binding.get_host_cpu_features().items() if has}


@cache
def host() -> Target:
    """The target of this machine."""
    if (
        os.uname().machine != "x86_64"
    ):  # under emulation, /proc/cpuinfo may tell of another processor
        return NEON
    features = _features()
    if features >= {"avx512f", "avx512bw", "avx512vl", "avx512dq"}:
        return AVX512
    return AVX2 if "avx2" in features else NEON
