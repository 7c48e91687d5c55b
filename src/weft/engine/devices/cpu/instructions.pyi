from collections.abc import Sequence
from typing import Self

from typing_extensions import Buffer

class Instructions:
    slot_count: int
    running: int
    held: list[object]
    def __len__(self) -> int: ...
    def append(
        self,
        address: int,
        pointers: Sequence[tuple[int, int]],
        arguments: Sequence[int],
        units: int,
        grain_size: int = 1,
        cost_ns: int = -1,
        owner: object = None,
    ) -> int: ...
    def join(
        self,
        pointers: Sequence[tuple[int, int]],
        arguments: Sequence[int],
        units: int,
        grain_size: int = 1,
        cost_ns: int = -1,
    ) -> None: ...
    def patch_argument(self, index: int, value: int) -> None: ...
    def set_arguments(self, first: int, values: Sequence[int] | Buffer) -> None: ...
    def patch_pointer(self, index: int, slot: int, offset: int) -> None: ...
    def patch_units(self, index: int, units: int, cost_ns: int = -1) -> int: ...
    def first_argument(self, instruction: int) -> int: ...
    def first_pointer(self, instruction: int) -> int: ...
    def copy(self) -> Self: ...
    def instructions(
        self,
    ) -> list[tuple[int, list[tuple[int, int]], list[int], int, int, int]]: ...
