"""Whole models as ONNX: onnxruntime gives the values of the call, also for sizes that it was not exported with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import weft
from weft import nn

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")


def _mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(7, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 3), nn.Tanh())


class _Block(nn.Module):
    def __init__(self, width: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(width, 2 * width, 3, stride, 1, bias=False)
        self.norm = nn.BatchNorm2d(2 * width)
        self.second = nn.Conv2d(2 * width, 2 * width, 3, padding=1, groups=2)
        self.short = nn.Conv2d(width, 2 * width, 1, stride)

    def forward(self, x: Any) -> Any:
        y = self.second(self.norm(self.first(x)).relu())
        return (y + self.short(x)).relu()


def _resnet() -> nn.Module:
    stem = [nn.Conv2d(3, 4, 7, 2, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 5)]
    return nn.Sequential(*stem, _Block(4, 1), _Block(8, 2), *head)


class _Recurrent(nn.Module):
    def __init__(self, kind: Callable[..., nn.Module]) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 6)
        self.cells = kind(6, 5, num_layers=2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(10, 3)

    def forward(self, words: Any) -> Any:
        states, _ = self.cells(self.embedding(words))
        return self.head(states[:, -1])


class _Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(12, 3, 24, batch_first=True, activation="gelu")
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, x: Any) -> Any:
        return self.layers(x)


class _GPT(nn.Module):
    def __init__(self, causal: bool = True) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(30, 16), nn.Embedding(32, 16)
        self.norm, self.attend = nn.LayerNorm(16), nn.Linear(16, 48)
        self.project, self.final = nn.Linear(16, 16), nn.LayerNorm(16)
        self.mlp = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 16))
        self.causal = causal

    def forward(self, tokens: Any) -> Any:
        batch, length = tokens.shape
        x = self.words(tokens) + self.places(weft.arange(length))
        q, k, v = self.attend(self.norm(x)).split(16, 2)
        q, k, v = (t.view(batch, length, 4, 4).transpose(1, 2) for t in (q, k, v))
        if self.causal:
            y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:  # written out
            scores = q @ k.transpose(-2, -1) / 2
            mask = weft.ones(length, length, dtype=weft.bool).tril()
            y = scores.masked_fill(~mask, -float("inf")).softmax(-1) @ v
        x = x + self.project(y.transpose(1, 2).reshape(batch, length, 16))
        x = x + self.mlp(self.final(x))
        return x @ self.words.weight.T


class _Bag(nn.Module):
    def __init__(self, mode: str) -> None:
        super().__init__()
        self.bag, self.head = nn.EmbeddingBag(30, 8, mode=mode), nn.Linear(8, 2)

    def forward(self, words: Any) -> Any:
        return self.head(self.bag(words))


class _Unet(nn.Module):
    """One level of a U-Net, whose way up is a transposed convolution or an interpolation by `how`."""

    def __init__(self, how: str = "") -> None:
        super().__init__()
        self.how, self.down, self.pool = how, nn.Conv2d(3, 4, 3, padding=1), nn.MaxPool2d(2)
        self.up = nn.Conv2d(4, 4, 1) if how else nn.ConvTranspose2d(4, 4, 2, stride=2)
        self.out = nn.Conv2d(8, 2, 1)

    def forward(self, x: Any) -> Any:
        wide = self.down(x).relu()
        low = self.up(self.pool(wide))
        if self.how:
            low = nn.functional.interpolate(low, size=wide.shape[2:], mode=self.how)
        return self.out(weft.cat([wide, low], 1))


class _Rotated(nn.Module):
    """Attention with rotary places, of two heads of keys for four of queries, and a gated perceptron."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.norm = nn.Embedding(20, 16), nn.RMSNorm(16)
        self.query, self.key_value = nn.Linear(16, 16, bias=False), nn.Linear(16, 16, bias=False)
        self.gate, self.down = nn.Linear(16, 64), nn.Linear(32, 16)

    def turned(self, x: Any) -> Any:
        frequencies = 100.0 ** (-weft.arange(0, 4, 2) / 4)
        angles = weft.outer(weft.arange(x.shape[2]), frequencies)
        even, odd = x[..., ::2], x[..., 1::2]
        cos, sin = angles.cos(), angles.sin()
        return weft.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2)

    def forward(self, tokens: Any) -> Any:
        x = self.words(tokens)
        q = self.turned(self.query(self.norm(x)).unflatten(2, (4, 4)).transpose(1, 2))
        k, v = self.key_value(self.norm(x)).unflatten(2, (4, 4)).transpose(1, 2).split(2, 1)
        k, v = self.turned(k).repeat_interleave(2, 1), v.repeat_interleave(2, 1)
        seen = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + seen.transpose(1, 2).flatten(2)
        gate, value = self.gate(self.norm(x)).chunk(2, -1)
        return x + self.down(nn.functional.silu(gate) * value)


