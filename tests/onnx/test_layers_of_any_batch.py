"""Layers as ONNX with a dynamic batch: onnxruntime gives the values of the layer, also for another batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft import nn
from weft.utils._pytree import tree_leaves

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

LINE, PLANE, SPACE = (2, 3, 20), (2, 3, 12, 12), (2, 3, 8, 8, 8)
LAYERS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "LSTM": (lambda: nn.LSTM(6, 5, batch_first=True), (3, 7, 6)),
    "GRU": (lambda: nn.GRU(6, 5, batch_first=True), (3, 7, 6)),
    "RNN": (lambda: nn.RNN(6, 5, batch_first=True), (3, 7, 6)),
    "MaxPool1d": (lambda: nn.MaxPool1d(3, 2), LINE),
    "MaxPool2d": (lambda: nn.MaxPool2d(3, 2, 1), PLANE),
    "MaxPool2d dilation": (lambda: nn.MaxPool2d(3, 2, 1, dilation=2), PLANE),
    "MaxPool2d ceil_mode": (lambda: nn.MaxPool2d(3, 2, 1, ceil_mode=True), PLANE),
    "MaxPool3d": (lambda: nn.MaxPool3d(2), SPACE),
    "MaxPool1d indices": (lambda: nn.MaxPool1d(3, 2, return_indices=True), LINE),
    "MaxPool2d indices": (lambda: nn.MaxPool2d(3, 2, 1, 2, True, True), PLANE),
    "MaxPool2d tiles indices": (lambda: nn.MaxPool2d(2, return_indices=True), PLANE),
    "MaxPool3d indices": (lambda: nn.MaxPool3d(2, return_indices=True), SPACE),
    "AvgPool2d": (lambda: nn.AvgPool2d(2), PLANE),
    "AdaptiveAvgPool2d": (lambda: nn.AdaptiveAvgPool2d(4), PLANE),
    "AdaptiveMaxPool2d": (lambda: nn.AdaptiveMaxPool2d(4), PLANE),
    "LPPool2d": (lambda: nn.LPPool2d(2, 3), PLANE),
    "Conv1d": (lambda: nn.Conv1d(3, 4, 3), LINE),
    "Conv2d reflect": (lambda: nn.Conv2d(3, 4, 3, padding=1, padding_mode="reflect"), PLANE),
    "Conv3d": (lambda: nn.Conv3d(3, 4, 3), SPACE),
    "ConvTranspose1d": (lambda: nn.ConvTranspose1d(3, 4, 3, 2), LINE),
    "ConvTranspose2d": (lambda: nn.ConvTranspose2d(3, 4, 3, 2, output_padding=1), PLANE),
    "BatchNorm2d": (lambda: nn.BatchNorm2d(3), PLANE),
    "GroupNorm": (lambda: nn.GroupNorm(3, 3), PLANE),
    "InstanceNorm2d": (lambda: nn.InstanceNorm2d(3), PLANE),
    "LayerNorm": (lambda: nn.LayerNorm(20), LINE),
    "RMSNorm": (lambda: nn.RMSNorm(20), LINE),
    "LocalResponseNorm": (lambda: nn.LocalResponseNorm(2), PLANE),
    "PReLU": (lambda: nn.PReLU(3), LINE),
    "GLU": (lambda: nn.GLU(), LINE),
    "Softmax2d": (lambda: nn.Softmax2d(), PLANE),
    "Hardswish": (lambda: nn.Hardswish(), LINE),
    "Mish": (lambda: nn.Mish(), LINE),
    "SELU": (lambda: nn.SELU(), LINE),
    "Softplus": (lambda: nn.Softplus(), LINE),
    "LogSigmoid": (lambda: nn.LogSigmoid(), LINE),
    "Softshrink": (lambda: nn.Softshrink(), LINE),
    "PixelShuffle": (lambda: nn.PixelShuffle(2), (2, 8, 4, 4)),
    "PixelUnshuffle": (lambda: nn.PixelUnshuffle(2), PLANE),
    "ChannelShuffle": (lambda: nn.ChannelShuffle(3), PLANE),
    "Unfold": (lambda: nn.Unfold(3), PLANE),
    "Fold": (lambda: nn.Fold((4, 4), 2), (2, 12, 9)),
    "Upsample": (lambda: nn.Upsample(scale_factor=2, mode="bilinear"), PLANE),
    "ReflectionPad2d": (lambda: nn.ReflectionPad2d(1), PLANE),
    "CircularPad2d": (lambda: nn.CircularPad2d(1), PLANE),
    "ReplicationPad2d": (lambda: nn.ReplicationPad2d(1), PLANE),
    "ZeroPad2d": (lambda: nn.ZeroPad2d(1), PLANE),
    "Flatten": (lambda: nn.Flatten(), PLANE),
    "Unflatten": (lambda: nn.Unflatten(1, (1, 3)), LINE),
    "TransformerEncoderLayer": (
        lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True),
        (2, 5, 8),
    ),
}


@pytest.mark.parametrize("name", LAYERS)
def test_another_batch_gives_the_same_values(name: str) -> None:
    build, shape = LAYERS[name]
    weft.manual_seed(1)
    layer = build().eval()
    x, other = weft.randn(*shape), weft.randn(shape[0] + 2, *shape[1:])
    program = weft.onnx.export(
        layer, (x,), input_names=["x"], dynamic_axes={"x": {0: "batch"}}, verify=True
    )
    with weft.no_grad():
        wanted: list[Any] = tree_leaves(layer(other))
    for found, value in zip(program(other), wanted, strict=True):
        weft.testing.assert_close(found, value, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("cell", [nn.LSTM, nn.GRU, nn.RNN])
def test_a_loop_over_a_dynamic_length_is_told(cell: Callable[..., nn.Module]) -> None:
    with pytest.raises(
        RuntimeError, match=r"other operations(.|\n)*leave the dimension that a loop"
    ):
        weft.onnx.export(
            cell(6, 5, batch_first=True),
            (weft.randn(3, 7, 6),),
            input_names=["x"],
            dynamic_axes={"x": {0: "batch", 1: "length"}},
        )
