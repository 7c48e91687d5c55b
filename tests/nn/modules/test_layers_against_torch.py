"""Layers give PyTorch's outputs, gradients and printed form for the same weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from oracle import torch
from weft import nn

# name, arguments, options, shapes of the inputs ("i:n" marks integers below n)
LAYERS = [
    ("Identity", (), {}, [(2, 3)]),
    ("Linear", (4, 3), {}, [(5, 4)]),
    ("Linear", (4, 3), {"bias": False}, [(2, 5, 4)]),
    ("Bilinear", (3, 4, 5), {}, [(2, 3), (2, 4)]),
    ("Embedding", (7, 3), {}, [("i:7", 2, 4)]),
    ("Embedding", (7, 3), {"padding_idx": -2}, [("i:7", 2, 4)]),
    ("Conv1d", (4, 6, 3), {}, [(2, 4, 9)]),
    ("Conv2d", (2, 4, 3), {}, [(2, 2, 6, 7)]),
    ("Conv2d", (4, 4, (3, 2)), {"stride": 2, "padding": (1, 2), "groups": 2}, [(2, 4, 6, 7)]),
    ("Conv2d", (2, 3, 3), {"padding": "same", "dilation": 2, "bias": False}, [(1, 2, 7, 7)]),
    ("MaxPool2d", (2,), {}, [(2, 3, 6, 6)]),
    ("MaxPool2d", (3,), {"stride": 2, "padding": 1}, [(2, 3, 7, 6)]),
    ("AvgPool2d", (2,), {}, [(2, 3, 6, 6)]),
    ("AvgPool2d", (3,), {"stride": 2, "padding": 1, "count_include_pad": False}, [(2, 3, 7, 7)]),
    ("AdaptiveAvgPool2d", (1,), {}, [(2, 3, 6, 6)]),
    ("AdaptiveAvgPool2d", ((2, 3),), {}, [(2, 3, 6, 6)]),
    ("LayerNorm", (6,), {}, [(4, 6)]),
    ("LayerNorm", ((3, 6),), {"eps": 1e-3, "bias": False}, [(4, 3, 6)]),
    ("LayerNorm", (6,), {"elementwise_affine": False}, [(4, 6)]),
    ("RMSNorm", (6,), {"eps": 1e-5}, [(4, 6)]),
    ("GroupNorm", (2, 6), {}, [(3, 6, 5)]),
    ("BatchNorm1d", (5,), {}, [(8, 5)]),
    ("BatchNorm1d", (5,), {"momentum": None}, [(8, 5, 3)]),
    ("BatchNorm2d", (3,), {"affine": False, "track_running_stats": False}, [(4, 3, 5, 5)]),
    ("BatchNorm2d", (3,), {"momentum": 0.3, "eps": 1e-3}, [(4, 3, 5, 5)]),
    ("Dropout", (0.0,), {}, [(3, 4)]),
    ("Flatten", (), {}, [(2, 3, 4)]),
    ("Unflatten", (1, (2, 3)), {}, [(2, 6)]),
    ("ReLU", (), {}, [(3, 4)]),
    ("ReLU6", (), {}, [(3, 4)]),
    ("GELU", (), {}, [(3, 4)]),
    ("GELU", (), {"approximate": "tanh"}, [(3, 4)]),
    ("SiLU", (), {}, [(3, 4)]),
    ("Mish", (), {}, [(3, 4)]),
    ("SELU", (), {}, [(3, 4)]),
    ("ELU", (0.5,), {}, [(3, 4)]),
    ("LeakyReLU", (0.2,), {}, [(3, 4)]),
    ("Hardtanh", (-0.5, 0.7), {}, [(3, 4)]),
    ("Hardswish", (), {}, [(3, 4)]),
    ("Hardsigmoid", (), {}, [(3, 4)]),
    ("Softplus", (2.0, 1.0), {}, [(3, 4)]),
    ("Sigmoid", (), {}, [(3, 4)]),
    ("LogSigmoid", (), {}, [(3, 4)]),
    ("Tanh", (), {}, [(3, 4)]),
    ("Tanhshrink", (), {}, [(3, 4)]),
    ("Softsign", (), {}, [(3, 4)]),
    ("Softmax", (1,), {}, [(3, 4)]),
    ("LogSoftmax", (-1,), {}, [(3, 4)]),
    ("Softmin", (0,), {}, [(3, 4)]),
    ("GLU", (), {}, [(3, 4)]),
    ("RNNCell", (4, 3), {}, [(2, 4), (2, 3)]),
    ("RNNCell", (4, 3), {"nonlinearity": "relu", "bias": False}, [(2, 4)]),
    ("GRUCell", (4, 3), {}, [(2, 4), (2, 3)]),
    ("GRUCell", (4, 3), {}, [(4,)]),
    ("LSTMCell", (4, 3), {}, [(2, 4)]),
]


def identify(case: tuple) -> str:
    name, arguments, options, _ = case
    return f"{name}{arguments}{options or ''}"


def make_inputs(shapes: list) -> list[np.ndarray]:
    random = np.random.default_rng(5)
    made = []
    for shape in shapes:
        if isinstance(shape[0], str):
            made.append(random.integers(0, int(shape[0][2:]), shape[1:]))
        else:
            made.append((2 * random.standard_normal(shape)).astype(np.float32))
    return made


def copy_weights(layer: nn.Module, oracle: torch.nn.Module) -> None:
    state = {name: weft.tensor(value.numpy()) for name, value in oracle.state_dict().items()}
    layer.load_state_dict(state)


def run(library, layer, arrays: list[np.ndarray]) -> tuple:
    """The output, and the gradients of its sum of squares for inputs and parameters."""
    inputs = [library.tensor(a, requires_grad=a.dtype.kind == "f") for a in arrays]
    out = layer(*inputs)
    out = out[0] + out[1] if isinstance(out, tuple) else out
    if out.requires_grad:
        (out * out).sum().backward()
    gradients = [x.grad for x in inputs] + [p.grad for p in layer.parameters()]
    return out.detach().numpy(), [None if g is None else g.numpy() for g in gradients]


@pytest.mark.parametrize("case", LAYERS, ids=identify)
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_outputs_and_gradients_agree(case: tuple, training: bool) -> None:
    name, arguments, options, shapes = case
    layer = getattr(nn, name)(*arguments, **options).train(training)
    oracle = getattr(torch.nn, name)(*arguments, **options).train(training)
    copy_weights(layer, oracle)
    arrays = make_inputs(shapes)
    out, gradients = run(weft, layer, arrays)
    expected, expected_gradients = run(torch, oracle, arrays)
    np.testing.assert_allclose(out, expected, rtol=2e-4, atol=2e-5)
    for ours, theirs in zip(gradients, expected_gradients, strict=True):
        assert (ours is None) == (theirs is None)
        if ours is not None:
            np.testing.assert_allclose(ours, theirs, rtol=5e-4, atol=1e-4)
    for key, value in oracle.state_dict().items():  # running statistics moved alike
        np.testing.assert_allclose(layer.state_dict()[key].numpy(), value.numpy(), rtol=1e-4)


@pytest.mark.parametrize("case", LAYERS, ids=identify)
def test_names_shapes_and_printed_form_agree(case: tuple) -> None:
    name, arguments, options, _ = case
    layer = getattr(nn, name)(*arguments, **options)
    oracle = getattr(torch.nn, name)(*arguments, **options)
    assert repr(layer) == repr(oracle)
    ours = {key: tuple(value.shape) for key, value in layer.state_dict().items()}
    assert ours == {key: tuple(value.shape) for key, value in oracle.state_dict().items()}


LOSSES = [
    ("MSELoss", {}, "pair"),
    ("L1Loss", {}, "pair"),
    ("SmoothL1Loss", {"beta": 0.5}, "pair"),
    ("HuberLoss", {"delta": 0.7}, "pair"),
    ("KLDivLoss", {}, "distributions"),
    ("BCELoss", {}, "distributions"),
    ("BCEWithLogitsLoss", {}, "chances"),
    ("NLLLoss", {}, "classes"),
    ("CrossEntropyLoss", {}, "classes"),
    ("CrossEntropyLoss", {"label_smoothing": 0.1, "ignore_index": 1}, "classes"),
    ("CrossEntropyLoss", {}, "soft classes"),
]


def make_pair(kind: str) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(2)
    scores = random.standard_normal((6, 4)).astype(np.float32)
    chances = 1 / (1 + np.exp(-random.standard_normal((6, 4)))).astype(np.float32)
    chances = chances.astype(np.float32)
    other = random.standard_normal((6, 4)).astype(np.float32)
    soft = (chances / chances.sum(1, keepdims=True)).astype(np.float32)
    return {
        "pair": (scores, other),
        "distributions": (chances, soft),
        "chances": (scores, chances),
        "classes": (scores, random.integers(0, 4, 6)),
        "soft classes": (scores, soft),
    }[kind]


@pytest.mark.parametrize(("name", "options", "kind"), LOSSES)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.filterwarnings("ignore:reduction. 'mean' divides:UserWarning")
def test_losses_agree(name: str, options: dict, kind: str, reduction: str) -> None:
    scores, target = make_pair(kind)
    results = []
    for library, module in ((weft, nn), (torch, torch.nn)):
        x = library.tensor(scores, requires_grad=True)
        loss = getattr(module, name)(reduction=reduction, **options)(x, library.tensor(target))
        loss.sum().backward()
        results.append((loss.detach().numpy(), x.grad.numpy()))
    np.testing.assert_allclose(results[0][0], results[1][0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(results[0][1], results[1][1], rtol=1e-4, atol=1e-5)


def test_weighted_losses_agree() -> None:
    scores, target = make_pair("classes")
    weight = np.array([0.5, 1.0, 2.0, 4.0], dtype=np.float32)
    values = [
        float(
            module.CrossEntropyLoss(weight=lib.tensor(weight))(
                lib.tensor(scores), lib.tensor(target)
            )
        )
        for lib, module in ((weft, nn), (torch, torch.nn))
    ]
    assert values[0] == pytest.approx(values[1], rel=1e-5)


INITIALISERS = [
    ("uniform_", {"a": -2.0, "b": 1.0}),
    ("normal_", {"mean": 1.0, "std": 3.0}),
    ("trunc_normal_", {"std": 0.5, "a": -0.6, "b": 0.8}),
    ("xavier_uniform_", {"gain": 2.0}),
    ("xavier_normal_", {}),
    ("kaiming_uniform_", {"a": 0.2, "nonlinearity": "leaky_relu"}),
    ("kaiming_normal_", {"mode": "fan_out", "nonlinearity": "relu"}),
    ("orthogonal_", {"gain": 1.5}),
]


@pytest.mark.parametrize(("name", "options"), INITIALISERS)
def test_initialisers_draw_from_the_same_distribution(name: str, options: dict) -> None:
    weft.manual_seed(0)
    torch.manual_seed(0)
    ours = getattr(nn.init, name)(weft.empty(120, 90), **options).numpy()
    theirs = getattr(torch.nn.init, name)(torch.empty(120, 90), **options).numpy()
    spread = float(theirs.std())
    assert ours.mean() == pytest.approx(float(theirs.mean()), abs=0.05 * spread + 1e-3)
    assert ours.std() == pytest.approx(spread, rel=0.05)
    levels = [0.01, 0.1, 0.5, 0.9, 0.99]
    np.testing.assert_allclose(
        np.quantile(ours, levels), np.quantile(theirs, levels), atol=0.12 * spread
    )
    assert np.abs(ours).max() <= 1.3 * np.abs(theirs).max()


def test_orthogonal_columns_are_orthonormal() -> None:
    weft.manual_seed(1)
    q = nn.init.orthogonal_(weft.empty(8, 5)).numpy()
    np.testing.assert_allclose(q.T @ q, np.eye(5), atol=1e-5)


def test_gains_agree() -> None:
    for name in ("linear", "conv2d", "sigmoid", "tanh", "relu", "leaky_relu", "selu"):
        assert nn.init.calculate_gain(name) == torch.nn.init.calculate_gain(name)
    assert nn.init.calculate_gain("leaky_relu", 0.3) == torch.nn.init.calculate_gain(
        "leaky_relu", 0.3
    )


@pytest.mark.parametrize("norm_type", [2.0, 1.0, 3.0, float("inf")])
def test_clipping_the_norm_agrees(norm_type: float) -> None:
    arrays = make_inputs([(3, 4), (5,)])
    norms, clipped = [], []
    for library, module in ((weft, nn), (torch, torch.nn)):
        parameters = [library.zeros(a.shape, requires_grad=True) for a in arrays]
        for parameter, array in zip(parameters, arrays, strict=True):
            parameter.grad = library.tensor(array)
        norms.append(float(module.utils.clip_grad_norm_(parameters, 0.7, norm_type)))
        clipped.append([p.grad.numpy() for p in parameters])
        module.utils.clip_grad_value_(parameters, 0.05)
        clipped[-1] += [p.grad.numpy() for p in parameters]
    assert norms[0] == pytest.approx(norms[1], rel=1e-5)
    for ours, theirs in zip(*clipped, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("order", [1, 2.0, float("inf")])
def test_a_norm_that_is_not_finite_is_named_by_its_order(lib: Any, order: float) -> None:
    weight = lib.nn.Parameter(lib.ones(2))
    weight.grad = lib.tensor([1.0, float("inf")])
    with pytest.raises(
        RuntimeError, match=f"^The total norm of order {float(order)} for gradients"
    ):
        lib.nn.utils.clip_grad_norm_([weight], 1.0, order, error_if_nonfinite=True)
    assert weight.grad.tolist() == [1.0, float("inf")]
