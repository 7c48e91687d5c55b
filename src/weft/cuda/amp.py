"""`weft.cuda.amp`: autocast and GradScaler for a device that is not there; both are off."""

from __future__ import annotations

import sys
from typing import Any

from weft._build.lazy import gather as _gather
from weft._build.lazy import later
from weft.engine.api.deprecation import deprecated, warn_deprecated

amp = later("weft.amp")

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]  # noqa: F822 - made when asked for


def _advice(name: str, where: str) -> str:
    return f"`torch.cuda.amp.{name}(args...)` is deprecated. Please use `torch.amp.{name}({where})` instead."


def _members() -> dict[str, Any]:
    """The classes and decorators of the CPU with the device fixed, made when they are first named: programs inherit
    from the classes."""

    class autocast(amp.autocast):  # type: ignore[misc,name-defined]  # noqa: N801 - PyTorch's name
        """A context, and a decorator, that does nothing."""

        def __init__(
            self, enabled: bool = True, dtype: object = None, cache_enabled: bool = True
        ) -> None:
            warn_deprecated(_advice("autocast", "'cuda', args..."))
            super().__init__("cuda", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)

    class GradScaler(amp.GradScaler):  # type: ignore[misc,name-defined]
        """A scaler that does nothing."""

        def __init__(self, *args: object, **options: object) -> None:
            warn_deprecated(_advice("GradScaler", "'cuda', args..."))
            super().__init__("cuda", *args, **options)

    fixed = {
        name: deprecated(_advice(name, "args..., device_type='cuda'"))(getattr(amp, name))
        for name in ("custom_fwd", "custom_bwd")
    }
    return {"autocast": autocast, "GradScaler": GradScaler, **fixed}


def __getattr__(name: str) -> Any:
    if name in __all__:
        globals().update(_members())
        return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


_gather(
    sys.modules[__name__],
    {
        "autocast_mode": {"cuda.amp": "autocast custom_bwd custom_fwd"},
        "grad_scaler": {"cuda.amp": "GradScaler", "amp": "OptState"},
        "common": {"cuda": "amp_definitely_not_available"},
    },
)
