"""Integers of NumPy and tensors of one element where a number is wanted, types that promote, and what is no operand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from oracle import both, torch
from weft.tensor.arguments import integer_of

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
    "interpolate by a tensor": lambda lib, F, x: F.interpolate(
        x, size=lib.tensor(16), mode="bilinear"
    ),
    "fftn by tensors": lambda lib, F, x: lib.fft.fftn(x, lib.tensor(4), lib.tensor(2)).abs(),
    "fft by a tensor": lambda lib, F, x: lib.fft.fft(x, lib.tensor(4)).abs(),
    "roll along a tensor": lambda lib, F, x: x.roll(lib.tensor(3), lib.tensor(2)),
    "ZeroPad2d": lambda lib, F, x: lib.nn.ZeroPad2d(TWO)(x),
    "histc between tensors": lambda lib, F, x: lib.histc(x, 4, lib.tensor(0), lib.tensor(63)),
}


@pytest.mark.parametrize("case", NUMPY_INTEGERS)
def test_integers_of_numpy_are_integers(case: str) -> None:
    call = NUMPY_INTEGERS[case]
    mine, theirs = [call(lib, lib.nn.functional, images(lib)) for lib in (weft, torch)]
    for one, other in zip(arrays(mine), arrays(theirs), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


FLOAT_TENSORS = {
    "interpolate": lambda lib, F, x, n: F.interpolate(x, size=n),
    "interpolate between": lambda lib, F, x, n: F.interpolate(x, size=n, mode="bilinear"),
    "layer_norm": lambda lib, F, x, n: F.layer_norm(x, n),
    "LayerNorm": lambda lib, F, x, n: lib.nn.LayerNorm(n),
    "ZeroPad2d": lambda lib, F, x, n: lib.nn.ZeroPad2d(n),
    "adaptive_avg_pool2d": lambda lib, F, x, n: F.adaptive_avg_pool2d(x, n),
    "fftn": lambda lib, F, x, n: lib.fft.fftn(x, n),
    "fftshift": lambda lib, F, x, n: lib.fft.fftshift(x, n),
    "roll": lambda lib, F, x, n: x.roll(1, n),
    "roll by": lambda lib, F, x, n: x.roll(n, 1),
}


@pytest.mark.parametrize("case", FLOAT_TENSORS)
def test_tensors_of_floats_are_no_integers(case: str) -> None:
    for lib in (weft, torch):
        with pytest.raises(TypeError):
            FLOAT_TENSORS[case](lib, lib.nn.functional, images(lib), lib.tensor(8.0))


def test_layers_keep_integers_of_python() -> None:
    assert weft.nn.ZeroPad2d(weft.tensor(2)).padding == (2, 2, 2, 2)
    kept = [*weft.nn.ZeroPad2d(weft.tensor(2)).padding]
    kept += [*weft.nn.LayerNorm(np.int64(8)).normalized_shape]
    kept += [integer_of(value) for value in (True, TWO, weft.tensor(3), np.array(4))]
    assert [type(value) for value in kept] == [int] * len(kept)
    for value in (1.0, "1", weft.tensor(1.0), weft.tensor([1]), np.array(1.0), np.float64(1), None):
        assert integer_of(value) is None
    x = weft.rand(2, 8)
    np.testing.assert_array_equal(
        weft.nn.functional.layer_norm(x, weft.tensor(8)), weft.nn.functional.layer_norm(x, (8,))
    )


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
