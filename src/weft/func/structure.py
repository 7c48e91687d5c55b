"""Checks of the arguments of derivatives: the structure, shapes and dtypes of tangents and cotangents.

They compare nested tuples, lists and dictionaries as they are given with those that are wanted, and return the given
leaves in order.
"""

from __future__ import annotations

from typing import Any

import weft
from weft.autograd.forward_ad import need_inexact
from weft.engine.frontend.tensor import Tensor
from weft.errors import (
    ArgumentTypeError,
    DTypeError,
    GradientError,
    KindError,
    NoTensorError,
    ShapeError,
)
from weft.func.tree import leaves

JVP = "jvp(f, primals, tangents)"
_TREES = (tuple, list, dict)


def same_structure(one: Tensor | tuple[Tensor, ...], other: object) -> bool:
    """True if two trees differ in their leaves alone; dictionaries have the same keys in the same order."""
    if not isinstance(one, _TREES):
        return not isinstance(other, _TREES)
    if type(one) is not type(other) or len(one) != len(other):
        return False
    if not isinstance(one, dict):
        return all(same_structure(a, b) for a, b in zip(one, other, strict=True))
    return list(one) == list(other) and all(same_structure(one[key], other[key]) for key in one)


def structure_text(tree: object) -> str:
    """`(*, {'a': *})`: a star for each leaf."""
    if isinstance(tree, dict):
        inner = ", ".join(f"{key!r}: {structure_text(part)}" for key, part in tree.items())
        return f"{{{inner}}}"
    if isinstance(tree, list):
        return f"[{', '.join(map(structure_text, tree))}]"
    if isinstance(tree, tuple):
        return f"({', '.join(map(structure_text, tree))}{',' * (len(tree) == 1)})"
    return "*"


def fitting_cotangents(output: Any, given: object) -> list[Any]:
    """The cotangents of a function's output, in order.

    Errors: RuntimeError on another structure; TypeError on anything but tensors and None.
    """
    if not same_structure(output, given):
        wanted, got = structure_text(output), structure_text(given)
        raise GradientError(
            "vjp: Expected pytree structure of cotangents to be the same as pytree structure of outputs to the "
            f"function. cotangents: {got}, primal output: {wanted}",
            expected=wanted,
            got=got,
            fix="pass one argument that is built as the function's result is",
        )
    seeds = leaves(given)
    for seed in seeds:
        if seed is not None and not isinstance(seed, weft.Tensor):
            raise ArgumentTypeError(
                f"vjp: gradients can be either Tensors or None, but got {type(seed).__name__}",
                expected="a tensor for each output, or None for a scalar",
                got=f"{seed!r:.60}",
                fix="convert it with weft.tensor(...)",
            )
    return seeds


def tangents_of_jvp(primals: Any, tangents: object) -> list[Any]:
    """The tangents in order. Errors: RuntimeError (and TypeError) where they do not fit the primals."""
    if not same_structure(primals, tangents):
        wanted, got = structure_text(primals), structure_text(tangents)
        raise GradientError(
            f"{JVP}: Expected primals and tangents to have the same python structure. For example, if primals is a "
            f"tuple of 3 tensors, tangents also must be. Got primals with structure {wanted} and tangents with "
            f"structure {got}",
            expected=wanted,
            got=got,
            fix="pass one tangent per primal, built in the same way",
        )
    vectors = leaves(tangents)
    for primal, tangent in zip(leaves(primals), vectors, strict=True):
        if not isinstance(tangent, weft.Tensor):
            raise KindError(
                f"{JVP}: Expected tangents to only contain Tensors, got {type(tangent)}",
                expected="tensors in the structure of the primals",
                got=f"{tangent!r:.60}",
                fix="convert it with weft.tensor(...)",
            )
        need_inexact("tangent", tangent)
        if primal.shape != tangent.shape:
            wanted, got = str(list(primal.shape)), str(list(tangent.shape))
            raise ShapeError(
                f"{JVP}: Trying to set a forward gradient that has a different size than that of the original Tensor, "
                f"this is not supported. Tensor is of size {wanted} while the given forward gradient is of size {got}.",
                expected=wanted,
                got=got,
                fix="pass tangents of the primals' shapes",
            )
    return vectors


def tangents_of_linearized(primals: Any, tangents: object) -> list[Any]:
    """The tangents in order. Errors: RuntimeError where structure, shape or dtype is not the primals'; TypeError."""
    if not same_structure(primals, tangents):
        wanted, got = structure_text(primals), structure_text(tangents)
        raise GradientError(
            f"Expected the tangents {got} to have the same argspec as the primals {wanted}",
            expected=wanted,
            got=got,
            fix="pass one tangent per argument, built in the same way",
        )
    vectors = leaves(tangents)
    for index, (primal, tangent) in enumerate(zip(leaves(primals), vectors, strict=True)):
        if not isinstance(tangent, weft.Tensor):
            raise NoTensorError.of(
                tangent,
                "shape",
                expected="tensors in the structure of the primals",
                fix="convert it with weft.tensor(...)",
            )
        for what, error in (("shape", ShapeError), ("dtype", DTypeError)):
            wanted, got = getattr(primal, what), getattr(tangent, what)
            if wanted != got:
                raise error(
                    f"tangent:{index} with {what} {got} in flattened pytree doesn't match the {what} {wanted} of the "
                    "corresponding primal.",
                    expected=str(wanted),
                    got=str(got),
                    fix=f"pass tangents of the primals' {what}s",
                )
    return vectors
