"""Construction of public functions: names for generated ones, `out=`, in-place variants, tables by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from math import prod
from typing import Any

from weft.engine.api.api_function import defined_in
from weft.engine.frontend.inplace import in_place
from weft.engine.frontend.tensor import Tensor
from weft.errors import ArgumentTypeError, DTypeError, KindError, MutationError
from weft.functional.support.return_types import type_with_out
from weft.tensor.arguments import C_NAMES
from weft.tensor.leaves import give_out
from weft.tensor.memory.host_memory import write_where_it_lies

Function = Callable[..., Any]


_REFUSED = (  # what every function in place refuses
    "MutationError on a leaf that requires grad and where elements share memory, ShapeError where the result has "
    "another shape, DTypeError where the dtype cannot hold it."
)


def by_name(*functions: Function) -> dict[str, Any]:
    """Functions under their own names."""
    return {function.__name__: function for function in functions}


def named(function: Function, name: str, doc: str) -> Function:
    """A generated function under its public name."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def write_out(out: Tensor, result: Tensor) -> Any:
    """Give `out` the value of a result (the `out=` argument). Errors: as `weft.tensor.leaves.give_out`."""
    return give_out(out, result)


def given(out: object, result: object, converts: bool = False) -> Any:
    """A result, or what `out=` names with its values. See `give_all`."""
    return result if out is None else give_all(out, result, converts)


def give_all(out: Any, result: Any, converts: bool = False) -> Any:
    """`write_out` for a result of one tensor or of several, which have to have their types unless `converts` says that
    the function converts what it writes.

    Errors: TypeError where there are not as many tensors as results, RuntimeError where one has another type."""
    if not isinstance(result, tuple):
        return write_out(out, result)
    if not isinstance(out, (tuple, list)) or len(out) != len(result):
        raise KindError(
            f"out must be a tuple of {len(result)} tensors",
            expected=f"{len(result)} tensors",
            got=f"{len(out)}" if isinstance(out, (tuple, list)) else type(out).__name__,
            fix="pass a tensor for each result",
        )
    for number, target in enumerate(out):
        if not isinstance(target, Tensor):
            raise ArgumentTypeError(
                f"expected Tensor as element {number} of out, but got {type(target).__name__}",
                expected=f"{len(result)} tensors",
                got=repr(target)[:60],
                fix="pass weft.empty(0, dtype=...) for a result that is not needed",
            )
    if not converts:
        check_types(out, result)
    written = [write_out(target, part) for target, part in zip(out, result, strict=True)]
    made: Any = type_with_out(type(result))(written)
    return made


def check_apart(out: object, arguments: tuple[object, ...], made: object = None) -> None:
    """Errors: RuntimeError where `out` shows an element twice, or memory of what is read; `made` is the result, whose
    size it takes."""
    results: tuple[Any, ...] = made if isinstance(made, tuple) else (made,)
    for place, target in enumerate(out if isinstance(out, (tuple, list)) else (out,)):
        result: Any = results[place] if place < len(results) else None
        for read in (x for x in arguments if isinstance(x, Tensor)):
            if target is read:
                raise _sharing("tensors that lie apart", "out= that is an input")
            if target._storage is None or target._storage is not read._storage:
                continue
            grown = result is not None and result._shape != target._shape
            reach = prod(result._shape) if grown else _extent(target)
            spans = (
                (target.offset, target.offset + reach),
                (read.offset, read.offset + _extent(read)),
            )
            low, high = sorted(spans)
            if high[0] < low[1]:
                raise _sharing("tensors that lie apart", "out= in the memory of an input")
        steps = zip(target._shape, target.strides or (), strict=False)
        if any(step == 0 and size > 1 for size, step in steps):
            raise _overlapping("an out= whose elements lie apart", "an expanded tensor")


def _extent(x: Tensor) -> int:
    """The number of elements of memory that a tensor spans."""
    if x.strides is None:
        return prod(x._shape)
    return 1 + sum((size - 1) * step for size, step in zip(x._shape, x.strides, strict=True))


def _overlapping(expected: str, got: str) -> MutationError:
    return MutationError(
        "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
        "Please clone() the tensor before performing the operation.",
        expected=expected,
        got=got,
        fix="pass out=weft.empty(0)",
    )


def check_types(out: Any, result: Any) -> None:
    """Errors: DTypeError where `out` has not the type of the result, as PyTorch wants of what picks elements."""
    pairs = zip(out, result, strict=False) if isinstance(result, tuple) else [(out, result)]
    for target, part in pairs:
        if target._dtype is not part._dtype:
            raise DTypeError(
                f"Expected out tensor to have dtype {C_NAMES[part._dtype.name]}, but got "
                f"{C_NAMES[target._dtype.name]} instead",
                expected=part._dtype.name,
                got=target._dtype.name,
                fix="make out of the type of the result",
            )


