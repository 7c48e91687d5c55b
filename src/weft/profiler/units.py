"""Times, shares and bytes as text, in the units of PyTorch's tables."""

from __future__ import annotations

_UNITS = {"s": 1e6, "ms": 1e3, "us": 1.0}


def format_time(us: float, unit: str | None = None) -> str:
    """A time given in microseconds, in the largest unit in which it is at least one."""
    if unit is None:
        unit = next((u for u in ("s", "ms") if us >= _UNITS[u]), "us")
    return f"{us / _UNITS[unit]:.3f}{unit}"


def format_share(part: float, whole: float) -> str:
    """A share in percent."""
    return f"{part * 100 / whole:.2f}%" if whole else "NaN"


def format_memory(nbytes: float) -> str:
    """A number of bytes in the largest unit in which it is at least one."""
    for power, unit in ((30, "GB"), (20, "MB"), (10, "KB")):
        if abs(nbytes) >= 1 << power:
            return f"{nbytes / (1 << power):.2f} {unit}"
    return f"{nbytes:.0f} B"
