"""The functions of the public API: each is written once, and is both `weft.name(input, ...)` and a Tensor method.

Every module has FUNCTIONS (names in `weft`), METHODS (names on Tensor) and HOOKS (what special methods of Tensor
call); here they are joined. `weft/__init__.py` installs them. Start with a room: `elementwise` or `shape`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from weft._build.lazy import later
from weft.functional import imported_on_call
from weft.functional.elementwise import binary, comparison, limits, unary
from weft.functional.indexing import assignment, gather_scatter, index, repeats, selection, slices
from weft.functional.linalg import composed_products, norms, products
from weft.functional.linalg import einsum as _einsum
from weft.functional.reductions import softmax, sums_and_extrema, variance
from weft.functional.shape import (
    concat,
    rearrange,
    slicing,
    strided_regions,
    view_transforms,
    views,
)
from weft.functional.sorting import search, sort
from weft.functional.sorting import unique as _unique
from weft.functional.special import special
from weft.functional.support.out_dtypes import answer_out
from weft.functional.support.variants import make_in_place, with_out

meta_results = later("weft.functional.meta_results")

_MODULES: tuple[Any, ...] = (
    unary, binary, limits, comparison, sums_and_extrema, variance, norms, sort, search, _unique, views, slicing,
    strided_regions, rearrange, assignment, view_transforms, index, selection, gather_scatter, slices, repeats, concat,
    products, composed_products, _einsum, softmax, special,
)  # fmt: skip

FUNCTIONS: dict[str, Any] = {
    name: function for module in _MODULES for name, function in module.FUNCTIONS.items()
}
METHODS: dict[str, Any] = {
    name: function for module in _MODULES for name, function in module.METHODS.items()
} | imported_on_call.METHODS
EXPORTS: dict[str, str] = imported_on_call.EXPORTS
# Functions that write to `out=` as well: the methods of the same names do not take it.
_WITH_OUT = (
    "addmv addr all aminmax any argmax argmin bucketize column_stack cross cummax cummin deg2rad diag "
    "dstack gather hstack index_add index_copy index_select isin isneginf isposinf kron kthvalue log_softmax "
    "masked_select max median min mode msort nanmean nansum quantile rad2deg scatter scatter_add scatter_reduce "
    "searchsorted softmax sort std take topk tril triu var vdot vstack take_along_dim logsumexp inner nonzero"
)
FUNCTIONS.update({n: with_out(FUNCTIONS[n]) for n in _WITH_OUT.split()})
FUNCTIONS["spmm"] = FUNCTIONS["mm"]
_IN_PLACE = ("conj_physical", "cumprod", "cumsum", "mvlgamma", "polygamma")
METHODS.update({f"{n}_": make_in_place(METHODS[n], n) for n in _IN_PLACE})
HOOKS: dict[str, Any] = {
    name: function for module in _MODULES for name, function in getattr(module, "HOOKS", {}).items()
} | {"answer_out": answer_out, "without_values": lambda *given: meta_results.answer(*given)}
LINALG: dict[str, Any] = {
    **norms.LINALG,
    **products.LINALG,
    **composed_products.LINALG,
    "cross": with_out(composed_products.cross),
}
SPECIAL: dict[str, Any] = special.SPECIAL

_IN_PYTORCH = frozenset(
    [
        "align_tensors",
        "atleast_1d",
        "atleast_2d",
        "atleast_3d",
        "block_diag",
        "broadcast_shapes",
        "broadcast_tensors",
        "cartesian_prod",
        "cdist",
        "chain_matmul",
        "einsum",
        "istft",
        "lu",
        "meshgrid",
        "norm",
        "pca_lowrank",
        "split",
        "stft",
        "svd_lowrank",
        "tensordot",
        "unique",
        "unique_consecutive",
        "unravel_index",
    ]
)

__all__ = ["EXPORTS", "FUNCTIONS", "HOOKS", "LINALG", "METHODS", "SPECIAL"]


def __getattr__(name: str) -> Any:
    """The functions that PyTorch keeps in `torch.functional`, which are Weft's."""
    if name in _IN_PYTORCH:
        return getattr(import_module("weft"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
