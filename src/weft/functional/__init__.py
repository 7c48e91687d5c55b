"""The functions of the public API: each is written once, and is both `weft.name(input, ...)` and a Tensor method.

Every module has FUNCTIONS (names in `weft`), METHODS (names on Tensor) and HOOKS (what special methods of Tensor call);
here they are joined. `weft/__init__.py` installs them.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from weft.functional import (
    comparing,
    composed_products,
    contraction,
    copying,
    distinct,
    elementary,
    indexing,
    joining,
    lenses,
    linalg,
    math,
    norms,
    ordering,
    parts,
    rare,
    reductions,
    regions,
    scattering,
    shaping,
    softmax,
    special,
    variance,
    views,
)  # fmt: skip
from weft.functional.making import make_in_place, with_out
from weft.functional.out_types import answer_out

_MODULES: tuple[Any, ...] = (
    elementary, math, comparing, reductions, variance, norms, ordering, distinct, views, parts, regions, shaping,
    copying, lenses, indexing, scattering, joining, linalg, composed_products, contraction, softmax, special,
)  # fmt: skip

FUNCTIONS: dict[str, Any] = {
    name: function for module in _MODULES for name, function in module.FUNCTIONS.items()
}
METHODS: dict[str, Any] = {
    name: function for module in _MODULES for name, function in module.METHODS.items()
} | rare.METHODS
EXPORTS: dict[str, str] = rare.EXPORTS
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
} | {"answer_out": answer_out}
LINALG: dict[str, Any] = {
    **norms.LINALG,
    **linalg.LINALG,
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