_TOKENS = {0: "batch", 1: "length"}
_PLANE = {0: "batch", 2: "height", 3: "width"}
MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[..., Any], dict[int, str], list[Any]]] = {
    "mlp": (_mlp, lambda n: weft.randn(n, 7), {0: "batch"}, [1, 9]),
    "resnet": (
        _resnet,
        lambda n, h, w: weft.randn(n, 3, h, w),
        {0: "batch", 2: "height", 3: "width"},
        [(1, 32, 32), (3, 41, 28)],
    ),
    "lstm": (lambda: _Recurrent(nn.LSTM), lambda n: _words(n, 6), {0: "batch"}, [3, 8]),
    "gru": (lambda: _Recurrent(nn.GRU), lambda n: _words(n, 6), {0: "batch"}, [3, 8]),
    "encoder": (_Encoder, lambda n, s: weft.randn(n, s, 12), _TOKENS, [(2, 5), (1, 11)]),
    "gpt": (_GPT, lambda n, s: _words(n, s), _TOKENS, [(2, 7), (1, 16)]),
    "gpt written out": (lambda: _GPT(False), lambda n, s: _words(n, s), _TOKENS, [(2, 7), (3, 12)]),
    **{
        name: (lambda how=how: _Unet(how), lambda n, h, w: weft.randn(n, 3, h, w), _PLANE, sizes)
        for name, how, sizes in (
            ("unet", "", [(2, 8, 12), (1, 14, 6)]),
            ("unet nearest", "nearest", [(2, 8, 12), (1, 14, 6)]),
            ("unet bilinear", "bilinear", [(2, 8, 12), (1, 9, 15)]),
            ("unet bicubic", "bicubic", [(2, 8, 12), (1, 9, 15)]),
        )
    },
    "rotated": (_Rotated, lambda n, s: _words(n, s), _TOKENS, [(2, 7), (3, 12)]),
    "bag sum": (lambda: _Bag("sum"), lambda n: _words(n, 4), {0: "batch"}, [3, 6]),
    "bag mean": (lambda: _Bag("mean"), lambda n: _words(n, 4), {0: "batch"}, [3, 6]),
    "bag max": (lambda: _Bag("max"), lambda n: _words(n, 4), {0: "batch"}, [3, 6]),
}


def _words(*shape: int) -> Any:
    return weft.randint(0, 20, shape)


def _made(make: Callable[..., Any], sizes: Any) -> Any:
    return make(*sizes) if isinstance(sizes, tuple) else make(sizes)


@pytest.mark.parametrize("name", MODELS)
def test_models_give_the_same_values(name: str, tmp_path: Path) -> None:
    """As exported, from the file, and of other sizes."""
    build, make, axes, sizes = MODELS[name]
    weft.manual_seed(1)
    model = build()
    x, other = (_made(make, size) for size in sizes)
    fixed = weft.onnx.export(model, (x,), verify=True)
    assert model.training
    path = tmp_path / "model.onnx"
    program = weft.onnx.export(model, (x,), path, input_names=["x"], dynamic_axes={"x": axes})
    model.eval()
    with weft.no_grad():
        weft.testing.assert_close(fixed(x)[0], model(x), rtol=1e-4, atol=1e-5)
        for given in (x, other):
            weft.testing.assert_close(program(given)[0], model(given), rtol=1e-4, atol=1e-5)
    onnx.checker.check_model(str(path), full_check=True)
    read = onnx.load(path)
    known = {tensor.name for tensor in read.graph.initializer}
    assert {n for n, _ in model.named_parameters()} <= known
    shape = read.graph.input[0].type.tensor_type.shape.dim
    assert [shape[axis].dim_param for axis in axes] == list(axes.values())


