"""A layer and the batch normalisation behind it as one layer: the same values, PyTorch's weights, and refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from oracle import torch
from weft import nn

CASES = {
    "conv": (lambda lib: lib.nn.Conv2d(3, 4, 3, bias=False), "BatchNorm2d", (2, 3, 5, 5), {}),
    "conv with bias": (lambda lib: lib.nn.Conv1d(3, 4, 2), "BatchNorm1d", (2, 3, 5), {}),
    "plain norm": (lambda lib: lib.nn.Conv1d(3, 4, 2), "BatchNorm1d", (2, 3, 5), {"affine": False}),
    "transposed": (lambda lib: lib.nn.ConvTranspose2d(3, 4, 2), "BatchNorm2d", (2, 3, 4, 4), {}),
    "linear": (lambda lib: lib.nn.Linear(3, 4), "BatchNorm1d", (5, 3), {}),
}


def pair(lib: Any, case: str) -> tuple[Any, Any]:
    """The two layers in evaluation mode, with numbers that both libraries get."""
    make, norm, _, options = CASES[case]
    layers = make(lib).eval(), getattr(lib.nn, norm)(4, **options).eval()
    generator = np.random.default_rng(0)
    for layer in layers:
        state = layer.state_dict()
        drawn = {name: generator.random(tuple(value.shape)) + 0.5 for name, value in state.items()}
        layer.load_state_dict(
            {name: lib.tensor(drawn[name]).to(value.dtype) for name, value in state.items()}
        )
    return layers


@pytest.mark.parametrize("case", CASES)
def test_one_layer_gives_what_both_gave(case: str) -> None:
    if case == "linear":
        fused = [lib.nn.utils.fusion.fuse_linear_bn_eval(*pair(lib, case)) for lib in (weft, torch)]
    else:
        transposed = {"transpose": True} if case == "transposed" else {}
        fused = [
            lib.nn.utils.fusion.fuse_conv_bn_eval(*pair(lib, case), **transposed)
            for lib in (weft, torch)
        ]
    x = np.random.default_rng(1).standard_normal(CASES[case][2]).astype(np.float32)
    first, second = pair(weft, case)
    np.testing.assert_allclose(
        fused[0](weft.tensor(x)).detach().numpy(),
        second(first(weft.tensor(x))).detach().numpy(),
        rtol=1e-5,
        atol=1e-6,
    )
    for ours, theirs in zip(fused[0].parameters(), fused[1].parameters(), strict=True):
        np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=1e-6)
        assert ours.requires_grad == theirs.requires_grad
    assert type(fused[0]) is type(first) and not fused[0].training


def test_layers_in_training_are_refused() -> None:
    with pytest.raises(ValueError, match=r"(?s)Fusion only for eval.*call eval\(\)"):
        nn.utils.fuse_conv_bn_eval(nn.Conv1d(1, 1, 1), nn.BatchNorm1d(1).eval())
    with pytest.raises(ValueError, match="with running statistics"):
        plain = nn.BatchNorm1d(1, track_running_stats=False).eval()
        nn.utils.fuse_conv_bn_eval(nn.Conv1d(1, 1, 1).eval(), plain)
    with pytest.raises(RuntimeError, match=r"(?s)out_features == bn.num_features.*got +3 features"):
        nn.utils.fuse_linear_bn_eval(nn.Linear(2, 4).eval(), nn.BatchNorm1d(3).eval())
