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


class _Cells(nn.Module):
    """A loop of the program's own over the steps."""

    def __init__(self, cell: nn.Module) -> None:
        super().__init__()
        self.cell = cell

    def forward(self, x: Any) -> Any:
        state = None
        for step in x.unbind(1):
            state = self.cell(step, state)
        return state


@pytest.mark.parametrize("cell", [nn.LSTMCell, nn.GRUCell, nn.RNNCell])
def test_a_loop_over_a_dynamic_length_is_told(cell: Callable[..., nn.Module]) -> None:
    with pytest.raises(
        RuntimeError, match=r"other operations(.|\n)*leave the dimension that a loop"
    ):
        weft.onnx.export(
            _Cells(cell(6, 5)),
            (weft.randn(3, 7, 6),),
            input_names=["x"],
            dynamic_axes={"x": {0: "batch", 1: "length"}},
        )


OPTIONS: list[dict[str, Any]] = [
    {},
    {"batch_first": True, "bidirectional": True, "num_layers": 2},
    {"bias": False},
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: " ".join(options) or "plain")
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN", "RNN relu"])
def test_recurrent_layers_of_any_length(kind: str, options: dict[str, Any]) -> None:
    """Each layer and direction is one operator: outputs and final states for all lengths and batches."""
    if kind == "RNN relu":
        options = {**options, "nonlinearity": "relu"}
    word = kind.partition(" ")[0]
    layer = getattr(nn, word)(6, 5, **options)
    example = weft.randn(4, 3, 6)
    program = weft.onnx.export(layer, (example,), dynamic_shapes=({0: "t", 1: "n"},), verify=True)
    kinds = [node.op_type for node in program.model_proto.graph.node]
    assert kinds.count(word) == (4 if options.get("bidirectional") else 1)
    for shape in ((9, 2, 6), (1, 1, 6), (2, 9, 6)):
        x = weft.randn(*shape)
        for found, value in zip(program(x), tree_leaves(layer(x)), strict=True):
            weft.testing.assert_close(found, value, rtol=1e-4, atol=1e-5)


def test_states_that_are_given_and_one_sequence() -> None:
    layer = nn.LSTM(6, 5)
    x, hidden, memory = weft.randn(4, 6), weft.randn(1, 5), weft.randn(1, 5)
    program = weft.onnx.export(layer, (x, (hidden, memory)), dynamic_shapes=({0: "t"}, None))
    x = weft.randn(7, 6)
    found = program(x, (hidden, memory))
    for one, value in zip(found, tree_leaves(layer(x, (hidden, memory))), strict=True):
        weft.testing.assert_close(one, value, rtol=1e-4, atol=1e-5)


def test_a_layer_without_an_operator_is_its_steps() -> None:
    """Of projections and of float64: of one length, and a word for others."""
    for layer, x in (
        (nn.LSTM(6, 5, proj_size=3), weft.randn(4, 2, 6)),
        (nn.GRU(6, 5, dtype=weft.float64), weft.randn(4, 2, 6, dtype=weft.float64)),
    ):
        program = weft.onnx.export(layer, (x,), dynamic_shapes=({1: "n"},))
        other = weft.cat([x, x], 1)
        weft.testing.assert_close(program(other)[0], layer(other)[0], rtol=1e-4, atol=1e-5)
        with pytest.raises(RuntimeError, match="other operations"):
            weft.onnx.export(layer, (x,), dynamic_shapes=({0: "t"},))


def test_a_layer_over_constants_may_be_read() -> None:
    """What does not depend on an input is computed by itself, also where ONNX has one operator for it."""
    layer, image = nn.LSTM(6, 5), weft.randn(1, 1, 4, 4)

    def model(x: Any) -> Any:
        scale = layer(weft.ones(3, 1, 6))[0].sum().item()
        return x * scale + nn.functional.max_pool2d(image, 2).sum().item()

    x = weft.randn(3)
    weft.testing.assert_close(weft.onnx.export(model, (x,))(x)[0], model(x))


