"""Types of the public part of `weft.engine.ir.node` (the fields are declared in its .pxd)."""

from typing import Any

RESULT_BIT: int
PENDING_STATE: int
DONE_STATE: int
FAILED_STATE: int

class Node:
    shape: tuple[int, ...]
    edges: tuple[Any, ...] | None
    inputs: tuple[Any, ...] | None
    def name(self) -> str: ...
    def __getattr__(self, name: str) -> Any: ...
    def __setattr__(self, name: str, value: Any) -> None: ...
