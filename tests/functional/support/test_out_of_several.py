"""`out=` of functions with several results: their types, devices and memory are checked as in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft
from oracle import torch

ROWS = [[3.0, 1.0, 2.0], [1.0, 5.0, 5.0]]
SQUARE = [[4.0, 1.0, 0.0], [1.0, 3.0, 0.5], [0.0, 0.5, 2.0]]
COLUMNS = [[1.0, 2.0], [0.5, 1.0], [3.0, 0.0]]

# What is called with (library, rows, square, columns, out), and the types of its results.
FUNCTIONS: dict[str, tuple[Callable[..., Any], str]] = {
    "sort": (lambda T, x, s, c, o: T.sort(x, out=o), "float32 int64"),
    "topk": (lambda T, x, s, c, o: T.topk(x, 2, out=o), "float32 int64"),
    "mode": (lambda T, x, s, c, o: T.mode(x, out=o), "float32 int64"),
    "cummax": (lambda T, x, s, c, o: T.cummax(x, 0, out=o), "float32 int64"),
    "cummin": (lambda T, x, s, c, o: T.cummin(x, 1, out=o), "float32 int64"),
    "kthvalue": (lambda T, x, s, c, o: T.kthvalue(x, 2, out=o), "float32 int64"),
    "median": (lambda T, x, s, c, o: T.median(x, 1, out=o), "float32 int64"),
    "nanmedian": (lambda T, x, s, c, o: T.nanmedian(x, 1, out=o), "float32 int64"),
    "max": (lambda T, x, s, c, o: T.max(x, 1, out=o), "float32 int64"),
    "min": (lambda T, x, s, c, o: T.min(x, 0, out=o), "float32 int64"),
    "aminmax": (lambda T, x, s, c, o: T.aminmax(x, dim=0, out=o), "float32 float32"),
    "frexp": (lambda T, x, s, c, o: T.frexp(x, out=o), "float32 int32"),
    "qr": (lambda T, x, s, c, o: T.linalg.qr(x, out=o), "float32 float32"),
    "svd": (lambda T, x, s, c, o: T.linalg.svd(x, out=o), "float32 float32 float32"),
    "eigh": (lambda T, x, s, c, o: T.linalg.eigh(s, out=o), "float32 float32"),
    "eig": (lambda T, x, s, c, o: T.linalg.eig(s, out=o), "complex64 complex64"),
    "slogdet": (lambda T, x, s, c, o: T.linalg.slogdet(s, out=o), "float32 float32"),
    "lu": (lambda T, x, s, c, o: T.linalg.lu(s, out=o), "float32 float32 float32"),
    "lu_factor": (lambda T, x, s, c, o: T.linalg.lu_factor(s, out=o), "float32 int32"),
    "lu_factor_ex": (
        lambda T, x, s, c, o: T.linalg.lu_factor_ex(s, out=o),
        "float32 int32 int32",
    ),
    "cholesky_ex": (lambda T, x, s, c, o: T.linalg.cholesky_ex(s, out=o), "float32 int32"),
    "inv_ex": (lambda T, x, s, c, o: T.linalg.inv_ex(s, out=o), "float32 int32"),
    "solve_ex": (lambda T, x, s, c, o: T.linalg.solve_ex(s, c, out=o), "float32 int32"),
    "ldl_factor": (lambda T, x, s, c, o: T.linalg.ldl_factor(s, out=o), "float32 int32"),
    "geqrf": (lambda T, x, s, c, o: T.geqrf(x, out=o), "float32 float32"),
    "triangular_solve": (lambda T, x, s, c, o: T.triangular_solve(c, s, out=o), "float32 float32"),
    "histogram": (lambda T, x, s, c, o: T.histogram(x, 3, out=o), "float32 float32"),
}
OTHERS = ("float64", "int64", "int32", "uint8", "complex64")


def _outcome(T: Any, name: str, types: list[str]) -> Any:
    """Types and shapes that are written, or "refused"."""
    function, _ = FUNCTIONS[name]
    out = [T.empty(0, dtype=getattr(T, kind)) for kind in types]
    try:
        function(T, T.tensor(ROWS), T.tensor(SQUARE), T.tensor(COLUMNS), tuple(out))
    except RuntimeError:
        return "refused"
    return [(str(part.dtype).rpartition(".")[2], tuple(part.shape)) for part in out]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_types_are_taken_or_refused_as_in_pytorch(name: str) -> None:
    own = FUNCTIONS[name][1].split()
    variants = [own]
    for place in range(len(own)):
        variants += [[*own[:place], other, *own[place + 1 :]] for other in OTHERS]
    for types in variants:
        assert _outcome(weft, name, types) == _outcome(torch, name, types), types


@pytest.mark.parametrize("name", ["sort", "max", "median", "eigh"])
def test_other_devices_and_other_things_are_refused(name: str) -> None:
    function, types = FUNCTIONS[name]
    given = weft.tensor(ROWS), weft.tensor(SQUARE), weft.tensor(COLUMNS)
    away = tuple(weft.empty(0, dtype=getattr(weft, t), device="meta") for t in types.split())
    with pytest.raises(RuntimeError, match="device"):
        function(weft, *given, away)
    with pytest.raises(TypeError, match="element 0"):
        function(weft, *given, (None, None))
    with pytest.raises(TypeError, match="2 tensors"):
        function(weft, *given, away[:1])


@pytest.mark.filterwarnings("ignore")
def test_a_part_of_memory_is_written_where_it_lies() -> None:
    """A view of another shape takes the memory from where it begins, as `resize_` does."""

    def written(T: Any) -> Any:
        values, indices = T.zeros(4, 3), T.zeros(4, 3, dtype=T.int64)
        shown = values[1:3], indices[1:3]
        T.topk(T.tensor(ROWS), 2, out=shown)
        return values.tolist(), indices.tolist(), shown[0].tolist(), tuple(shown[0].stride())

    assert written(weft) == written(torch)


@pytest.mark.parametrize("name", ["topk", "kthvalue"])
def test_truth_values_have_no_kth_one(name: str) -> None:
    for T in (weft, torch):
        with pytest.raises(RuntimeError, match=r"[Bb]ool"):
            getattr(T, name)(T.tensor([True, False]), 1)


@pytest.mark.parametrize("name", ["quantile", "nanquantile"])
def test_quantiles_are_of_floats(name: str) -> None:
    for T in (weft, torch):
        with pytest.raises(RuntimeError, match="float or double"):
            getattr(T, name)(T.tensor([1, 2]), 0.5)


def test_histograms_are_of_what_has_an_order() -> None:
    for values in ([True, False], [1j, 2.0]):
        for T in (weft, torch):
            with pytest.raises(RuntimeError, match="not implemented"):
                T.histc(T.tensor(values), 3)
