"""Spilling as launches: lowering's view of the spill file of `engine.devices.cpu.spill`."""

from __future__ import annotations

import warnings

from weft.engine.devices.cpu import spill
from weft.engine.devices.cpu.machine_code import MachineCode
from weft.engine.pipeline.launch_ir import KernelSpec

TRANSFER = KernelSpec("spill_file", None, ())
TRANSFER.code = MachineCode({"transfer": spill.transfer_address()}, ("transfer",))
_said = False


def is_wanted() -> bool:
    """True if a folder to spill to is set."""
    return spill.folder() != ""


def transfer_arguments(
    offset: int, nbytes: int, out: bool
) -> tuple[int, int, tuple[int, int, int], int]:
    """Units, grain, arguments and estimated work of a launch that moves so many bytes."""
    units = -(-nbytes // spill.CHUNK)
    return units, 1, (offset, nbytes, int(out)), units * spill.NS_OF_CHUNK


def say_once(nbytes: int) -> None:
    """Warn, once in a process, that values go to a file."""
    global _said
    if not _said:
        _said = True
        warnings.warn(
            f"the memory budget is kept by spilling {nbytes:,} bytes to a file in "
            f"{spill.folder()}: weft.memory_report() says what that costs",
            RuntimeWarning,
            stacklevel=2,
        )
