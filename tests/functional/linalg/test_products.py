"""Matrix products and einsum against PyTorch, in all rank combinations and types."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from functional_oracle import compare, make
from oracle import torch

SHAPES = (
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((3,), (3, 4)),
    ((2, 3), (3, 4)),
    ((5, 2, 3), (3, 4)),
    ((5, 2, 3), (5, 3, 4)),
    ((5, 2, 3), (3,)),
    ((3,), (5, 3, 4)),
    ((2, 3), (5, 3, 4)),
    ((5, 1, 2, 3), (6, 3, 4)),
    ((0, 3), (3, 4)),
    ((2, 0), (0, 4)),
    ((2, 3), (4, 3)),
    ((3,), (4,)),
    ((), (3,)),
    ((5, 2, 3), (4, 3, 4)),
    ((1, 3), (3, 1)),
    ((2, 3), (4,)),
)


@pytest.mark.parametrize("dtype", ("float32", "float64", "complex64", "int64", "float16"))
@pytest.mark.parametrize(("first", "second"), SHAPES)
def test_matmul(first: tuple[int, ...], second: tuple[int, ...], dtype: str) -> None:
    tolerance = {"float16": 5e-3, "float64": None}.get(dtype, 1e-4)
    compare(
        lambda lib, x, y: lib.matmul(x, y),
        make(*first, dtype=dtype),
        make(*second, dtype=dtype, seed=3),
        tolerance=tolerance,
    )


@pytest.mark.parametrize("dtype", ("uint8", "int8", "int16", "int32", "int64"))
@pytest.mark.parametrize("sizes", [(70, 300, 40), (5, 7, 130), (1, 40, 3), (40, 9, 1), (2, 0, 3)])
def test_whole_numbers(sizes: tuple[int, int, int], dtype: str) -> None:
    """Products of integers wrap as in PyTorch, of matrices that lie along either dimension."""
    m, k, n = sizes
    rng = np.random.default_rng(0)
    a, b = (rng.integers(0, 100, size).astype(dtype) for size in ((m, k), (n, k)))
    for turned in (False, True):
        left, right = (
            lib.tensor(a) @ (lib.tensor(b).t() if turned else lib.tensor(b.T.copy()))
            for lib in (weft, torch)
        )
        assert left.dtype is getattr(weft, dtype)
        np.testing.assert_array_equal(left.numpy(), right.numpy())
    batch = weft.tensor(np.stack([a, a + 1])) @ weft.tensor(b).t()
    np.testing.assert_array_equal(batch[0].numpy(), (weft.tensor(a) @ weft.tensor(b).t()).numpy())


def test_products_of_whole_numbers_of_examples_in_a_batch() -> None:
    """One example at a time and all at once give the same numbers."""
    table = weft.arange(12).reshape(3, 4)
    rows = [weft.arange(6).reshape(2, 3) + i for i in range(5)]
    each = [(x @ table) * 2 for x in rows]
    assert weft.equal(weft.stack(each), (weft.stack(rows) @ table) * 2)


NAMED = (
    ("mm", (2, 3), (3, 4)),
    ("mm", (2, 3), (3,)),
    ("mm", (2, 3), (4, 3)),
    ("bmm", (5, 2, 3), (5, 3, 4)),
    ("bmm", (5, 2, 3), (4, 3, 4)),
    ("bmm", (2, 3), (3, 4)),
    ("mv", (2, 3), (3,)),
    ("mv", (2, 3), (4,)),
    ("dot", (3,), (3,)),
    ("dot", (3,), (4,)),
    ("dot", (2, 3), (3,)),
    ("inner", (2, 3), (4, 3)),
    ("inner", (3,), (3,)),
    ("inner", (2, 3), ()),
    ("inner", (2, 3), (2,)),
    ("outer", (3,), (4,)),
    ("outer", (3, 1), (4,)),
    ("kron", (2, 3), (3, 1)),
    ("vdot", (3,), (3,)),
    ("cdist", (4, 3), (5, 3)),
    ("tensordot", (2, 3, 4), (3, 4, 5)),
)


@pytest.mark.parametrize(("name", "first", "second"), NAMED)
def test_named(name: str, first: tuple[int, ...], second: tuple[int, ...]) -> None:
    x, y = make(*first, dtype="float64"), make(*second, dtype="float64", seed=2)
    compare(lambda lib, x, y: getattr(lib, name)(x, y), x, y)


CASES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "operator": (lambda lib, x, y: x @ y.t(), (make(2, 3), make(4, 3))),
    "mixed": (lambda lib, x, y: x @ y, (make(2, 3), make(3, 4, dtype="float64"))),
    "mixed vector": (lambda lib, x, y: x @ y, (make(2, 3), make(3, dtype="float64"))),
    "tensordot pairs": (
        lambda lib, x, y: lib.tensordot(x, y, dims=([1, 0], [0, 2])),
        (make(2, 3, 4), make(3, 5, 2)),
    ),
    "tensordot sizes": (lambda lib, x, y: lib.tensordot(x, y, 1), (make(2, 3), make(4, 5))),
    "addmm": (
        lambda lib, x, y, z: lib.addmm(z, x, y, beta=0.5, alpha=2),
        (make(2, 3), make(3, 4), make(4)),
    ),
    "addmm_": (lambda lib, x, y, z: (z * 1).addmm_(x, y), (make(2, 3), make(3, 4), make(2, 4))),
    "addmv": (lambda lib, x, y, z: lib.addmv(z, x, y), (make(2, 3), make(3), make(2))),
    "baddbmm": (
        lambda lib, x, y, z: lib.baddbmm(z, x, y),
        (make(5, 2, 3), make(5, 3, 4), make(5, 2, 4)),
    ),
    "cross": (lambda lib, x, y: lib.cross(x, y, dim=1), (make(2, 3), make(2, 3, seed=3))),
    "linear": (
        lambda lib, x, w, b: lib.nn.functional.linear(x, w, b),
        (make(5, 2, 3), make(4, 3), make(4)),
    ),
    "linear vector": (
        lambda lib, x, w, b: lib.nn.functional.linear(x, w, b),
        (make(3), make(4, 3), make(4)),
    ),
    "linear sizes": (
        lambda lib, x, w, b: lib.nn.functional.linear(x, w, b),
        (make(2, 5), make(4, 3), make(4)),
    ),
    "linear types": (
        lambda lib, x, w: lib.nn.functional.linear(x, w),
        (make(2, 3), make(4, 3, dtype="float64")),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_cases(name: str) -> None:
    function, arrays = CASES[name]
    compare(function, *arrays, tolerance=1e-4)


EQUATIONS: tuple[tuple[Any, ...], ...] = (
    ("ij,jk->ik", (2, 3), (3, 4)),
    ("ij,jk", (2, 3), (3, 4)),
    ("bij,bjk->bik", (5, 2, 3), (5, 3, 4)),
    ("ii->i", (3, 3)),
    ("ii", (3, 3)),
    ("ij->ji", (2, 3)),
    ("ij->", (2, 3)),
    ("i,j->ij", (3,), (4,)),
    ("i,i->", (3,), (3,)),
    ("...ij,...jk->...ik", (5, 2, 3), (3, 4)),
    ("bhld,bhsd->bhls", (2, 3, 4, 5), (2, 3, 6, 5)),
    ("ij,jk,kl->il", (2, 3), (3, 4), (4, 5)),
    ("ij,ij->ij", (2, 3), (2, 3)),
    ("ij,ij->", (2, 3), (2, 3)),
    ("ij,jk->ijk", (2, 3), (3, 4)),
    ("ba,ca->cb", (2, 3), (4, 3)),
    ("i...->...", (2, 3, 4)),
    ("ij,kl->", (2, 3), (4, 5)),
    ("ij,jk->iz", (2, 3), (3, 4)),
    ("ij,jk->ik", (2, 3), (4, 4)),
    ("ij->i", (2, 3, 4)),
    ("a,a,a->a", (3,), (3,), (3,)),
    ("abc,cd,de->abe", (2, 2, 3), (3, 4), (4, 2)),
    ("ij,jk->ik", (2, 3)),
    ("i1->i", (2, 3)),
)


@pytest.mark.parametrize("case", EQUATIONS, ids=lambda case: f"{case[0]} {len(case)}")
def test_einsum(case: tuple[Any, ...]) -> None:
    equation, *shapes = case
    arrays = [make(*shape, dtype="float64", seed=number) for number, shape in enumerate(shapes)]
    compare(lambda lib, *tensors: lib.einsum(equation, *tensors), *arrays, strides=False)


def test_a_product_of_wrong_sizes_says_how_to_mend_it() -> None:
    with pytest.raises(
        RuntimeError, match=r"mat1 and mat2 shapes cannot be multiplied \(64x103 and 550x50\)"
    ) as caught:
        weft.zeros(64, 103) @ weft.zeros(550, 50)
    caught.match(r"expected  a.shape\[-1\] == b.shape\[-2\]")
    caught.match(r"got       a float32\[64, 103\], b float32\[550, 50\] \(103 != 550\)")
    caught.match("fix       build the layer with in_features=103")
    with pytest.raises(RuntimeError, match="fix       pass b.mT"):
        weft.zeros(2, 3) @ weft.zeros(4, 3)
    with pytest.raises(
        RuntimeError, match="expected m1 and m2 to have the same dtype, but got: float != double"
    ):
        weft.zeros(2, 3) @ weft.zeros(3, 4, dtype=weft.float64)


@pytest.mark.parametrize(
    ("equation", "shapes", "words"),
    [
        ("ii", ((2, 3),), "subscript i is repeated for operand 0 but the sizes don't match, 3 != 2"),
        ("ii->i", ((2, 1),), "subscript i is repeated for operand 0 but the sizes don't match, 1 != 2"),
        ("ij,jk", ((2, 3), (2, 3)), "subscript j has size 2 for operand 1 which does not broadcast"),
        ("a...,b...->...", ((5, 2), (6, 4)), "does not broadcast with previously seen ellipsis with size 2"),
    ],
)  # fmt: skip
def test_einsum_refuses_sizes_that_do_not_fit(
    equation: str, shapes: tuple[tuple[int, ...], ...], words: str
) -> None:
    for library in (weft, torch):
        with pytest.raises(RuntimeError, match=words):
            library.einsum(equation, *[library.ones(shape) for shape in shapes])


LISTS = {
    "a product": lambda lib, a, b: lib.einsum(a, [0, 1], b, [1, 2], [2, 0]),
    "without the result's": lambda lib, a, b: lib.einsum(a, [30, 1], b, [1, 2]),
    "an ellipsis": lambda lib, a, b: lib.einsum(a, [..., 1], b, [1, ...], [...]),
    "a repeated one": lambda lib, a, b: lib.einsum(a @ b, (51, 51)),
}


@pytest.mark.parametrize("case", LISTS)
def test_einsum_of_numbered_dimensions(case: str) -> None:
    compare(LISTS[case], make(3, 4, dtype="float64"), make(4, 3, dtype="float64"), strides=False)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (lambda x: (x, [0, 52]), r"is not within the valid range \[0, 52\)"),
        (lambda x: (x, [-1, 1]), r"is not within the valid range \[0, 52\)"),
        (lambda x: (x, [0, 1], [3]), "output subscript D does not appear in the equation for any"),
        (lambda x: (x,), "must specify the equation string and at least one operand, or at least"),
    ],
)
@pytest.mark.parametrize("library", (weft, torch), ids=("weft", "torch"))
def test_einsum_refuses_numbers_that_name_no_dimension(
    library: Any, arguments: Any, text: str
) -> None:
    with pytest.raises((ValueError, TypeError, RuntimeError), match=text):
        library.einsum(*arguments(library.ones(3, 4)))


def test_einsum_refuses_names_in_a_list_of_numbers() -> None:
    with pytest.raises(ValueError, match="einsum.*subscript list is not within the valid range"):
        weft.einsum(weft.ones(3, 4), [0, "a"])
