"""Types of `weft.engine.ir.primitive` (the fields are declared in its .pxd)."""

from typing import Any

ELEMENTWISE: int
REDUCE: int
VIEW: int
REGION: int
CONTRACT: int
INDEX: int
SCATTER: int
SCAN: int
SOURCE: int
ROWS: int
HOST: int
COMPOSITE: int
ARRIVING_COTANGENT: int
KIND_NAMES: tuple[str, ...]
VALUE_OP: Primitive
SCALAR_OP: Primitive

class DirectVjp:
    row: Primitive | None
    sources: tuple[int, ...]
    def __init__(self, row: Primitive | None, sources: tuple[int, ...]) -> None: ...

class Primitive:
    name: str
    grad_name: str
    kind: int
    operands: tuple[str, ...]
    def __init__(self, **fields: Any) -> None: ...
    def __getattr__(self, name: str) -> Any: ...