def with_out(function: Function) -> Function:
    """The public function that takes `out=`, of one whose methods do not."""

    def wrapper(*arguments: object, out: Tensor | None = None, **keywords: object) -> Any:
        return given(out, function(*arguments, **keywords))

    made = named(wrapper, function.__name__, function.__doc__ or "")
    made.__module__ = function.__module__
    made.__wrapped__ = function  # type: ignore[attr-defined]  # its signature, for those who ask
    return made


def check_overlap(written: Tensor, read: Tensor) -> None:
    """Errors: RuntimeError where contiguous memory that is written is also, in part, that of another operand."""
    if (
        written._storage is not read._storage
        or written.strides is not None
        or read.strides is not None
    ):
        return
    first, second = sorted(_region(t) for t in (written, read))
    if first != second and first[0] + first[1] > second[0] and first[1] and second[1]:
        raise _sharing(
            "an operand that is the written tensor itself, or has no memory in common with it",
            "regions of one storage that overlap in part",
        )


def _region(x: Tensor) -> tuple[int, int]:
    """(offset, length) in bytes of a contiguous tensor in its memory."""
    return x.offset * x._dtype.itemsize, prod(x._shape) * x._dtype.itemsize


def _sharing(expected: str, got: str) -> MutationError:
    return MutationError(
        "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single "
        "memory location. Please clone() the tensor before performing the operation.",
        expected=expected,
        got=got,
        fix="pass operand.clone(), or leave out= away",
    )


# Where functions stand that PyTorch computes in one pass over operands and `out=`, those there that it does not, and
# those elsewhere that it does.
_ONE_PASS = (
    "elementwise.binary elementwise.comparison elementwise.limits elementwise.unary indexing.gather_scatter "
    "indexing.index indexing.selection indexing.slices linalg.composed_products reductions.sums_and_extrema "
    "shape.concat shape.view_transforms sorting.sort sorting.unique special.bessel special.incomplete_gamma "
    "special.orthogonal_polynomials special.special uncommon"
)
_SEVERAL_PASSES = (
    "amax amin cummax cummin logsigmoid logsumexp mean multigammaln mvlgamma ndtr tensordot"
)
_ALSO_ONE_PASS = ("diff", "outer", "triangular_solve")
_PLACES = {f"weft.functional.{module}" for module in _ONE_PASS.split()}
_PLACES |= {"weft.random", "weft.functional.random.multinomial", "weft.nn.functional.activation"}


def check_out(
    function: Callable[..., object], arguments: list[Tensor | int], keywords: dict[str, object]
) -> None:
    """Errors: RuntimeError where `out=` is memory that is also, in part, that of an operand, and PyTorch refuses it."""
    out, name = keywords["out"], function.__name__
    one_pass = defined_in(function) in _PLACES and name not in _SEVERAL_PASSES.split()
    if not one_pass and name not in _ALSO_ONE_PASS:
        return
    targets = out if isinstance(out, (tuple, list)) else (out,)
    written = [x for x in targets if isinstance(x, Tensor) and x._storage is not None]
    given = [*arguments, *(keywords[key] for key in keywords if key != "out")] if written else []
    for read in tensors_in(given):
        for target in written:
            check_overlap(target, read)


def tensors_in(given: Iterable[object]) -> Iterator[Tensor]:
    """Tensors among arguments, and in lists of them."""
    for value in given:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (tuple, list)):
            yield from tensors_in(value)


def make_in_place(function: Function, name: str = "") -> Function:
    """The in-place variant of a function: its result becomes the tensor's value."""
    name = name or function.__name__

    def method(self: Tensor, *arguments: Tensor | float, **keywords: object) -> Any:
        if "out" in keywords:
            raise TypeError("got an unexpected keyword argument 'out'")
        for argument in arguments:
            if isinstance(argument, Tensor) and argument._storage is not None:
                check_overlap(self, argument)
        if self._storage is not None and self._storage.foreign is not None:

            def update(region: Tensor) -> None:
                in_place(region, function(region, *arguments, **keywords))

            if write_where_it_lies(self, (*arguments, *keywords.values()), update):
                return self
        return in_place(self, function(self, *arguments, **keywords))

    made = named(method, f"{name}_", f"`{name}`, in place. Errors: {_REFUSED}")
    made.__wrapped__ = function  # type: ignore[attr-defined]  # its signature, for those who ask
    return made


def in_place_variants(functions: Mapping[str, Function], names: str) -> dict[str, Any]:
    """In-place variants of several functions, named with a trailing underscore."""
    return {f"{name}_": make_in_place(functions[name], name) for name in names.split()}
