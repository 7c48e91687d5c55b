"""Integers of NumPy and tensors of one element where a number is wanted, types that promote, and what is no operand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from oracle import both, torch

ONE = np.int64(1)
TWO = np.int64(2)


def arrays(result: Any) -> list[Any]:
    """The tensors of a result as arrays."""
    parts = result if isinstance(result, (tuple, list)) else (result,)
    return [np.asarray(part) for part in parts]


def images(lib: Any) -> Any:
    return lib.arange(64.0).reshape(1, 1, 8, 8)


NUMPY_INTEGERS = {
    "amax": lambda lib, F, x: x.amax(TWO),
    "amin": lambda lib, F, x: lib.amin(x, TWO),
    "aminmax": lambda lib, F, x: lib.aminmax(x, dim=TWO),
    "max_pool2d": lambda lib, F, x: F.max_pool2d(x, TWO, TWO),
    "avg_pool2d": lambda lib, F, x: F.avg_pool2d(x, TWO, ONE, ONE),
    "lp_pool2d": lambda lib, F, x: F.lp_pool2d(x, 2, TWO, TWO),
    "adaptive_avg_pool1d": lambda lib, F, x: F.adaptive_avg_pool1d(x[0], TWO),
    "adaptive_max_pool1d": lambda lib, F, x: F.adaptive_max_pool1d(x[0], TWO),
    "interpolate": lambda lib, F, x: F.interpolate(x, size=TWO),
    "roll": lambda lib, F, x: x.roll(ONE, TWO),
    "roll by tensors": lambda lib, F, x: x.roll(lib.tensor(1), lib.tensor(2)),
    "tensor_split": lambda lib, F, x: lib.tensor_split(x, TWO, 2),
    "vsplit": lambda lib, F, x: lib.vsplit(x[0, 0], TWO),
    "fftshift": lambda lib, F, x: lib.fft.fftshift(x, TWO),
    "tensordot by a tensor": lambda lib, F, x: lib.tensordot(
        x[0, 0], x[0, 0], dims=lib.tensor([[1], [0]])
    ),
    "LayerNorm": lambda lib, F, x: lib.nn.LayerNorm(np.int64(8))(x).detach(),
    "histc between tensors": lambda lib, F, x: lib.histc(x, 4, lib.tensor(0), lib.tensor(63)),
}


@pytest.mark.parametrize("case", NUMPY_INTEGERS)
def test_integers_of_numpy_are_integers(case: str) -> None:
    call = NUMPY_INTEGERS[case]
    mine, theirs = [call(lib, lib.nn.functional, images(lib)) for lib in (weft, torch)]
    for one, other in zip(arrays(mine), arrays(theirs), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


PROMOTED = {
    "addr": lambda lib, F: lib.addr(
        lib.arange(6).reshape(2, 3), lib.ones(2), lib.ones(3, dtype=lib.float64) * 0.5
    ),
    "cosine_similarity": lambda lib, F: F.cosine_similarity(
        lib.arange(6).reshape(2, 3), lib.ones(2, 3), 1
    ),
    "mse_loss": lambda lib, F: F.mse_loss(lib.tensor([True, False]), lib.tensor([0.5, 2.0])),
    "smooth_l1_loss": lambda lib, F: F.smooth_l1_loss(
        lib.tensor([0.5, 2.0]), lib.tensor([True, False])
    ),
}


@pytest.mark.parametrize("case", PROMOTED)
def test_operands_of_other_types_are_promoted(case: str) -> None:
    mine, theirs = [PROMOTED[case](lib, lib.nn.functional) for lib in (weft, torch)]
    assert str(mine.dtype).removeprefix("weft.") == str(theirs.dtype).removeprefix("torch.")
    np.testing.assert_allclose(np.asarray(mine), np.asarray(theirs), rtol=1e-6)


@both
@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "true_divide", "pow"])
@pytest.mark.parametrize("junk", [None, [1.0, 2.0], "a"], ids=repr)
def test_what_is_no_operand_is_refused(lib: Any, name: str, junk: Any) -> None:
    function, x = getattr(lib, name), lib.ones(2)
    for operands in ((x, junk), (junk, x)):
        with pytest.raises(TypeError, match=rf"^(true_divide|{name})\(\)|must be Tensor, not"):
            function(*operands)


@both
def test_bounds_of_draws_are_tensors_too(lib: Any) -> None:
    x = lib.empty(1000)
    assert 2 <= float(x.uniform_(lib.tensor(2), lib.tensor(3.0)).min()) <= float(x.max()) <= 3
    assert float(x.normal_(lib.tensor(100), lib.tensor(1.0)).min()) > 90
    assert float(x.exponential_(lib.tensor(2.0)).min()) >= 0
    assert lib.normal(lib.tensor(100.0), 1.0, (2, 3)).shape == (2, 3)
    with pytest.raises(TypeError, match="must be float, not Tensor"):
        x.normal_(lib.ones(1), 1.0)


@both
def test_draws_take_no_other_keywords(lib: Any) -> None:
    x = lib.empty(3)
    assert float(x.uniform_(**{"from": 1, "to": 2}).min()) >= 1
    for draw in (x.uniform_, x.random_):
        with pytest.raises(TypeError, match=rf"^{draw.__name__}\(\) (got|received)"):
            draw(nope=1)


@pytest.mark.filterwarnings("ignore:torch.meshgrid")
@both
def test_meshgrid_without_indexing(lib: Any) -> None:
    assert lib.meshgrid(lib.arange(2), lib.arange(3), indexing=None)[1].tolist() == [[0, 1, 2]] * 2
