"""Deprecated names: they warn at the user's line with PyTorch's words, and do what today's names do."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft import nn
from weft.nn import functional as F


def _image() -> Any:
    return weft.ones(1, 1, 2, 2)


def _schedule() -> Any:
    optimizer = weft.optim.SGD([weft.ones(1)], 0.1)
    return weft.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)


def _attention() -> Any:
    x = weft.ones(1, 2, 4)
    padding, mask = weft.zeros(1, 2, dtype=weft.bool), weft.zeros(2, 2)
    layer = nn.MultiheadAttention(4, 2, batch_first=True)
    return layer(x, x, x, key_padding_mask=padding, attn_mask=mask)


def _stack(masks: bool) -> Any:
    layer = nn.TransformerEncoderLayer(4, 2, 4, batch_first=True)
    x, padding = weft.ones(1, 2, 4), weft.zeros(1, 2, dtype=weft.bool)
    given = {"mask": weft.zeros(2, 2), "src_key_padding_mask": padding} if masks else {}
    return nn.TransformerEncoder(layer, 1)(x, **given)


def iter_of_none() -> Any:
    """A generator that another loop has used up."""
    yield from ()


CALLS: dict[str, tuple[Callable[[], Any], type[Warning], str]] = {
    "upsample": (
        lambda: F.upsample(_image(), scale_factor=2),
        UserWarning,
        "`nn.functional.upsample` is deprecated. Use `nn.functional.interpolate` instead.",
    ),
    "upsample_nearest": (
        lambda: F.upsample_nearest(_image(), scale_factor=2),
        UserWarning,
        "`nn.functional.upsample_nearest` is deprecated.",
    ),
    "upsample_bilinear": (
        lambda: F.upsample_bilinear(_image(), scale_factor=2),
        UserWarning,
        "`nn.functional.upsample_bilinear` is deprecated.",
    ),
    "gumbel_softmax": (
        lambda: F.gumbel_softmax(weft.ones(2, 3), eps=1e-5),
        UserWarning,
        "`eps` parameter is deprecated and has no effect.",
    ),
    "weight_norm": (
        lambda: nn.utils.weight_norm(nn.Linear(2, 2)),
        FutureWarning,
        "`torch.nn.utils.weight_norm` is deprecated in favor of",
    ),
    "clip_grad_norm": (
        lambda: nn.utils.clip_grad_norm([], 1.0),
        FutureWarning,
        "`torch.nn.utils.clip_grad_norm` is now deprecated",
    ),
    "clip_grad_norm_": (
        lambda: nn.utils.clip_grad_norm_(iter_of_none(), 1.0),
        UserWarning,
        "`parameters` is an empty generator, no gradient clipping will occur.",
    ),
    "NLLLoss2d": (nn.NLLLoss2d, FutureWarning, "`NLLLoss2d` has been deprecated."),
    "Hardtanh": (
        lambda: nn.Hardtanh(min_value=-2.0),
        FutureWarning,
        "keyword argument `min_value` is deprecated and renamed to `min_val`",
    ),
    "get_lr": (
        lambda: _schedule().get_lr(),
        UserWarning,
        "To get the last learning rate computed by the scheduler, please use `get_last_lr()`.",
    ),
    "masks": (
        _attention,
        UserWarning,
        "Support for mismatched key_padding_mask and attn_mask is deprecated.",
    ),
    "masks of a stack": (
        lambda: _stack(True),
        UserWarning,
        "Support for mismatched src_key_padding_mask and mask is deprecated.",
    ),
    "nested": (
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 4), 1),
        UserWarning,
        "enable_nested_tensor is True, but self.use_nested_tensor is False because encoder_layer.self_attn.batch_first",
    ),
    "resize": (
        lambda: weft.ones(4).resize(2, 2),
        UserWarning,
        "non-inplace resize is deprecated",
    ),
    "resize_as": (
        lambda: weft.ones(4).resize_as(weft.ones(2, 2)),
        UserWarning,
        "non-inplace resize_as is deprecated",
    ),
    "custom_fwd": (
        lambda: weft.cuda.amp.custom_fwd(lambda ctx, x: x),
        FutureWarning,
        "`torch.cuda.amp.custom_fwd(args...)` is deprecated.",
    ),
    "memory_cached": (
        lambda: weft.cuda.memory_cached(),
        FutureWarning,
        "`torch.cuda.memory_cached` has been renamed to `torch.cuda.memory_reserved`",
    ),
    "cummulative_sizes": (
        lambda: weft.utils.data.ConcatDataset([[1], [2]]).cummulative_sizes,
        FutureWarning,
        "`cummulative_sizes` attribute is renamed to `cumulative_sizes`",
    ),
    "assert_allclose": (
        lambda: weft.testing.assert_allclose(weft.ones(1), weft.ones(1)),
        FutureWarning,
        "`torch.testing.assert_allclose()` is deprecated since 1.12",
    ),
    "sample_n": (
        lambda: weft.distributions.Normal(0.0, 1.0).sample_n(2),
        FutureWarning,
        "`sample_n(n)` will be deprecated. Use `sample((n,))` instead.",
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_deprecated_name_warns_at_the_users_line(name: str) -> None:
    call, category, text = CALLS[name]
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        call()
    assert [(w.category, str(w.message)[: len(text)]) for w in given] == [(category, text)]
    assert given[0].filename == __file__


def test_they_do_what_todays_names_do() -> None:
    with pytest.warns(UserWarning):
        assert weft.arange(4.0).resize(2, 2).tolist() == [[0, 1], [2, 3]]
    with pytest.warns(UserWarning):
        assert weft.arange(4.0).resize_as(weft.ones(2, 2)).shape == (2, 2)
    with (
        pytest.warns(UserWarning),
        pytest.raises(RuntimeError, match=r"requested resize to 3 \(3 elements in total\)"),
    ):
        weft.arange(4.0).resize(3)
    with pytest.warns(FutureWarning):
        layer = nn.Hardtanh(max_value=0.5)
    assert (layer.min_val, layer.max_val) == (-1.0, 0.5)
    assert _stack(False).shape == (1, 2, 4)


def test_classes_for_a_device_that_is_not_there_say_both() -> None:
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        scaler, mode = weft.cuda.amp.GradScaler(), weft.cuda.amp.autocast()
    assert [str(w.message).partition("(")[0].partition(".  ")[0] for w in given] == [
        "`torch.cuda.amp.GradScaler",
        "torch.cuda.amp.GradScaler is enabled, but CUDA is not available",
        "`torch.cuda.amp.autocast",
        "CUDA is not available or torch_xla is imported. Disabling autocast.",
    ]
    assert not scaler.is_enabled() and not mode._enabled
    assert {w.filename for w in given} == {__file__}


def test_schedules_ask_themselves_without_a_warning() -> None:
    schedule = _schedule()
    schedule.optimizer.step()
    schedule.step()
    assert schedule.get_last_lr() == [0.05]