@pytest.mark.parametrize("mode", ["linear", "nearest", "nearest-exact"])
@pytest.mark.parametrize("factor", [0.5, 1.5, 3])
def test_lengths_that_are_multiples_and_quotients(mode: str, factor: float) -> None:
    def resized(x: Any) -> Any:
        return nn.functional.interpolate(x, scale_factor=factor, mode=mode)

    program = weft.onnx.export(resized, (weft.randn(2, 3, 8),), dynamic_shapes=({2: "n"},))
    for length in (8, 5, 34):
        x = weft.randn(2, 3, length)
        weft.testing.assert_close(program(x)[0], resized(x))


def test_a_program_that_goes_another_way_for_some_sizes_is_told() -> None:
    def model(x: Any) -> Any:
        return x.sum(2) if x.shape[2] % 8 == 0 else x[:, :, 0]

    with pytest.warns(RuntimeWarning, match=r"other operations for some sizes.* n \[8, 16"):
        program = weft.onnx.export(model, (weft.randn(1, 2, 8),), dynamic_shapes=({2: "n"},))
    x = weft.randn(1, 2, 24)
    weft.testing.assert_close(program(x)[0], model(x))


def test_values_that_are_read_on_the_way_may_depend_on_sizes() -> None:
    """Places that the program prints, or checks, are still computed from the size; what it has drawn stays."""

    def model(x: Any) -> Any:
        assert (
            weft.compiler.is_exporting()
            == weft.compiler.is_compiling()
            == weft.onnx.is_in_onnx_export()
        )
        places = weft.arange(x.shape[0]) + 1
        assert int(places[0]) == 1
        total = int(places.sum()) - int(places.sum())
        return x * places + total

    program = weft.onnx.export(model, (weft.randn(3),), dynamic_shapes=({0: "n"},))
    x = weft.randn(7)
    assert program(x)[0].equal(model(x))

    def noisy(x: Any) -> Any:
        noise = weft.rand(2)
        assert float(noise.sum()) >= 0
        return x[:2] + 0 * noise

    weft.onnx.export(noisy, (weft.randn(3),), verify=True)


def test_dimensions_by_dim() -> None:
    """Bounds keep the sizes that are tried small; hints name dimensions by themselves."""
    places = weft.randn(12, 4)
    length, batch = weft.export.Dim("length", min=2, max=12), weft.export.Dim.DYNAMIC
    program = weft.onnx.export(
        lambda x: x + places[: x.shape[1]],
        (weft.randn(2, 3, 4),),
        dynamic_shapes=({0: batch, 1: length},),
    )
    x = weft.randn(5, 12, 4)
    assert program(x)[0].equal(x + places)
    shape = program.model_proto.graph.output[0].type.tensor_type.shape.dim
    assert [size.dim_param or size.dim_value for size in shape] == ["dim_0_0", "length", 4]


def test_one_example_is_a_convolution() -> None:
    """The graph does not depend on how small the example is: no windows where ONNX has Conv."""
    program = weft.onnx.export(nn.Conv2d(2, 3, 3), (weft.randn(1, 2, 5, 5),))
    assert [node.op_type for node in program.model_proto.graph.node] == ["Conv", "Identity"]


def test_arguments_in_containers_and_by_name() -> None:
    def model(pair: Any, *, scale: float, shift: Any = None) -> Any:
        return {"sum": pair["a"] + pair["b"][0] * scale, "shift": [shift * 2]}

    pair = {"a": weft.ones(3, 2), "b": [weft.full((3, 2), 2.0)]}
    spec = {"pair": {"a": {0: "n"}, "b": [{0: "n"}]}, "scale": None, "shift": None}
    program = weft.onnx.export(
        model,
        (pair,),
        kwargs={"scale": 0.5, "shift": weft.ones(2)},
        dynamic_shapes=spec,
        output_names=["total"],
    )
    assert program.input_names == ["pair_0", "pair_1", "shift"]
    assert program.output_names == ["total", "output_1"]
    given = {"a": weft.ones(5, 2), "b": [weft.full((5, 2), 4.0)]}
    total, shift = program(given, scale=0.5, shift=weft.ones(2))
    assert total.tolist() == [[3.0, 3.0]] * 5
    assert shift.tolist() == [2.0, 2.0]


