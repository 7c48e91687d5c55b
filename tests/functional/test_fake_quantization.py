"""Fake quantization: values and gradients are PyTorch's, also at halves and at the ends of the range."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from oracle import torch
from properties import QUICK

RANGES = ((0, 255), (-128, 127), (-8, 7), (0, 0))


def outcome(lib: Any, values: np.ndarray, function: Any) -> tuple[Any, Any]:
    """Values and gradients, as lists."""
    x = lib.tensor(values.tolist(), dtype=lib.float32, requires_grad=True)
    y = function(lib, x)
    y.backward(lib.arange(1.0, x.numel() + 1).reshape(x.shape))
    return y.tolist(), x.grad.tolist()


@settings(QUICK)
@given(
    st.integers(0, 1000),
    st.sampled_from(RANGES),
    st.sampled_from((0.5, 0.1, 0.3)),
    st.booleans(),
)
def test_values_and_gradients_of_a_tensor(
    seed: int, limits: tuple[int, int], scale: float, in_tensors: bool
) -> None:
    draws = np.random.default_rng(seed)
    halves = draws.integers(-20, 20, 8) * scale / 2
    values = np.concatenate([halves, draws.normal(size=6) * 60, [np.nan, np.inf, -np.inf]])
    point = int(draws.integers(limits[0], limits[1] + 1))

    def function(lib: Any, x: Any) -> Any:
        if not in_tensors:
            return lib.fake_quantize_per_tensor_affine(x, scale, point, *limits)
        place = lib.tensor(point, dtype=lib.int32)
        return lib.fake_quantize_per_tensor_affine(x, lib.tensor(scale), place, *limits)

    got, expected = outcome(weft, values, function), outcome(torch, values, function)
    np.testing.assert_array_equal(got[0], expected[0])
    np.testing.assert_array_equal(got[1], expected[1])


@pytest.mark.parametrize("axis", (0, 1, 2))
@pytest.mark.parametrize(("kind", "start"), (("int32", 0.0), ("float32", 0.0), ("float32", 0.3)))
def test_values_and_gradients_of_channels(axis: int, kind: str, start: float) -> None:
    values = np.random.default_rng(0).normal(size=(3, 4, 3)) * 5
    channels = values.shape[axis]
    scales = np.linspace(0.1, 0.5, channels).tolist()
    points = [start + 8 * channel for channel in range(channels)]  # some are beyond the range
    points = points if kind == "float32" else [min(15, int(point)) for point in points]

    def function(lib: Any, x: Any) -> Any:
        places = lib.tensor(points, dtype=getattr(lib, kind))
        return lib.fake_quantize_per_channel_affine(x, lib.tensor(scales), places, axis, 0, 15)

    got, expected = outcome(weft, values, function), outcome(torch, values, function)
    np.testing.assert_array_equal(got[0], expected[0])
    np.testing.assert_array_equal(got[1], expected[1])


def per_channel(
    lib: Any, scales: int = 3, points: int = 3, kind: str = "int32", axis: int = 0
) -> Any:
    places = lib.ones(points, dtype=getattr(lib, kind))
    return lib.fake_quantize_per_channel_affine(
        lib.ones(3, 4), lib.ones(scales), places, axis, 0, 9
    )


WRONG = {
    "a dimension that is not there": (
        lambda lib: per_channel(lib, 4, 4, axis=-1),
        "`axis` must be between 0 and number of dimensions of input",
    ),
    "an empty range": (
        lambda lib: lib.fake_quantize_per_tensor_affine(lib.ones(2), 0.1, 0, 5, 3),
        "`quant_min` should be less than or",
    ),
    "a zero point outside": (
        lambda lib: lib.fake_quantize_per_tensor_affine(lib.ones(2), 0.1, 300, 0, 255),
        "`zero_point` must be between `quant_min` and `quant_max`.",
    ),
    "integers": (
        lambda lib: lib.fake_quantize_per_tensor_affine(lib.ones(2).int(), 0.1, 0, 0, 255),
        "\"fake_quantize_tensor_cachemask_kernel_type_handling\" not implemented for 'Int'",
    ),
    "zero points of int64": (
        lambda lib: per_channel(lib, kind="int64"),
        "Zero-point must be Int32, Float or Half, found Long",
    ),
    "other lengths": (
        lambda lib: per_channel(lib, points=2),
        "scale and zero-point need to have the same dimensions",
    ),
    "other channels": (
        lambda lib: per_channel(lib, axis=1),
        "dimensions of scale and zero-point are not consistent with input tensor",
    ),
}


@pytest.mark.parametrize("library", (weft, torch), ids=("weft", "torch"))
@pytest.mark.parametrize("case", WRONG)
def test_what_is_refused(case: str, library: Any) -> None:
    function, text = WRONG[case]
    with pytest.raises(RuntimeError, match=text.replace("(", "\\(")):
        function(library)


@pytest.mark.parametrize("point", (0.6, 300.0, -2.5))
def test_a_zero_point_in_a_tensor_is_an_integer_of_any_size(point: float) -> None:
    values = np.linspace(-2, 2, 9)

    def function(lib: Any, x: Any) -> Any:
        place = lib.tensor(point)
        return lib.fake_quantize_per_tensor_affine(x, lib.tensor(0.1), place, 0, 15)

    assert outcome(weft, values, function) == outcome(torch, values, function)
