from collections.abc import Sequence

from typing_extensions import Buffer

from weft.engine.devices.cpu.instructions import Instructions

class Executable(Instructions):
    interrupt: BaseException | None
    def run(
        self, slots: Sequence[int] | Buffer, start: int = 0, uninterruptible: bool = False
    ) -> int: ...
    def record_times(self, on: bool = True) -> None: ...
    def recorded_times(self) -> list[int]: ...

def launch_once(
    address: int,
    pointers: Sequence[int],
    arguments: Sequence[int],
    units: int,
    grain_size: int = 1,
    splits: int = 1,
) -> None: ...
