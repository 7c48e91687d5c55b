"""Reductions, norms and running sums against PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from functional_oracle import compare, make

MANY = [
    "sum",
    "mean",
    "amax",
    "amin",
    "any",
    "all",
    "var",
    "std",
    "nansum",
    "nanmean",
    "count_nonzero",
    "logsumexp",
]
SINGLE = [
    "prod",
    "max",
    "min",
    "argmax",
    "argmin",
    "median",
    "cumsum",
    "cumprod",
    "sort",
    "argsort",
    "cummax",
    "cummin",
    "mode",
]
TYPES = ("float32", "float64", "int64", "uint8", "float16")
SHAPES = ((3, 4, 5), (4,), (), (0, 3))
MANY_DIMS: tuple[dict[str, Any], ...] = (
    {},
    {"dim": 0},
    {"dim": -1},
    {"dim": 1},
    {"dim": (0, 2)},
    {"dim": (-1,), "keepdim": True},
    {"dim": [0, 1]},
    {"dim": 0, "keepdim": True},
    {"dim": 5},
    {"dim": None},
)
SINGLE_DIMS: tuple[dict[str, Any], ...] = (
    {"dim": 0},
    {"dim": -1},
    {"dim": 1},
    {"dim": 1, "keepdim": True},
    {"dim": 5},
)
WITHOUT_KEEPDIM = ("cumsum", "cumprod", "sort", "argsort", "cummax", "cummin", "count_nonzero")


def _options(name: str) -> list[dict[str, Any]]:
    found = MANY_DIMS if name in MANY else SINGLE_DIMS
    kept = [o for o in found if not ("keepdim" in o and name in WITHOUT_KEEPDIM)]
    return [o for o in kept if name != "logsumexp" or o.get("dim") is not None]


@pytest.mark.filterwarnings("ignore:.*degrees of freedom")
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", MANY + SINGLE)
def test_reduction(name: str, dtype: str) -> None:
    tolerance = {"float16": 5e-3, "float32": 1e-4}.get(dtype)
    for shape in SHAPES:
        if shape == (0, 3) and name in ("mode", "cummax", "cummin"):
            continue
        for options in _options(name):
            x = make(*shape, dtype=dtype)
            compare(lambda lib, x, o=options: getattr(lib, name)(x, **o), x, tolerance=tolerance)


@pytest.mark.parametrize("name", MANY + SINGLE)
def test_reduction_of_permuted_tensors_and_ties(name: str) -> None:
    compare(
        lambda lib, x: getattr(lib, name)(x.permute(2, 0, 1), dim=1), make(3, 4, 5), tolerance=1e-4
    )
    if name not in ("mode", "cummax", "cummin"):
        compare(
            lambda lib, x: getattr(lib, name)((x > 0) * x.abs().ceil(), dim=1),
            make(3, 4, dtype="float64"),
        )


@pytest.mark.parametrize(
    "name", ("sum", "mean", "prod", "any", "all", "max", "min", "argmax", "var", "norm")
)
def test_complex_and_bool(name: str) -> None:
    for dtype in ("complex64", "bool"):
        if (name, dtype) not in (("argmax", "bool"), ("argmin", "bool")):
            compare(lambda lib, x: getattr(lib, name)(x), make(3, 4, dtype=dtype), tolerance=1e-4)


ORDERS = (1, 2, 3, 0.5, 1.5, np.inf, -np.inf, "fro")


@pytest.mark.parametrize("order", ORDERS)
def test_norms(order: Any) -> None:
    for options in ({}, {"dim": 1}, {"dim": (0, 1), "keepdim": True}):
        compare(lambda lib, x, o=options: lib.norm(x, order, **o), make(3, 4, dtype="float64"))
        compare(lambda lib, x, o=options: lib.norm(x * 0, order, **o), make(3, 4, dtype="float64"))


@pytest.mark.parametrize(
    "options",
    (
        {"unbiased": False},
        {"correction": 0},
        {"dim": 1, "correction": 2},
        {"dim": 1, "unbiased": False, "keepdim": True},
    ),
)
@pytest.mark.parametrize("name", ("var", "std", "var_mean", "std_mean"))
def test_variances(name: str, options: dict[str, Any]) -> None:
    compare(lambda lib, x: getattr(lib, name)(x, **options), make(3, 4), tolerance=1e-4)
    compare(lambda lib, x: getattr(lib, name)(x * 0 + 1, **options), make(3, 4))


CASES: dict[str, Any] = {
    "max of two": lambda lib, x, y: [lib.max(x, y[0]), x.min(y)],
    "sum dtype": lambda lib, x, y: x.float().sum(dtype=lib.float64),
    "axis": lambda lib, x, y: [x.sum(axis=0, keepdims=True), x.mean(axis=1), x.argmax(axis=1)],
    "sum of nothing named": lambda lib, x, y: x.sum(()),
    "std positional": lambda lib, x, y: [
        x.std(0, False),
        x.var(False),
        x[0, :1].std(unbiased=False),
    ],
    "prod zeros": lambda lib, x, y: [(x * (x > 0)).prod(1), (x * (x > 0)).prod()],
    "cumprod zeros": lambda lib, x, y: (x * (x > 0)).cumprod(1),
    "nan": lambda lib, x, y: [lib.where(x > 1, float("nan"), x).max(1)],
    "nan amax": lambda lib, x, y: lib.where(x > 1, float("nan"), x).detach().amax(1),
    "logsumexp inf": lambda lib, x, y: lib.logsumexp(lib.where(x > 0, -float("inf"), x), 1),
    "aminmax": lambda lib, x, y: lib.aminmax(x, dim=1),
    "max ties": lambda lib, x, y: [x.ceil().max(), (x * 0 + y * 0).amin(1), (x * 0).max(1)],
    "sum_to_size": lambda lib, x, y: [x.sum_to_size(1, 4), x.sum_to_size(4)],
}


@pytest.mark.parametrize("name", CASES)
def test_cases(name: str) -> None:
    compare(CASES[name], make(3, 4, dtype="float64"), make(3, 4, dtype="float64", seed=3))


ORDERED: dict[str, Any] = {
    "topk": lambda lib, x: [*lib.topk(x, 2), *lib.topk(x, 3, dim=0, largest=False), *x.topk(0)],
    "topk too many": lambda lib, x: lib.topk(x, 9),
    "sort descending": lambda lib, x: lib.sort(x.round(), dim=0, descending=True, stable=True),
    "sort nan": lambda lib, x: lib.sort(lib.where(x > 1, float("nan"), x), dim=1, descending=True),
    "kthvalue": lambda lib, x: lib.kthvalue(x, 2, dim=0),
    "kthvalue 0": lambda lib, x: lib.kthvalue(x, 0, dim=0),
    "median ties": lambda lib, x: lib.median(x.ceil()),
    "median nan": lambda lib, x: lib.where(x > 1, float("nan"), x).detach().median(dim=1),
    "quantile": lambda lib, x: [lib.quantile(x, 0.3, dim=1), lib.quantile(x, 0.5)],
    "searchsorted": lambda lib, x: [
        lib.searchsorted(x.detach().sort()[0], x.detach(), right=r) for r in (False, True)
    ],
    "bucketize": lambda lib, x: lib.bucketize(
        x.detach(), lib.tensor([-1.0, 0.0, 1.0], dtype=lib.float64)
    ),
    "msort": lambda lib, x: lib.msort(x),
}


@pytest.mark.parametrize("name", ORDERED)
def test_orders(name: str) -> None:
    compare(ORDERED[name], make(3, 4, dtype="float64"))


@pytest.mark.parametrize(
    "options",
    (
        {},
        {"return_inverse": True},
        {"return_counts": True, "return_inverse": True},
        {"dim": 0, "return_inverse": True, "return_counts": True},
    ),
)
def test_unique(options: dict[str, Any]) -> None:
    x = make(6, 2, dtype="int64")
    compare(lambda lib, x: lib.unique(x, **options), x % 2)
    compare(lambda lib, x: lib.unique_consecutive(x, **options), x % 2)


def test_counts() -> None:
    x = make(8, dtype="uint8").astype(np.int64)
    compare(lambda lib, x: [lib.bincount(x), lib.bincount(x, minlength=20), lib.isin(x, x[:2])], x)


def test_a_variance_of_one_value_warns() -> None:
    with pytest.warns(UserWarning, match="degrees of freedom is <= 0"):
        assert weft.ones(1).var().isnan()


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    (
        (
            lambda x: x.sum(2),
            IndexError,
            r"Dimension out of range \(expected to be in range of \[-2, 1\], but got 2\)",
        ),
        (lambda x: x.sum((0, 0)), RuntimeError, "dim 0 appears multiple times"),
        (
            lambda x: x.long().mean(),
            RuntimeError,
            r"mean\(\): could not infer output dtype. Input dtype must be either",
        ),
        (
            lambda x: x[:0].max(),
            RuntimeError,
            r"max\(\): Expected reduction dim to be specified for input.numel\(\) == 0",
        ),
        (
            lambda x: x[:0].max(0),
            IndexError,
            r"max\(\): Expected reduction dim 0 to have non-zero size",
        ),
        (lambda x: x.max((0, 1)), TypeError, "must be int, not tuple"),
    ),
)
def test_messages(call: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text) as caught:
        call(weft.zeros(2, 3))
    caught.match("\n  fix ")
