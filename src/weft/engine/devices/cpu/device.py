"""The CPU as a device: the one that values are on where nobody says otherwise."""

from __future__ import annotations

from weft.engine.devices.api import Capabilities, Device
from weft.engine.devices.cpu.limits import ALIGNMENT, LONGEST_ROW, MARGIN
from weft.engine.devices.cpu.tuning import TUNING

CPU = Device(
    "cpu", Capabilities(longest_row=LONGEST_ROW, scratch_margin=MARGIN, alignment=ALIGNMENT), TUNING
)