POOLS: dict[str, Callable[[Any], Any]] = {
    "tiles": lambda x: nn.functional.max_pool2d(x, 2, return_indices=True),
    "overlap": lambda x: nn.functional.max_pool2d(x, 3, 2, 1, return_indices=True),
    "ceil": lambda x: nn.functional.max_pool2d(x, 3, 2, 1, 1, True, True),
    "wide steps": lambda x: nn.functional.max_pool2d(x, 2, 3, 1, 1, True, True),
    "dilation": lambda x: nn.functional.max_pool2d(
        x, (3, 2), (1, 2), dilation=(2, 1), return_indices=True
    ),
}
SIZES = ((2, 3, 14, 9), (1, 3, 6, 11), (3, 3, 30, 7), (1, 3, 7, 8), (1, 3, 9, 10), (2, 3, 13, 13))


@pytest.mark.parametrize("name", POOLS)
def test_maxima_are_one_operator_for_all_sizes(name: str) -> None:
    pool = POOLS[name]
    axes = {0: "n", 2: "height", 3: "width"}
    program = weft.onnx.export(pool, (weft.randn(*SIZES[0]),), dynamic_shapes=(axes,))
    kinds = [node.op_type for node in program.model_proto.graph.node]
    assert kinds.count("MaxPool") == 1
    assert not {"Gather", "ArgMax", "ReduceMax"} & set(kinds)
    for shape in SIZES:
        x = weft.randn(*shape)
        for found, value in zip(program(x), pool(x), strict=True):
            weft.testing.assert_close(found, value)
    alone = weft.onnx.export(lambda x: pool(x)[0], (weft.randn(*SIZES[0]),), dynamic_shapes=(axes,))
    kinds = [node.op_type for node in alone.model_proto.graph.node]
    assert kinds == ["MaxPool", "Identity"]


def test_a_window_that_depends_on_a_size() -> None:
    """The whole image is one for all sizes; half of it is refused with its line."""
    functional = nn.functional
    x, other = weft.randn(2, 3, 8, 9), weft.randn(2, 3, 5, 9)
    axes = ({2: "height"},)
    whole = weft.onnx.export(
        lambda x: functional.max_pool2d(x, x.shape[2:]), (x,), dynamic_shapes=axes
    )
    weft.testing.assert_close(whole(other)[0], other.amax((2, 3), keepdim=True))
    with pytest.raises(RuntimeError, match=r"another one by call(.|\n)*test_layers_of_any_batch"):
        weft.onnx.export(
            lambda x: functional.max_pool2d(x, (x.shape[2] // 2, 1)), (x,), dynamic_shapes=axes
        )


@pytest.mark.parametrize("size", [1, 2, 3, (2, 5), (None, 3), 7], ids=str)
@pytest.mark.parametrize("kind", ["avg", "max"])
def test_adaptive_pools_of_any_size(kind: str, size: Any) -> None:
    """Parts of other sizes for each size of the image, also where the example divides evenly."""
    function = getattr(nn.functional, f"adaptive_{kind}_pool2d")

    def pool(x: Any) -> list[Any]:
        found: list[Any] = tree_leaves(
            function(x, size, **({"return_indices": True} if kind == "max" else {}))
        )
        return found

    axes = {0: "n", 2: "height", 3: "width"}
    program = weft.onnx.export(pool, (weft.randn(2, 3, 14, 14),), dynamic_shapes=(axes,))
    for shape in ((2, 3, 14, 9), (1, 3, 5, 11), (3, 3, 30, 7), (1, 3, 2, 2), (1, 2, 40, 41)):
        x = weft.randn(shape[0], 3, *shape[2:])
        for found, value in zip(program(x), pool(x), strict=True):
            weft.testing.assert_close(found, value, rtol=1e-5, atol=1e-5)
