"""The table: ONNX operators by the rows of the op table, and why some rows have none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from weft.onnx.graph import OnnxGraph
from weft.onnx.sizes import Size
from weft.ops import OPS

Rule = Callable[[OnnxGraph, "RecordedOperation"], str]
TABLE: dict[str, Rule] = {}
FITTING: dict[str, Callable[[Any], bool]] = {}  # which params of a row the rule takes
REASONS = {
    "random": "random numbers are drawn as Weft draws them, which ONNX cannot repeat; export with model.eval()",
    "vjp": "derivatives are not exported; export the forward computation",
    "collective": "ONNX has no operations among processes",
    "complex": "ONNX Runtime has no complex numbers; export the parts as real ones",
    "backward": "derivatives are not exported; export the forward computation",
}
COMPLEX = ("complex64", "complex128")


@dataclass
class RecordedOperation:
    """One recorded operation: names and types of what it reads, its params, shape and dtype. Integers that the calls
    differ in are `Varied`."""

    name: str
    inputs: list[str]
    dtypes: list[str]
    shapes: list[tuple[Size, ...]]
    params: Any
    dtype: str
    shape: tuple[Size, ...]

    @property
    def rank(self) -> int:
        """The number of dimensions of the first operand."""
        return len(self.shapes[0])


def rule(*names: str, fits: Callable[[Any], bool] | None = None) -> Callable[[Rule], Rule]:
    """Put a function into the table, under the names of rows; `fits` says which params it takes."""

    def put(function: Rule) -> Rule:
        for name in names:
            TABLE[name] = function
            if fits is not None:
                FITTING[name] = fits
        return function

    return put


def is_one(name: str, params: object) -> bool:
    """True if an operation with a derivative of its own is written as one, not as what computes it."""
    return name in TABLE and (name not in FITTING or FITTING[name](params))


def refusal(operation: RecordedOperation) -> str | None:
    """The reason why an operation cannot be exported; None where it can be."""
    if operation.dtype in COMPLEX or any(dtype in COMPLEX for dtype in operation.dtypes):
        return REASONS["complex"]
    if operation.name in TABLE:
        return None
    for word, reason in REASONS.items():
        if operation.name.startswith((word, "uniform", "normal") if word == "random" else word):
            return reason
        if word in operation.name:
            return reason
    return "ONNX has no operator for it"


def exported() -> list[str]:
    """The rows that can be exported."""
    return [name for name in OPS if name in TABLE]
