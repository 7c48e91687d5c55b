"""gelu: one gradient record whose slope is the derivative of the value, to second order and in half types."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import weft
from weft.autograd import gradcheck
from weft.nn import functional as F

FORMS = ("none", "tanh")


def composed(x: Any, form: str) -> Any:
    """The formula, written out."""
    if form == "none":
        return x * 0.5 * (weft.erf(x * math.sqrt(0.5)) + 1)
    return x * 0.5 * ((math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)).tanh() + 1)


def points(dtype: Any = None) -> Any:
    """Numbers on both sides, the flat parts included."""
    values = weft.tensor(np.linspace(-6, 6, 41), dtype=dtype or weft.float64)
    return values.requires_grad_()


@pytest.mark.parametrize("form", FORMS)
def test_value_and_slope_are_those_of_the_formula(form: str) -> None:
    x, y = points(), points()
    F.gelu(x, approximate=form).sum().backward()
    composed(y, form).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), 1e-12, 1e-15)
    np.testing.assert_allclose(
        F.gelu(x, approximate=form).detach().numpy(), composed(y, form).detach().numpy(), 1e-14
    )


@pytest.mark.parametrize("form", FORMS)
def test_derivatives_are_those_of_differences(form: str) -> None:
    assert gradcheck(lambda x: F.gelu(x, approximate=form), (points(),))
    x, y = points(), points()
    for leaf, function in ((x, F.gelu(x, approximate=form)), (y, composed(y, form))):
        (slope,) = weft.autograd.grad(function.sum(), leaf, create_graph=True)
        slope.square().sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), 1e-10, 1e-13)


@pytest.mark.parametrize("form", FORMS)
def test_half_types_compute_in_float32(form: str) -> None:
    x = points(weft.float16)
    out = F.gelu(x, approximate=form)
    out.sum().backward()
    wide = x.detach().float()
    assert out.dtype is weft.float16
    assert out.tolist() == F.gelu(wide, approximate=form).half().tolist()
    assert x.grad.dtype is weft.float16


@pytest.mark.parametrize("form", FORMS)
def test_one_record_in_the_graph(form: str) -> None:
    assert "GeluBackward0" in repr(F.gelu(points(), approximate=form).grad_fn)
