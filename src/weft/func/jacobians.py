"""jacrev, jacfwd, hessian: whole Jacobians, one row or one column after the other; equal steps run as one batch."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import weft
from weft.func.derivatives import (
    Point,
    _level,
    chosen,
    released,
    split_aux,
    tensors_of,
    with_arguments,
)
from weft.func.tree import map_leaves, rebuild


def _unit(like: Any, place: int) -> Any:
    """One at a row-major place, zeros elsewhere."""
    flat = weft.arange(like.numel()) == place
    return flat.to(like.dtype).reshape(like.shape)


def _rows(point: Point, outputs: list[Any], create: bool) -> list[list[Any]]:
    """d output / d each argument, for each output, the output's dimensions first."""
    return [_rows_of(point, output, create) for output in outputs]


def _rows_of(point: Point, output: Any, create: bool) -> list[Any]:
    rows = [point.pull([output], [_unit(output, i)], create, True) for i in range(output.numel())]
    return [
        weft.stack([row[index] for row in rows]).reshape((*output.shape, *leaf.shape))
        if rows
        else weft.zeros((*output.shape, *leaf.shape), dtype=leaf.dtype)
        for index, leaf in enumerate(point.given)
    ]


def _columns(point: Point, outputs: list[Any], create: bool) -> list[list[Any]]:
    """The same for all outputs, by tangents."""
    found: list[list[Any]] = [[] for _ in outputs]
    for index, leaf in enumerate(point.given):
        columns = []
        for place in range(leaf.numel()):
            tangents = [weft.zeros_like(other) for other in point.given]
            tangents[index] = _unit(leaf, place)
            columns.append(point.push(outputs, tangents, create))
        for number, output in enumerate(outputs):
            shape = (*output.shape, *leaf.shape)
            if not columns:
                found[number].append(weft.zeros(shape, dtype=output.dtype))
                continue
            stacked = weft.stack([column[number] for column in columns], -1)
            found[number].append(stacked.reshape(shape))
    return found


def _transform(
    func: Callable[..., Any], argnums: Any, has_aux: bool, name: str, forward: bool
) -> Any:
    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        picked, places = chosen(args, argnums, name)
        point = Point(picked, name)
        with _level(name):
            full = with_arguments(args, places, point.arguments(), isinstance(argnums, tuple))
            output, aux = split_aux(func(*full, **kwargs), has_aux, name)
            outputs = tensors_of(output, name)
            create = point.needs_graph(outputs)
            parts = (_columns if forward else _rows)(point, outputs, create)
        trees = [rebuild(picked, iter(released(part, create))) for part in parts]
        result = rebuild(output, iter(trees))
        aux = map_leaves(lambda leaf: released([leaf], create)[0], aux)
        return (result, aux) if has_aux else result

    return wrapper


def jacrev(
    func: Callable[..., Any],
    argnums: Any = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Any:
    """A function that returns the Jacobian of `func` by its arguments `argnums`, by reverse mode.

    Shapes: output + argument, in the structure of output and then of the arguments.
    """
    return _transform(func, argnums, has_aux, "jacrev", False)


def jacfwd(
    func: Callable[..., Any], argnums: Any = 0, has_aux: bool = False, *, randomness: str = "error"
) -> Any:
    """As `jacrev`, by tangents: cheaper where there are fewer inputs than outputs."""
    return _transform(func, argnums, has_aux, "jacfwd", True)


def hessian(func: Callable[..., Any], argnums: Any = 0) -> Any:
    """A function that returns the Hessian of `func`, forward over reverse."""
    return jacfwd(jacrev(func, argnums), argnums)
