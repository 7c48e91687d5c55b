"""vmap: a function of one example, over all examples.

The function runs once per example and what it records is batched with the others, so it may read values and decide on
them. Python side effects happen once per example.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import weft
from weft.errors import ArgumentError, ArgumentTypeError, GradientError
from weft.func.tree import leaves, rebuild


def _spread(dims: Any, tree: Any, what: str) -> list[int | None]:
    """One dimension (or None) for every leaf. Errors: ValueError where the structures do not fit."""
    if dims is None or isinstance(dims, int):
        return [dims] * len(leaves(tree))
    if isinstance(dims, dict) and isinstance(tree, dict) and dims.keys() == tree.keys():
        return [d for key in tree for d in _spread(dims[key], tree[key], what)]
    if (
        isinstance(dims, (tuple, list))
        and isinstance(tree, (tuple, list))
        and len(dims) == len(tree)
    ):
        return [d for dim, part in zip(dims, tree, strict=True) for d in _spread(dim, part, what)]
    raise ArgumentError(
        f"vmap: {what} is not compatible with the structure of what it describes",
        expected="an integer, None, or the structure of the arguments",
        got=repr(dims),
        fix="pass one integer or None per argument",
    )


def _size(values: list[Any], dims: list[int | None]) -> int:
    """The size of the mapped dimension. Errors: ValueError where there is none or sizes differ."""
    sizes = []
    for value, dim in zip(values, dims, strict=True):
        if dim is None:
            continue
        if not isinstance(value, weft.Tensor):
            raise ArgumentError(
                f"vmap: Got in_dim={dim} for an input but the input is of type {type(value).__name__}",
                expected="a tensor, or in_dim None",
                got=repr(value),
                fix="pass None in in_dims for it",
            )
        if not -value.dim() <= dim < value.dim():
            raise ArgumentError(
                f"vmap: Got in_dim={dim} for some input, but that input is a Tensor of dimensionality {value.dim()}",
                expected=f"-{value.dim()} <= in_dim < {value.dim()}",
                got=str(dim),
                fix="choose a dimension that the tensor has",
            )
        sizes.append(value.shape[dim])
    if not sizes:
        raise ArgumentError(
            "vmap: at least one input must be mapped over",
            expected="an in_dim that is an integer",
            got="None for all inputs",
            fix="call the function directly",
        )
    if len(set(sizes)) > 1:
        raise ArgumentError(
            f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes {sizes} for the "
            "mapped dimension",
            expected="one size",
            got=str(sizes),
            fix="check in_dims",
        )
    return int(sizes[0])


class _Randomness:
    """What random numbers do from example to example."""

    def __init__(self, kind: str) -> None:
        if kind not in ("error", "different", "same"):
            raise ArgumentError(
                f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {kind}",
                expected="'error', 'different' or 'same'",
                got=repr(kind),
                fix="pass one of them",
            )
        self.kind = kind
        generator = weft.random.default_generator
        self.start = (generator._seed, generator._offset)

    def before(self) -> None:
        """An example begins."""
        if self.kind == "same":
            generator = weft.random.default_generator
            generator._seed, generator._offset = self.start

    def after(self) -> None:
        """Errors: RuntimeError where an example has drawn numbers and may not."""
        generator = weft.random.default_generator
        if self.kind == "error" and (generator._seed, generator._offset) != self.start:
            generator._seed, generator._offset = self.start
            raise GradientError(
                "vmap: called random operation while in randomness error mode. Please either use the 'same' or "
                "'different' randomness flags on vmap or perform the randomness operation out of vmap",
                expected="no random numbers inside",
                got="randomness='error'",
                fix="pass randomness='different' or 'same'",
            )


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Any:
    """`func` over a dimension of its arguments: `in_dims` (an integer or None per argument, or one for all) names the
    dimension to map over, `out_dims` where it goes in the results.

    Errors: ValueError on sizes that differ; RuntimeError on random numbers unless `randomness` is 'same' or
    'different'.
    Cost: one call per example; equal operations of different examples run as one.
    """
    if chunk_size is not None and chunk_size <= 0:
        raise ArgumentError(
            f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})",
            expected="a positive number or None",
            got=str(chunk_size),
            fix="leave it out",
        )

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        dims = _spread(in_dims, args, "in_dims")
        values, named = leaves(args), leaves(kwargs)
        named_dims = [0 if isinstance(value, weft.Tensor) else None for value in named]
        count = _size(values + named, dims + named_dims)
        chance = _Randomness(randomness)
        results = []
        for index in range(count):
            chance.before()
            one = rebuild(args, iter(_example(values, dims, index)))
            others = rebuild(kwargs, iter(_example(named, named_dims, index)))
            results.append(func(*one, **others))
            chance.after()
        return _joined(results, out_dims)

    return wrapper


def _example(values: list[Any], dims: list[int | None], index: int) -> list[Any]:
    return [
        value if dim is None else value.select(dim, index)
        for value, dim in zip(values, dims, strict=True)
    ]


def _joined(results: list[Any], out_dims: Any) -> Any:
    """The results of all examples, stacked."""
    if not results:
        raise ArgumentError(
            "vmap: the mapped dimension is empty",
            expected="at least one example",
            got="a dimension of size 0",
            fix="leave the call out where there is nothing to map over",
        )
    first = results[0]
    columns = list(zip(*[leaves(result) for result in results], strict=True))
    dims = _spread(out_dims, first, "out_dims")
    joined = []
    for column, dim in zip(columns, dims, strict=True):
        if not isinstance(column[0], weft.Tensor):
            raise ArgumentTypeError(
                f"vmap({getattr(type(first), '__name__', '')}, ...): function must only return Tensors, got type "
                f"{type(column[0])} as a return.",
                expected="tensors",
                got=repr(column[0]),
                fix="wrap it with weft.tensor(...)",
            )
        joined.append(column[0] if dim is None else weft.stack(column, dim))
    return rebuild(first, iter(joined))
