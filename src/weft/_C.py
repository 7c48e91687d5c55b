"""What programs call by the name of PyTorch's compiled part; here nothing is traced or dispatched."""

from __future__ import annotations

from contextlib import nullcontext

from weft.errors import LinAlgError as _LinAlgError  # noqa: F401 - PyTorch's name
from weft.graph.overriding import (
    DisableTorchFunctionSubclass,  # noqa: F401 - as above
)
from weft.graph.overriding import (
    disabled as _disabled_torch_function_impl,  # noqa: F401 - as above
)


def _get_tracing_state() -> None:
    """The trace that is being made: none."""


def _log_api_usage_once(event: str) -> None:
    """Nothing is logged."""


def _get_default_device() -> str:
    """Where new tensors lie."""
    return "cpu"


class DispatchKey:
    """Names that PyTorch sends calls by. Here none is."""

    AutocastCPU = "AutocastCPU"
    AutocastCUDA = "AutocastCUDA"
    AutocastXPU = "AutocastXPU"


class DispatchKeySet(frozenset[str]):
    """A set of such names."""

    def __new__(cls, key: str) -> DispatchKeySet:
        return super().__new__(cls, (key,))


_ExcludeDispatchKeyGuard = nullcontext[frozenset[str]]
