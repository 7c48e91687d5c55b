"""`weft.cuda.amp`: autocast and GradScaler for a device that is not there; both are off."""

from __future__ import annotations

import sys
from typing import Any

from weft._build.lazy import gather as _gather
from weft._build.lazy import later

amp = later("weft.amp")

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]  # noqa: F822 - made when asked for


def _classes() -> dict[str, type]:
    """The classes of the CPU with the device fixed, made when they are first named: programs inherit from them."""

    class autocast(amp.autocast):  # type: ignore[misc,name-defined]  # noqa: N801 - PyTorch's name
        """A context, and a decorator, that does nothing."""

        def __init__(
            self, enabled: bool = True, dtype: object = None, cache_enabled: bool = True
        ) -> None:
            super().__init__("cuda", enabled=False)

    class GradScaler(amp.GradScaler):  # type: ignore[misc,name-defined]
        """A scaler that does nothing."""

        def __init__(self, *args: object, **options: object) -> None:
            super().__init__("cuda", *args, **{**options, "enabled": False})

    return {"autocast": autocast, "GradScaler": GradScaler}


def __getattr__(name: str) -> Any:
    if name in ("autocast", "GradScaler"):
        globals().update(_classes())
        return globals()[name]
    if name in __all__:
        return getattr(amp, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


_gather(
    sys.modules[__name__],
    {
        "autocast_mode": {"cuda.amp": "autocast custom_bwd custom_fwd"},
        "grad_scaler": {"cuda.amp": "GradScaler", "amp": "OptState"},
        "common": {"cuda": "amp_definitely_not_available"},
    },
)
