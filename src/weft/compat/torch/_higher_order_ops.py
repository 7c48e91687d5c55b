"""Names of PyTorch's `_higher_order_ops` that models import: scans with a function of their own."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import weft
from weft._build.lazy import join as _join
from weft.errors import ArgumentError
from weft.func import vmap
from weft.utils._pytree import tree_flatten, tree_unflatten


def _scan(
    combine_fn: Callable[[object, object], object],
    xs: object,
    dim: int,
    reverse: bool = False,
    combine_mode: str = "pointwise",
) -> Any:
    """Along a dimension, what comes of combining the first, the first two, ... all values of each tensor of `xs`.

    `combine_fn` is associative; with combine_mode="pointwise" it is called on many values at once, with "generic" it
    sees one at a time. Shapes: as `xs`. Errors: ValueError on another mode. Cost: log2(d) calls, on d values each.
    Source: Hillis and Steele, Data parallel algorithms, 1986.
    """
    if combine_mode not in ("pointwise", "generic"):
        raise ArgumentError(
            f"Combine_mode must either 'pointwise' or 'generic', but got {combine_mode}",
            expected="'pointwise' or 'generic'",
            got=repr(combine_mode),
            fix="use combine_mode='generic'",
        )
    leaves, structure = tree_flatten(xs)
    combine = combine_fn if combine_mode == "pointwise" else vmap(combine_fn)
    rows = [leaf.movedim(dim, 0) for leaf in leaves]
    rows = [row.flip(0) for row in rows] if reverse else rows
    step = 1
    while step < rows[0].shape[0]:
        earlier = tree_unflatten([row[:-step] for row in rows], structure)
        later = tree_unflatten([row[step:] for row in rows], structure)
        combined, _ = tree_flatten(combine(earlier, later))
        rows = [weft.cat([row[:step], new]) for row, new in zip(rows, combined, strict=True)]
        step *= 2
    rows = [row.flip(0) for row in rows] if reverse else rows
    return tree_unflatten([row.movedim(0, dim) for row in rows], structure)


_scan.__name__ = _scan.__qualname__ = "associative_scan"
_join(sys.modules[__name__], {"associative_scan": {"associative_scan": _scan}})
associative_scan: Callable[..., Any] = _scan
