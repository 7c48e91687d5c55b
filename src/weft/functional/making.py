"""How public functions are put together: names for generated ones, `out=`, in-place variants, tables by name."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from weft.errors import MutationError
from weft.graph.mutation import in_place
from weft.graph.tensor import Tensor
from weft.tensor.leaves import give_out

Function = Callable[..., Any]


def by_name(*functions: Function) -> dict[str, Any]:
    """Functions under their own names."""
    return {function.__name__: function for function in functions}


def named(function: Function, name: str, doc: str) -> Function:
    """A generated function under its public name."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def write_out(out: Any, result: Any) -> Any:
    """Give `out` the value of a result (the `out=` argument). Errors: as `weft.tensor.leaves.give_out`."""
    return give_out(out, result)


def give_all(out: Any, result: Any) -> Any:
    """`write_out` for a result of one tensor or of several."""
    if not isinstance(result, tuple):
        return write_out(out, result)
    written = [write_out(target, part) for target, part in zip(out, result, strict=True)]
    return type(result)(*written) if hasattr(result, "_fields") else tuple(written)


def with_out(function: Function) -> Function:
    """The public function that takes `out=`, of one whose methods do not."""

    def wrapper(*arguments: Any, out: Any = None, **keywords: Any) -> Any:
        result = function(*arguments, **keywords)
        return result if out is None else give_all(out, result)

    made = named(wrapper, function.__name__, function.__doc__ or "")
    made.__module__ = function.__module__
    made.__wrapped__ = function  # type: ignore[attr-defined]  # its signature, for those who ask
    return made


def check_overlap(written: Any, read: Any) -> None:
    """Errors: RuntimeError where contiguous memory that is written is also, in part, that of another operand."""
    if (
        written.storage is not read.storage
        or written.strides is not None
        or read.strides is not None
    ):
        return
    first, second = sorted((t.offset, prod(t._shape)) for t in (written, read))
    if first != second and first[0] + first[1] > second[0] and first[1] and second[1]:
        raise MutationError(
            "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single "
            "memory location. Please clone() the tensor before performing the operation.",
            expected="an operand that is the written tensor itself, or has no memory in common with it",
            got="regions of one storage that overlap in part",
            fix="pass operand.clone()",
        )


def make_in_place(function: Function, name: str = "") -> Function:
    """The in-place variant of a function: its result becomes the tensor's value."""
    name = name or function.__name__

    def method(self: Any, *arguments: Any, **keywords: Any) -> Any:
        if "out" in keywords:
            raise TypeError("got an unexpected keyword argument 'out'")
        for argument in arguments:
            if isinstance(argument, Tensor) and argument.storage is not None:
                check_overlap(self, argument)
        return in_place(self, function(self, *arguments, **keywords))

    made = named(
        method, f"{name}_", f"`{name}`, in place. Errors: MutationError as PyTorch raises them."
    )
    made.__wrapped__ = function  # type: ignore[attr-defined]  # its signature, for those who ask
    return made


def in_place_variants(functions: dict[str, Any], names: str) -> dict[str, Any]:
    """In-place variants of several functions, named with a trailing underscore."""
    return {f"{name}_": make_in_place(functions[name], name) for name in names.split()}
