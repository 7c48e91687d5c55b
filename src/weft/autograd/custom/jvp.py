"""Custom Functions in forward mode: tangents as `jvp` gets and returns them, and the transpose of `backward`.

It takes records of Functions and returns tangents, or cotangents that are only asked for to be differentiated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from weft.autograd.custom.context import constants_of, pushing
from weft.engine.frontend.resolve import edge_for, set_edge
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir import tape as tapes
from weft.engine.ir.grad_edges import GradientFunction, OutputEdge
from weft.engine.ir.mode import Contexts
from weft.errors import GradientError
from weft.ops.primitives import full

if TYPE_CHECKING:
    from weft.autograd.custom.context import FunctionCtx


@contextmanager
def transposing() -> Iterator[None]:
    """Around rules whose results are only differentiated by the cotangents they get: a custom Function's `jvp` says
    how, and a write by repeated indices gives its cotangent only to the source that stayed."""
    mode = tapes.tape().mode
    previous = mode.contexts
    mode.contexts = Contexts(previous, transposing=True)
    try:
        yield
    finally:
        mode.contexts = previous


def tangents_for(ctx: FunctionCtx, arguments: Any, tangents: list[object]) -> list[Any]:
    """Tangents as `jvp` gets them: zeros for tensors without one, unless `set_materialize_grads(False)`."""
    if not ctx.materializes:
        return tangents
    given: list[Any] = []
    for found, argument in zip(tangents, arguments, strict=True):
        if found is None and argument is not None and argument[1].category >= 2:
            found = full(argument[0], 0, argument[1])
        given.append(found)
    return given


def transposed(record: object, cotangents: list[Tensor | None]) -> list[Any]:
    """The cotangents of the arguments of a Function that has a `jvp`."""
    return Transposed(record, cotangents).parts()


class Transposed(GradientFunction):
    """Cotangents of a Function's arguments that are only asked for to be differentiated by those of its outputs: the
    derivative is `jvp`, and `backward` need not run."""

    def __init__(self, record: Any, cotangents: list[Tensor | None]) -> None:
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

    def vjp(self, cotangents: list[Any], create: bool) -> list[Any]:
        """The tangents of the outputs."""
        record = self.record
        tangents = tangents_for(record.ctx, record.input_types, cotangents)
        with pushing(record.ctx):
            returned = record.function.jvp(record.ctx, *tangents)
        parts = list(returned) if isinstance(returned, (tuple, list)) else [returned]
        return checked_tangents(record.function, parts, record.output_types)


def checked_tangents(
    function: Callable[..., Tensor], parts: list[object], types: list[Any]
) -> list[Any]:
    """The tangents that `jvp` returned, one per output, checked. Errors: RuntimeError on another number or shape,
    TypeError."""
    if len(parts) != len(types):
        raise GradientError(
            f"Function's jvp returned an invalid number of forward gradients (expected {len(types)} but got "
            f"{len(parts)})",
            expected=f"{len(types)} tangents, one per output of forward",
            got=str(len(parts)),
            fix="return None for outputs without a tangent",
        )
    for number, (part, kind) in enumerate(zip(parts, types, strict=True)):
        if part is None:
            continue
        if kind is None:
            raise not_differentiable(number)
        if not isinstance(part, Tensor):
            raise GradientError(
                f"expected Variable or None (got {type(part).__name__}) for grad output {number}.",
                expected="a Tensor or None",
                got=type(part).__name__,
                fix="return a Tensor",
            )
        if part._shape != kind[0]:
            raise GradientError(
                "Trying to set a forward gradient that has a different size than that of the original Tensor, this "
                f"is not supported. Tensor is of size {list(kind[0])} while the given forward gradient is of size "
                f"{list(part._shape)}.",
                expected=str(list(kind[0])),
                got=str(list(part._shape)),
                fix="return a tangent of the output's shape",
            )
    return parts


def not_differentiable(number: int) -> GradientError:
    """The error of a tangent for an output that has none."""
    return GradientError(
        f"Function's jvp returned a gradient at position {number}, but the corresponding forward output is not a "
        "differentiable Tensor. You should return None at that position instead.",
        expected="None",
        got="a tensor",
        fix="return None for it",
    )


def versions_of(tangents: list[object]) -> list[int]:
    """The number of writes into each tangent; 0 where there is none, or where nobody counts."""
    return [t._version if isinstance(t, Tensor) and not t.inference else 0 for t in tangents]


def check_memory(
    ctx: FunctionCtx,
    arguments: Any,
    tangents: list[object],
    versions: list[int],
    results: tuple[Tensor, ...],
    parts: list[Tensor | None],
) -> None:
    """Errors: RuntimeError where a result is an argument, or shows one, and its tangent does not the same by that
    argument's tangent."""
    for number, (result, part) in enumerate(zip(results, parts, strict=True)):
        if not isinstance(result, Tensor) or part is None:
            continue
        if any(result is constant for constant in constants_of(ctx)):
            raise not_differentiable(number)
        now = versions_of(tangents)
        for place, (argument, tangent) in enumerate(zip(arguments, tangents, strict=True)):
            if not isinstance(argument, Tensor) or tangent is None:
                continue
            if result is argument and not (part is tangent and now[place] > versions[place]):
                raise _own_memory(
                    "An inplace custom Function is not modifying the forward mode gradients inplace. If the forward is "
                    "modifying an input inplace, then the jvp function must modify the corresponding gradient inplace.",
                    "change the tangent in place, and return it",
                )
            if _shows(result, argument) and not (part.base is not None and _shows(part, tangent)):
                raise _own_memory(
                    _no_view(argument, part),
                    "return the same view of the tangent: tangent.view_as(tangent) for the input itself",
                )


def _shows(result: Tensor, argument: Any) -> bool:
    """True if a result is a view of an argument's memory."""
    return (
        result is not argument
        and result.base is not None
        and result._storage is not None
        and result._storage is argument._storage
    )


def _no_view(argument: Tensor, part: Tensor) -> str:
    """The text about the tangent of a view of an argument that is no such view."""
    if part.base is None:
        what = "A custom Function's forward is returning a view (or an input as-is)"
        return f"{what} but the jvp is not returning a view."
    of = "" if argument.base is None else "same base as the "
    return (
        "A custom Function is returning a view but the jvp is not returning a view of the "
        f"{of}given grad input."
    )


def _own_memory(text: str, fix: str) -> GradientError:
    return GradientError(
        text, expected="a tangent in the memory of the input's", got="one in its own", fix=fix
    )
