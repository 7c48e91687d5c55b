"""jacrev, jacfwd, hessian: whole Jacobians, as one row or one column over all units (`vmap`)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import weft
from weft.engine.frontend.tensor import Tensor
from weft.errors import ArgumentError
from weft.func.derivatives import (
    Point,
    _level,
    chosen,
    released,
    split_aux,
    tensors_of,
    with_arguments,
)
from weft.func.mapping import vmap
from weft.func.randomness import Randomness
from weft.func.tree import map_leaves, need_function, rebuild


def _units(like: Tensor) -> Any:
    """Unit tensors: 1 at each row-major position in turn, zeros elsewhere. Shapes: (numel, *like.shape)."""
    count = like.numel()
    return weft.eye(count, dtype=like.dtype).reshape((count, *like.shape))


def _rows(point: Point, outputs: list[Tensor], create: bool, chunk_size: int | None) -> Any:
    """d output / d each argument, for each output, the output's dimensions first."""

    def vjp_function(output: Tensor) -> list[Any]:
        def one(seed: Tensor) -> Any:
            return tuple(point.vjp([output], [seed], create, True))

        found = vmap(one, chunk_size=chunk_size)(_units(output)) if output.numel() else point.given
        return [
            part.reshape((*output.shape, *leaf.shape))
            if output.numel()
            else weft.zeros((*output.shape, *leaf.shape), dtype=leaf.dtype)
            for part, leaf in zip(found, point.given, strict=True)
        ]

    return [vjp_function(output) for output in outputs]


def _columns(point: Point, outputs: list[Tensor], create: bool, chunk_size: int | None) -> Any:
    """The same for all outputs, by tangents."""
    found: list[list[Any]] = [[] for _ in outputs]
    for index, leaf in enumerate(point.given):

        def one(unit: Tensor, index: int = index) -> Any:
            tangents = [weft.zeros_like(other) for other in point.given]
            tangents[index] = unit
            return tuple(point.push(outputs, tangents, create))

        last = vmap(one, out_dims=-1)(_units(leaf)) if leaf.numel() else outputs
        for number, output in enumerate(outputs):
            shape = (*output.shape, *leaf.shape)
            found[number].append(
                last[number].reshape(shape)
                if leaf.numel()
                else weft.zeros(shape, dtype=output.dtype)
            )
    return found


def _columns_of_calls(
    point: Point, call: Callable[[], list[object]], outputs: list[Tensor], create: bool
) -> Any:
    """The same where each column has random numbers of its own: one call of the function for each."""
    found: list[list[Any]] = [[] for _ in outputs]
    made: list[Any] | None = outputs
    for index, leaf in enumerate(point.given):
        columns: list[list[Any]] = []
        for unit in _units(leaf):
            tangents = [weft.zeros_like(other) for other in point.given]
            tangents[index] = unit
            columns.append(point.push(call() if made is None else made, tangents, create))
            made = None
        for number, output in enumerate(outputs):
            parts = [column[number] for column in columns] or [output.new_zeros((*output.shape, 0))]
            joined = weft.stack(parts, -1) if columns else parts[0]
            found[number].append(joined.reshape((*output.shape, *leaf.shape)))
    return found


def _transform(
    func: Callable[..., object],
    argnums: object,
    has_aux: bool,
    name: str,
    derive: Callable[..., object],
    chunk_size: int | None = None,
    randomness: str = "same",
) -> Any:
    need_function(func, name)

    @functools.wraps(func)
    def wrapper(*args: object, **kwargs: object) -> Any:
        picked, places = chosen(args, argnums, name)
        point = Point(picked, name)
        with _level(point):
            full = with_arguments(args, places, point.arguments(), isinstance(argnums, tuple))
            chance = Randomness(randomness)

            def call() -> Any:
                with chance:
                    return split_aux(func(*full, **kwargs), has_aux, name)

            output, aux = call()
            outputs = tensors_of(output, name)
            create = point.needs_graph(outputs)
            if chance.drawn and randomness == "different":
                again = lambda: tensors_of(call()[0], name)  # noqa: E731
                parts = _columns_of_calls(point, again, outputs, create)
            else:
                parts = derive(point, outputs, create, chunk_size)
        trees = [rebuild(picked, iter(released(part, create))) for part in parts]
        result = rebuild(output, iter(trees))
        aux = map_leaves(lambda leaf: released([leaf], create)[0], aux)
        return (result, aux) if has_aux else result

    return wrapper


def jacrev(
    func: Callable[..., object],
    argnums: int | tuple[int, ...] = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Any:
    """A function that returns the Jacobian of `func` by its arguments `argnums`, by reverse mode.

    `chunk_size` rows are computed together (all of them unless given).

    Shapes: output + argument, in the structure of output and then of the arguments. Errors: ValueError on a chunk
    without rows.
    """
    if chunk_size is not None and chunk_size <= 0:
        raise ArgumentError(
            "jacrev: `chunk_size` should be greater than 0.",
            expected="a positive number or None",
            got=str(chunk_size),
            fix="leave it out",
        )
    return _transform(func, argnums, has_aux, "jacrev", _rows, chunk_size)


def jacfwd(
    func: Callable[..., object],
    argnums: object = 0,
    has_aux: bool = False,
    *,
    randomness: str = "error",
) -> Any:
    """As `jacrev`, by tangents: cheaper where there are fewer inputs than outputs.

    Errors: RuntimeError on random numbers, unless `randomness` is 'same' (for all columns) or 'different'. Cost: one
    call of `func`; one per column where it draws 'different' numbers.
    """
    Randomness(randomness)
    return _transform(func, argnums, has_aux, "jacfwd", _columns, None, randomness)


def hessian(func: Callable[..., Tensor], argnums: Any = 0) -> Any:
    """A function that returns the Hessian of `func`, forward over reverse."""
    return jacfwd(jacrev(func, argnums), argnums)
