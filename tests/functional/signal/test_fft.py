"""Fourier transforms, running logsumexp, histograms and views that a tensor becomes: properties that need no oracle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from weft.autograd import gradcheck, gradgradcheck
from weft.functional.signal import pocketfft

SOURCE = np.random.default_rng(0)


def signal(*shape: int) -> Any:
    """Fixed random numbers in float64 that require a gradient."""
    return weft.tensor(SOURCE.standard_normal(shape), requires_grad=True)


@pytest.mark.parametrize("n", (5, 6))
@pytest.mark.parametrize("norm", ("backward", "ortho", "forward"))
def test_inverses(n: int, norm: str) -> None:
    x = signal(3, n).detach()
    assert weft.allclose(weft.fft.irfft(weft.fft.rfft(x, norm=norm), n, norm=norm), x)
    assert weft.allclose(weft.fft.ifft(weft.fft.fft(x, norm=norm), norm=norm).real, x)
    assert weft.allclose(weft.fft.hfft(weft.fft.ihfft(x, norm=norm), n, norm=norm), x)
    assert weft.allclose(weft.fft.irfftn(weft.fft.rfftn(x, norm=norm), x.shape, norm=norm), x)


@pytest.mark.parametrize("name", ("fft", "rfft", "ihfft", "rfftn", "fft2"))
@pytest.mark.parametrize("size", (3, 6))
def test_derivatives(name: str, size: int) -> None:
    """Also where the signal is cut or filled up."""
    x = signal(4, 5)
    shape: Any = (size, size) if name in ("rfftn", "fft2") else size
    assert gradcheck(lambda x: getattr(weft.fft, name)(x, shape), (x,), check_forward_ad=True)
    assert gradgradcheck(lambda x: getattr(weft.fft, name)(x, shape), (x,))


@pytest.mark.parametrize("size", (5, 6))
def test_derivatives_of_real_inverses(size: int) -> None:
    x = weft.fft.rfft(signal(2, 7).detach()).detach().requires_grad_()
    assert gradcheck(lambda x: weft.fft.irfft(x, size), (x,))
    assert gradcheck(lambda x: weft.fft.hfft(x, size), (x,))


def test_short_time_transforms_are_inverted() -> None:
    x = signal(2, 100)
    window = weft.hann_window(20, dtype=weft.float64)
    spectrum = weft.stft(x, 20, 5, window=window, return_complex=True)
    assert spectrum.shape == (2, 11, 21)
    again = weft.istft(spectrum, 20, 5, window=window, length=100)
    assert weft.allclose(again, x)
    again.square().sum().backward()
    assert weft.allclose(x.grad, 2 * x.detach())


def test_logcumsumexp_is_stable_and_differentiable() -> None:
    x = weft.tensor([1000.0, -1000.0, 1001.0, 0.5], dtype=weft.float64)
    assert np.allclose(weft.logcumsumexp(x, 0).tolist(), np.logaddexp.accumulate(x.numpy()))
    assert gradgradcheck(lambda x: weft.logcumsumexp(x, 1), (signal(2, 5),))


def test_a_tensor_that_becomes_a_view_of_itself_keeps_its_memory_and_its_history() -> None:
    x = weft.arange(6.0).reshape(2, 3).clone()
    other = x[0]
    x.unsqueeze_(0).transpose_(1, 2)
    assert x.shape == (1, 3, 2)
    other[1] = 7.0
    assert x.tolist() == [[[0.0, 3.0], [7.0, 4.0], [2.0, 5.0]]]
    leaf = weft.ones(2, 3, requires_grad=True)
    y = leaf * 2
    y.t_()
    (y * weft.arange(6.0).reshape(3, 2)).sum().backward()
    assert leaf.grad.tolist() == [[0.0, 4.0, 8.0], [2.0, 6.0, 10.0]]
    with pytest.raises(RuntimeError, match="(?s)leaf Variable that requires grad.*fix"):
        leaf.t_()


def test_out_that_overlaps_its_input_is_refused() -> None:
    x = weft.arange(6.0)
    with pytest.raises(RuntimeError, match="(?s)single memory location.*fix"):
        weft.take(x, weft.tensor([0, 1, 2]), out=x[:3])
    values, places = weft.empty(0), weft.empty(0, dtype=weft.int64)
    assert weft.topk(x, 2, out=(values, places))[0] is values
    assert (values.tolist(), places.tolist()) == ([5.0, 4.0], [5, 4])


def test_masked_reductions_skip() -> None:
    x = weft.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    mask = weft.tensor([[True, False, True], [False, False, False]])
    assert weft.masked.sum(x, 1, mask=mask).tolist() == [4.0, 0.0]
    assert weft.masked.mean(x, 1, mask=mask)[0].item() == 2.0
    assert weft.masked.mean(x, 1, mask=mask)[1].isnan()
    assert weft.masked.amax(x, 1, mask=mask).tolist() == [3.0, -np.inf]
    assert weft.masked.var(x, 1, mask=mask)[0].item() == 2.0


def test_poisson_counts_have_their_mean_and_variance() -> None:
    weft.manual_seed(0)
    counts = weft.poisson(weft.full((20000,), 3.5)).double()
    assert abs(counts.mean().item() - 3.5) < 0.06
    assert abs(counts.var().item() - 3.5) < 0.15
    assert (
        (1 - weft.poisson(weft.full((20000,), 0.2)).clamp(max=1)).mean().item() - np.exp(-0.2)
    ) ** 2 < 1e-4


@pytest.mark.parametrize("scale", [0, 1, 2])
@pytest.mark.parametrize("axes", [[1], [0, 1], [1, 0]])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scipys_public_functions_give_what_its_binding_gives(
    scale: int, axes: list[int], dtype: type
) -> None:
    draws = np.random.default_rng(0)
    real = draws.standard_normal((5, 6)).astype(dtype)
    whole = real + 1j * draws.standard_normal((5, 6)).astype(dtype)
    for values in (real, whole):
        for forward in (True, False):
            bound = pocketfft.c2c(values, axes, forward, scale, None, 1)
            public = pocketfft.public_c2c(values, axes, forward, scale, None, 1)
            assert public.dtype == bound.dtype
            np.testing.assert_allclose(public, bound, rtol=1e-5, atol=1e-5)
    half = pocketfft.r2c(real, axes, True, scale, None, 1)
    np.testing.assert_allclose(
        pocketfft.public_r2c(real, axes, True, scale, None, 1), half, rtol=1e-5, atol=1e-5
    )
    size = real.shape[axes[-1]]
    back = pocketfft.c2r(half, axes, size, False, scale, None, 1)
    np.testing.assert_allclose(
        pocketfft.public_c2r(half, axes, size, False, scale, None, 1), back, rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize(("name", "shown"), [("fftfreq", "[]"), ("rfftfreq", "[nan]")])
def test_frequencies_of_no_points_and_of_integers(name, shown):
    """No points have no frequencies, and a half of them one that is 0 / 0; integers hold none."""
    assert str(getattr(weft.fft, name)(0).tolist()) == shown
    with pytest.raises(RuntimeError, match=f"{name} requires a floating point or complex dtype"):
        getattr(weft.fft, name)(4, dtype=weft.int64)
