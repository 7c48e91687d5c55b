"""`assert_close` and `make_tensor`: what is accepted and refused, and the words, are PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from oracle import torch


def sparse(lib: Any, at: list[list[int]], values: list[float], shape: tuple[int, ...]) -> Any:
    return lib.sparse_coo_tensor(lib.tensor(at), lib.tensor(values), shape, check_invariants=False)


def coo(lib: Any) -> Any:
    return sparse(lib, [[0, 1], [1, 0]], [1.0, 2.0], (2, 2))


def csr(lib: Any, values: tuple[float, ...] = (1.0, 2.0)) -> Any:
    return lib.tensor([[0.0, values[0]], [values[1], 0.0]]).to_sparse_csr()


PAIRS: dict[str, Callable[[Any], tuple[Any, Any]]] = {
    "equal": lambda lib: (lib.ones(2), lib.ones(2)),
    "integers": lambda lib: (lib.tensor([[1, 2], [3, 4]]), lib.tensor([[1, 2], [5, 4]])),
    "floats": lambda lib: (lib.tensor([1.0, 2.0, 4.0]), lib.tensor([1.0, 2.5, 4.25])),
    "beyond floats": lambda lib: (lib.tensor([2**53 + 1]), lib.tensor([2**53])),
    "a scalar": lambda lib: (lib.tensor(1.0), lib.tensor(1.5)),
    "numbers": lambda lib: (3, 5),
    "numbers of two types": lambda lib: (3, 3.0),
    "truth": lambda lib: (True, False),
    "none": lambda lib: (None, None),
    "none and a number": lambda lib: (None, 0),
    "text": lambda lib: ("a", "a"),
    "a tensor and an array": lambda lib: (lib.ones(2), np.ones(2, "float32")),
    "a tensor and a number": lambda lib: (lib.tensor(1), 1),
    "arrays": lambda lib: (np.ones(2), np.ones(2)),
    "lengths": lambda lib: ([1, 2], [1]),
    "an item": lambda lib: ([lib.tensor(1), lib.tensor(2)], [lib.tensor(1), lib.tensor(3)]),
    "keys": lambda lib: ({"a": 1, "b": 2}, {"a": 1, "c": 2}),
    "shapes": lambda lib: (lib.ones(2), lib.ones(3)),
    "types": lambda lib: (lib.ones(2), lib.ones(2, dtype=lib.float64)),
    "layouts": lambda lib: (coo(lib).to_dense(), coo(lib)),
    "sparse": lambda lib: (coo(lib), coo(lib)),
    "sparse, one coalesced": lambda lib: (coo(lib), coo(lib).coalesce()),
    "sparse values": lambda lib: (coo(lib), sparse(lib, [[0, 1], [1, 0]], [1.0, 3.0], (2, 2))),
    "sparse indices": lambda lib: (coo(lib), sparse(lib, [[0, 1], [1, 1]], [1.0, 2.0], (2, 2))),
    "sparse counts": lambda lib: (coo(lib), sparse(lib, [[0], [1]], [1.0], (2, 2))),
    "sparse dimensions": lambda lib: (lib.ones(2, 3).to_sparse(1), lib.ones(2, 3).to_sparse(2)),
    "rows": lambda lib: (csr(lib), csr(lib)),
    "values of rows": lambda lib: (csr(lib), csr(lib, (1.0, 3.0))),
    "counts of rows": lambda lib: (csr(lib), csr(lib, (1.0, 0.0))),
}


def told(lib: Any, name: str, **options: bool) -> Any:
    """The class and the words of the error, or None."""
    try:
        lib.testing.assert_close(*PAIRS[name](lib), **options)
    except (AssertionError, TypeError, ValueError) as error:
        kind = next(k for k in (AssertionError, TypeError, ValueError) if isinstance(error, k))
        if kind is not AssertionError:
            return kind
        return str(error).replace("torch.", "").replace("weft.", "")
    return None


def numbered(text: Any) -> Any:
    """Words without the digits behind the sixth, which depend on the type a difference is computed in."""
    if not isinstance(text, str):
        return text
    lines = [line for line in text.splitlines() if not line.startswith("Mismatched")]
    return [line.split("difference:")[0] for line in lines if line]


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
@pytest.mark.parametrize("name", PAIRS)
def test_pairs(name: str) -> None:
    assert numbered(told(weft, name)) == numbered(told(torch, name))


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
@pytest.mark.parametrize("option", ["check_dtype", "check_layout", "allow_subclasses"])
@pytest.mark.parametrize("name", PAIRS)
def test_pairs_without_a_check(name: str, option: str) -> None:
    assert numbered(told(weft, name, **{option: False})) == numbered(
        told(torch, name, **{option: False})
    )


@pytest.mark.parametrize("name", ["integers", "numbers"])
def test_differences_of_integers_are_integers(name: str) -> None:
    mine, theirs = told(weft, name), told(torch, name)
    assert mine.splitlines()[:-1] == theirs.splitlines()[:-1]


DRAWS: dict[str, dict[str, Any]] = {
    "nan": {"low": float("nan")},
    "empty": {"low": 2, "high": 1},
    "one number": {"low": 1, "high": 1},
    "beyond the type": {"low": 2**70, "high": 2**71},
    "below the type": {"low": -(2**70), "high": -(2**69)},
    "between two integers": {"low": -0.9, "high": 0.9},
    "all": {"low": 0, "high": 2**70},
    "gradient": {"requires_grad": True},
    "both orders": {"noncontiguous": True, "memory_format": "contiguous_format"},
    "kept order": {"memory_format": "preserve_format"},
}


@pytest.mark.parametrize("dtype", ["int64", "uint8", "bool", "float32"])
@pytest.mark.parametrize("case", DRAWS)
@pytest.mark.filterwarnings("ignore:Passing `low==high`")
def test_draws(case: str, dtype: str) -> None:
    def drawn(lib: Any) -> Any:
        given = dict(DRAWS[case])
        if "memory_format" in given:
            given["memory_format"] = getattr(lib, given["memory_format"])
        try:
            made = lib.testing.make_tensor(
                (50, 3), dtype=getattr(lib, dtype), device="cpu", **given
            )
        except ValueError:
            return "refused"
        least, most = float(made.detach().min()), float(made.detach().max())
        inside = given.get("low", -9) <= least and most <= given.get("high", 10)
        return inside, made.is_contiguous(), made.requires_grad

    assert drawn(weft) == drawn(torch)


def test_integers_that_floats_cannot_tell_apart(lib: Any) -> None:
    one = lib.tensor(2**53)
    assert not lib.isclose(one, one + 1, rtol=0, atol=0)


def test_numbers_of_a_block_leave_the_generator_alone(lib: Any) -> None:
    helpers = pytest.importorskip(f"{lib.__name__}.testing._utils")
    lib.manual_seed(3)
    wanted = lib.rand(2).tolist()
    lib.manual_seed(3)
    with helpers.freeze_rng_state():
        lib.rand(5)
    assert (
        helpers.wrapper_set_seed(lib.rand, 2).tolist()
        == helpers.wrapper_set_seed(lib.rand, 2).tolist()
    )
    assert lib.rand(2).tolist() == wanted
