# cython: language_level=3
"""What a device is to everybody above it: its name, its number, its thresholds.

Devices register themselves when their module is imported, the default one (number 0) first. Code above this folder
asks the device, and imports none by its name; `weft/__init__.py` says which there are.
"""

import cython
from cython.cimports.weft.engine.devices.tuning import Tuning

from weft._build.compiled import require
from weft.engine.devices.tuning import need_none

require(__name__, cython.compiled)

DEVICES = cython.declare(list, [])  # by number


@cython.final
@cython.cclass
class Capabilities:
    """What a device can do at all: it limits what passes may decide, where `Tuning` says what pays."""

    def __init__(self, **fields):
        take = fields.pop
        self.longest_row = take("longest_row")  # elements of one that a row kernel can keep
        # elements behind each row of partial results that a kernel may write over
        self.scratch_margin = take("scratch_margin")
        self.alignment = take("alignment")  # bytes that a value's memory is a multiple of
        need_none(self, fields)


@cython.cclass
class Device:
    """Where values lie and kernels run. `tuning` may be replaced: what is scheduled next reads the new record."""

    def __init__(self, name: str, capabilities: Capabilities, tuning: Tuning):
        self.name = name
        self.capabilities = capabilities
        self.number = len(DEVICES)
        self.tuning = tuning
        DEVICES.append(self)

    def __repr__(self):
        return f"<device {self.name}>"


@cython.ccall
def default_device() -> Device:
    """The device of values that nobody has asked to be elsewhere."""
    return DEVICES[0]


def devices() -> tuple:
    """All devices, by number."""
    return tuple(DEVICES)
