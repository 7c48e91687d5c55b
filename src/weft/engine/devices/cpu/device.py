"""The CPU as a device, the default one."""

from __future__ import annotations

from weft.engine.devices.api import Capabilities, Device, Lowerer, Queue
from weft.engine.devices.cpu.host_memory import HostMemory
from weft.engine.devices.cpu.limits import ALIGNMENT, LONGEST_ROW, MARGIN
from weft.engine.devices.cpu.tuning import TUNING


class CpuDevice(Device):
    """The calling process's own processor and memory."""

    def load_queue(self) -> Queue:
        """Worker threads, and the caller's own."""
        from weft.engine.devices.cpu.executor import ThreadQueue

        return ThreadQueue()

    def load_lowerer(self) -> Lowerer:
        """Launches of kernels that LLVM compiles."""
        from weft.engine.devices.cpu.lowering.lowerer import CpuLowerer

        return CpuLowerer()


CPU = CpuDevice(
    "cpu",
    Capabilities(
        longest_row=LONGEST_ROW, scratch_margin=MARGIN, alignment=ALIGNMENT, calls_kernels=True
    ),
    TUNING,
    HostMemory(),
)
