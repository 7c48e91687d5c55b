"""Switches of back ends that PyTorch programs set. They can be set and read; here they change nothing.

Results are deterministic and the same on any number of threads whatever the switches say.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

from weft.codegen.target import host


class _Switches(ModuleType):
    """The flags of one back end that does not exist here; a module, so that it can be imported."""

    def __init__(self, name: str, **flags: bool) -> None:
        super().__init__(f"{__name__}.{name}", "Switches of a back end that does not exist here.")
        self.__dict__.update(flags)
        sys.modules[self.__name__] = self

    def is_available(self) -> bool:
        """Whether the back end exists: no."""
        return False

    def is_built(self) -> bool:
        """Whether the back end was compiled in: no."""
        return False


@contextmanager
def sdp_kernel(*switches: bool, **named: bool) -> Iterator[None]:
    """A context that changes nothing: attention has one implementation."""
    yield


cudnn = _Switches("cudnn", enabled=False, benchmark=False, deterministic=True, allow_tf32=False)
mps = _Switches("mps")
mkldnn = _Switches("mkldnn", enabled=False)
cuda = _Switches("cuda")
cuda.matmul = _Switches("cuda.matmul", allow_tf32=False)  # type: ignore[attr-defined]
cuda.sdp_kernel = sdp_kernel  # type: ignore[attr-defined]


class _Cpu(_Switches):
    """The processor, which exists."""

    def is_available(self) -> bool:
        """Whether the back end exists: yes."""
        return True

    def get_cpu_capability(self) -> str:
        """Which vector instructions kernels are made for: AVX512, AVX2, or DEFAULT for those that all have."""
        name = host().name.upper()
        return name if name.startswith("AVX") else "DEFAULT"


cpu = _Cpu("cpu")
