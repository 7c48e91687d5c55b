"""`weft.cuda.amp`: autocast and GradScaler for a device that is not there; both are off."""

from __future__ import annotations

from typing import Any

__all__ = ["GradScaler", "autocast"]


def autocast(enabled: bool = True, dtype: Any = None, cache_enabled: bool = True) -> Any:
    """A context, and a decorator, that does nothing."""
    from weft import amp

    return amp.autocast("cuda", enabled=False)


def GradScaler(*args: Any, **options: Any) -> Any:  # noqa: N802 - PyTorch's name
    """A scaler that does nothing."""
    from weft import amp

    return amp.GradScaler("cuda", *args, **{**options, "enabled": False})
