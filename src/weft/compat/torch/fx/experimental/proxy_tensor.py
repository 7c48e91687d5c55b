"""Traces of operators on tensors: there are none, each call records its graph. The module has the names that programs
ask for.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..._functorch import make_fx

__all__ = ["get_proxy_mode", "make_fx"]


def get_proxy_mode() -> None:
    """None: no mode traces operators."""


@contextmanager
def disable_proxy_modes_tracing() -> Iterator[None]:
    """A context in which no mode traces operators, which is how it is anyway."""
    yield


maybe_disable_fake_tensor_mode = disable_proxy_modes_tracing


class ProxyTorchDispatchMode:
    """No mode is one."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        make_fx()


class PythonKeyTracer:
    """No tracer is one."""

    def __init__(self) -> None:
        make_fx()
