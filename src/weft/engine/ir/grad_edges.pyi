"""Types of `weft.engine.ir.grad_edges` (the fields are declared in its .pxd)."""

from typing import Any

class GradientFunction:
    edges: tuple[Any, ...]
    seq: int
    outputs: int
    observers: Any
    released: bool
    def check_usable(self) -> None: ...
    def release(self) -> None: ...
    def vjp(self, cotangents: list[Any], create: bool) -> list[Any]: ...

class OutputEdge:
    function: GradientFunction
    number: int
    def __init__(self, function: GradientFunction, number: int) -> None: ...

class AccumulateGrad:
    variable: Any
    observers: Any
    def __init__(self, variable: Any) -> None: ...
    def name(self) -> str: ...
