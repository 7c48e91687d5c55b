"""Facts of this build under the names of PyTorch's `version`; there are no devices but the CPU."""

from __future__ import annotations

from typing import Any

from weft import __version__ as __version__

debug = False
cuda: Any = None
hip: Any = None
xpu: Any = None
rocm: Any = None
git_version: Any = None


class __config__:  # noqa: N801 - PyTorch's name
    """The configuration of this build as text: `weft.__config__.show()`."""

    @staticmethod
    def show() -> str:
        """The version, and what makes the machine code."""
        return f"Weft {__version__}\n  - CPU only\n  - kernels: generated, LLVM IR\n"

    @staticmethod
    def _cxx_flags() -> str:
        """The options of a C++ compiler: none, there is no C++."""
        return ""

    @staticmethod
    def parallel_info() -> str:
        """The number of threads that run kernels, as text."""
        from weft.engine.devices.cpu.threads import get_num_threads

        return f"threads of kernels: {get_num_threads()}\n"
