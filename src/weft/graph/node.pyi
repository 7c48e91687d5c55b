"""Types of the public part of `weft.graph.node` (the fields are declared in its .pxd)."""

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
KIND_NAMES: tuple[str, ...]
RESULT_BIT: int
PENDING_STATE: int
DONE_STATE: int
FAILED_STATE: int

class OpRow:
    name: str
    grad_name: str
    kind: int
    operands: tuple[str, ...]
    def __init__(self, **fields: Any) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

class Node:
    shape: tuple[int, ...]
    edges: tuple[Any, ...] | None
    inputs: tuple[Any, ...] | None
    def name(self) -> str: ...
    def __getattr__(self, name: str) -> Any: ...
    def __setattr__(self, name: str, value: Any) -> None: ...

class GradientFunction:
    edges: tuple[Any, ...]
    seq: int
    outputs: int
    observers: Any
    released: bool
    def check_usable(self) -> None: ...
    def release(self) -> None: ...
    def pull(self, cotangents: list[Any], create: bool) -> list[Any]: ...

class OutputEdge:
    function: GradientFunction
    number: int
    def __init__(self, function: GradientFunction, number: int) -> None: ...

class AccumulateGrad:
    variable: Any
    observers: Any
    def __init__(self, variable: Any) -> None: ...
    def name(self) -> str: ...

def __getattr__(name: str) -> Any: ...
