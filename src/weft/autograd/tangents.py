"""Custom Functions in forward mode: tangents as `jvp` gets and returns them, and the transpose of `backward`.

In come records of Functions; out go tangents, or cotangents that are only asked for to be differentiated.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from weft.errors import ArgumentTypeError, GradientError
from weft.graph import tape as tapes
from weft.graph.edges import edge_for, set_edge
from weft.graph.targets import GradientFunction, OutputEdge
from weft.graph.tensor import Tensor
from weft.ops.primitives import full


@contextmanager
def transposing() -> Iterator[None]:
    """Around rules whose results are only differentiated by the cotangents they get: a custom Function's `jvp` says
    how, and a write by repeated indices gives its cotangent only to the source that stayed."""
    mode = tapes.tape().mode
    former = mode.extra
    mode.extra = {**(former or {}), "transposing": True}
    try:
        yield
    finally:
        mode.extra = former


def tangents_for(ctx: Any, arguments: Any, tangents: list[Any]) -> list[Any]:
    """Tangents as `jvp` gets them: zeros for tensors without one, unless `set_materialize_grads(False)`."""
    if not ctx.materializes:
        return tangents
    given: list[Any] = []
    for found, argument in zip(tangents, arguments, strict=True):
        if found is None and argument is not None and argument[1].category >= 2:
            found = full(argument[0], 0, argument[1])
        given.append(found)
    return given


def transposed(record: Any, cotangents: list[Any]) -> list[Any]:
    """The cotangents of the arguments of a Function that has a `jvp`."""
    return Transposed(record, cotangents).parts()


class Transposed(GradientFunction):
    """Cotangents of a Function's arguments that are only asked for to be differentiated by those of its outputs: the
    derivative is `jvp`, and `backward` need not run."""

    def __init__(self, record: Any, cotangents: list[Any]) -> None:
        self.record = record
        self.edges = tuple([None if g is None else edge_for(g) for g in cotangents])
        self.types = [
            t if e is not None else None
            for t, e in zip(record.input_types, record.edges, strict=True)
        ]
        self.outputs = len(self.types)
        self.output_types = self.types

    def name(self) -> str:
        """The name of the Function's record, with what is asked of it."""
        return f"{self.record.name()}Jvp"

    @property
    def where(self) -> str:
        """The user's line that called `apply`."""
        found: str = self.record.where
        return found

    def parts(self) -> list[Any]:
        """Zeros, which know how they depend on the cotangents."""
        found: list[Any] = []
        for number, kind in enumerate(self.types):
            part = None if kind is None else full(kind[0], 0, kind[1])
            if part is not None:
                set_edge(part, OutputEdge(self, number))
            found.append(part)
        return found

    def pull(self, cotangents: list[Any], create: bool) -> list[Any]:
        """The tangents of the outputs."""
        record = self.record
        tangents = tangents_for(record.ctx, record.input_types, cotangents)
        returned = record.function.jvp(record.ctx, *tangents)
        parts = list(returned) if isinstance(returned, (tuple, list)) else [returned]
        return checked_tangents(record.function, parts, record.output_types)


def checked_tangents(function: Any, parts: list[Any], types: list[Any]) -> list[Any]:
    """What `jvp` returned, one per output. Errors: RuntimeError on another number or shape, TypeError."""
    if len(parts) != len(types):
        raise GradientError(
            f"function {function.__name__} returned an incorrect number of forward gradients (expected {len(types)}, "
            f"got {len(parts)})",
            expected=f"{len(types)} tangents, one per output of forward",
            got=str(len(parts)),
            fix="return None for outputs without a tangent",
        )
    for number, (part, kind) in enumerate(zip(parts, types, strict=True)):
        if part is None or kind is None:
            continue
        if not isinstance(part, Tensor):
            raise ArgumentTypeError(
                f"function {function.__name__} returned a forward gradient of type {type(part).__name__}",
                expected="a Tensor or None",
                got=type(part).__name__,
                fix="return a Tensor",
            )
        if part._shape != kind[0]:
            raise GradientError(
                "Trying to set a forward gradient that has a different size than that of the original Tensor, this "
                f"is not supported. Tensor is of size {list(kind[0])} while the given forward gradient of function "
                f"{function.__name__} at index {number} is of size {list(part._shape)}.",
                expected=str(list(kind[0])),
                got=str(list(part._shape)),
                fix="return a tangent of the output's shape",
            )
    return parts