def test_weights_in_the_file_and_beside_it(tmp_path: Path) -> None:
    model = nn.Linear(40, 30)
    x = weft.randn(2, 40)
    for external in (True, False):
        path = tmp_path / f"{external}.onnx"
        weft.onnx.export(model, (x,), path, external_data=external)
        assert Path(f"{path}.data").exists() == external
        assert weft.onnx.ONNXProgram(onnx.load(path))(x)[0].allclose(model(x), atol=1e-5)
    bare = tmp_path / "bare.onnx"
    weft.onnx.export(model, (x,), bare, export_params=False)
    assert {value.name for value in onnx.load(bare).graph.input} == {"input", "weight", "bias"}


def test_older_operators_are_asked_of_the_converter() -> None:
    program = weft.onnx.export(lambda x: x.relu() + 1, (weft.randn(3),), opset_version=17)
    assert program.model_proto.opset_import[0].version == 17
    x = weft.randn(3)
    assert program(x)[0].equal(x.relu() + 1)


def test_training_mode_and_state_are_as_before() -> None:
    """Nothing of the model changes, and nothing that is pending is lost."""
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout())
    model[2].eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    pending = weft.ones(3) + 1
    weft.onnx.export(model, (weft.randn(5, 3),))
    assert model.training and model[1].training and not model[2].training
    assert all(value.equal(before[name]) for name, value in model.state_dict().items())
    assert pending.tolist() == [2.0, 2.0, 2.0]
    assert not weft.onnx.is_in_onnx_export()
    assert model[0].weight.grad is None and model[0].weight.requires_grad


def test_sizes_that_are_tried_take_no_memory() -> None:
    """The calls behind the first are of some hundred examples of 2 GB each: recorded, never made."""
    model = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
    x = weft.zeros(1).expand(1, 8, 8192, 8192)
    program = weft.onnx.export(model, (x,), input_names=["x"], dynamic_axes={"x": {0: "batch"}})
    given = weft.randn(3, 8, 8192 // 1024, 8192 // 1024)
    shape = program.model_proto.graph.output[0].type.tensor_type.shape.dim
    assert [size.dim_param or size.dim_value for size in shape] == ["batch", 8, 4096, 4096]
    assert model(given).shape == (3, 8, 4, 4)


class _Keeping(nn.Module):
    """Keeps what it has seen, as attention does with its weights, and counts its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.seen = nn.Linear(3, 3), weft.zeros(0)
        self.register_buffer("calls", weft.zeros(()))
        self.register_buffer("mean", weft.zeros(3))

    def forward(self, x: Any) -> Any:
        self.seen = self.linear(x).view(-1)
        self.calls += 1
        self.mean = self.mean * 0.5 + x.detach().mean(0)
        return self.seen.relu()


@pytest.mark.parametrize("axes", [{}, {"x": {0: "batch"}}], ids=["fixed", "dynamic"])
def test_what_a_model_keeps_of_the_call_never_runs(axes: dict[str, Any]) -> None:
    """It says so where it is read; buffers are as before; the next call keeps values again."""
    model = _Keeping()
    for function in (model, lambda x: model(x)):
        weft.onnx.export(function, (weft.randn(5, 3),), dynamic_axes=axes)
        for read in (lambda: model.seen, lambda: model.seen * 2, lambda: model.seen.view(-1, 3)):
            with pytest.raises(weft.onnx.OnnxExporterError, match="read after the export") as told:
                read().tolist()
            assert told.value.fix == "call the model again: it records the value anew"
        assert model.calls.item() == 0
        assert model.mean.tolist() == [0.0, 0.0, 0.0]
        assert weft.ones(2).add(1).tolist() == [2.0, 2.0]  # what is pending afterwards runs
    x = weft.ones(1, 3)
    model(x)
    assert model.seen.equal(model.linear(x).view(-1))
    assert model.calls.item() == 1


def test_statistics_are_as_before_in_training_mode() -> None:
    norm = nn.BatchNorm1d(3)
    mode = weft.onnx.TrainingMode.TRAINING
    weft.onnx.export(
        norm, (weft.randn(5, 3),), training=mode, input_names=["x"], dynamic_axes={"x": {0: "n"}}
    )
    assert norm.num_batches_tracked.item() == 0
    assert norm.running_mean.tolist() == [0.0, 0.0, 0.0]
