"""Activations, norms, losses, lookups and padding against PyTorch, kinks and types included."""

from __future__ import annotations

import math
from inspect import ismodule
from typing import Any

import numpy as np
import pytest

import weft
from functional_oracle import compare, make, torch

F = weft.nn.functional
KINKS = np.array([-30.0, -7, -6, -3, -2, -1, -0.5, 0, 0.5, 1, 2, 3, 6, 7, 30, 100])
ACTIVATIONS = [
    "relu",
    "gelu",
    "silu",
    "sigmoid",
    "tanh",
    "softplus",
    "elu",
    "leaky_relu",
    "hardtanh",
    "relu6",
    "selu",
    "celu",
    "hardsigmoid",
    "hardswish",
    "logsigmoid",
    "softsign",
    "tanhshrink",
    "softshrink",
    "hardshrink",
    "mish",
]


def double(*shape: int, seed: int = 0) -> Any:
    return make(*shape, dtype="float64", seed=seed)


@pytest.mark.parametrize("dtype", ("float64", "float32", "float16", "int64"))
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation(name: str, dtype: str) -> None:
    tolerance = {"float16": 6e-3, "float64": 1e-8}.get(dtype, 3e-5)
    compare(
        lambda lib, x: getattr(lib.nn.functional, name)(x), KINKS.astype(dtype), tolerance=tolerance
    )


OPTIONS: dict[str, Any] = {
    "gelu tanh": lambda f, x: f.gelu(x, approximate="tanh"),
    "gelu bad": lambda f, x: f.gelu(x, approximate="x"),
    "elu": lambda f, x: f.elu(x, 0.5),
    "softplus": lambda f, x: f.softplus(x, 2, 5),
    "threshold": lambda f, x: f.threshold(x, 0.5, 3.0),
    "celu": lambda f, x: f.celu(x, 2.0),
    "hardtanh": lambda f, x: f.hardtanh(x, -3, 2),
    "leaky_relu": lambda f, x: f.leaky_relu(x, 0.3),
    "relu_": lambda f, x: f.relu_(x * 1),
    "silu in place": lambda f, x: f.silu(x * 1, inplace=True),
    "elu in place": lambda f, x: f.elu(x * 1, inplace=True),
    "glu": lambda f, x: f.glu(x, 0),
    "glu odd": lambda f, x: f.glu(x[1:], 0),
    "softmin": lambda f, x: f.softmin(x, 0),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_activation_options(name: str) -> None:
    compare(lambda lib, x: OPTIONS[name](lib.nn.functional, x), KINKS)


def test_prelu() -> None:
    compare(lambda lib, x, w: lib.nn.functional.prelu(x, w), double(3, 4), double(4))
    compare(lambda lib, x, w: lib.nn.functional.prelu(x, w), KINKS, double(1))


@pytest.mark.parametrize("dtype", ("float32", "float64", "float16", "bfloat16", "int64"))
@pytest.mark.parametrize("name", ("softmax", "log_softmax"))
def test_softmax(name: str, dtype: str) -> None:
    x = make(3, 4, dtype="float32" if dtype == "bfloat16" else dtype)
    tolerance = {"float16": 5e-3, "bfloat16": 3e-2}.get(dtype)
    for dim in (0, 1, -1, 2):
        compare(
            lambda lib, x, d=dim: getattr(lib, name)(x.to(getattr(lib, dtype)), d),
            x,
            tolerance=tolerance,
        )


@pytest.mark.parametrize("name", ("softmax", "log_softmax"))
def test_softmax_edges(name: str) -> None:
    compare(lambda lib, x: getattr(lib, name)(x, 0, dtype=lib.float64), make(3, 4, dtype="int64"))
    compare(lambda lib, x: getattr(x, name)(-1), make())
    compare(lambda lib, x: getattr(x.t(), name)(0), make(3, 4))
    compare(lambda lib, x: getattr(x * 1000, name)(1), make(3, 4))
    compare(lambda lib, x: getattr(x * 0 - float("inf"), name)(1), make(3, 4))
    compare(lambda lib, x: getattr(lib.where(x > 0, x, -float("inf")), name)(1), make(3, 8))
    compare(lambda lib, x: getattr(x, name)(1), make(3, 0))


def test_second_derivative_of_softmax() -> None:
    def second(lib: Any, x: Any) -> Any:
        y = (lib.softmax(x, 1) ** 2).sum()
        (g,) = lib.autograd.grad(y, x, create_graph=True)
        return g, (g**2).sum()

    compare(second, double(3, 4))


LOOKUP = np.array([[0, 2], [2, 1]])


@pytest.mark.parametrize("padding", (None, 2, -2, 9))
def test_embedding(padding: int | None) -> None:
    if padding == 9:
        with pytest.raises(ValueError, match="Padding_idx must be within num_embeddings"):
            F.embedding(weft.tensor([0]), weft.zeros(4, 3), padding_idx=9)
        return
    compare(
        lambda lib, i, w: lib.nn.functional.embedding(i, w, padding_idx=padding),
        LOOKUP,
        double(4, 3),
    )


def test_embedding_outside() -> None:
    compare(lambda lib, i, w: lib.nn.functional.embedding(i, w), LOOKUP.astype(float), double(4, 3))
    with pytest.raises(IndexError):
        F.embedding(weft.tensor([0, 9]), weft.zeros(4, 3)).tolist()


@pytest.mark.parametrize("dtype", ("float32", "float64", "float16"))
@pytest.mark.parametrize("shape", ((4,), (3, 4)))
def test_layer_norm(shape: tuple[int, ...], dtype: str) -> None:
    tolerance = {"float16": 2e-2, "float32": 3e-4}.get(dtype, 1e-8)
    arrays = [make(2, 3, 4, dtype=dtype), *(make(*shape, dtype=dtype, seed=s) for s in (2, 3))]
    compare(
        lambda lib, x, w, b: lib.nn.functional.layer_norm(x, shape, w, b),
        *arrays,
        tolerance=tolerance,
    )
    compare(
        lambda lib, x, w, b: lib.nn.functional.rms_norm(x, shape, w), *arrays, tolerance=tolerance
    )


def test_layer_norm_edges() -> None:
    compare(lambda lib, x: lib.nn.functional.layer_norm(x, (4,)), double(2, 3, 4))
    compare(lambda lib, x: lib.nn.functional.layer_norm(x, (5,)), double(2, 3, 4))
    compare(lambda lib, x: lib.nn.functional.layer_norm(x * 0 + 1, (4,)), double(2, 3, 4))
    compare(lambda lib, x: lib.nn.functional.rms_norm(x, (4,), eps=1e-3), double(2, 3, 4))


def test_second_derivative_of_layer_norm() -> None:
    def second(lib: Any, x: Any) -> Any:
        y = lib.nn.functional.layer_norm(x, (4,)).pow(3).sum()
        (g,) = lib.autograd.grad(y, x, create_graph=True)
        return g, (g**2).sum()

    compare(second, double(3, 4))


@pytest.mark.parametrize("shape", ((5, 3), (5, 3, 4), (5, 3, 4, 2)))
def test_batch_norm(shape: tuple[int, ...]) -> None:
    def training(lib: Any, x: Any, w: Any, b: Any, m: Any, v: Any) -> Any:
        m, v = m.detach().clone(), v.detach().clone()
        return lib.nn.functional.batch_norm(x, m, v, w, b, training=True, momentum=0.3), m, v

    def evaluation(lib: Any, x: Any, w: Any, b: Any, m: Any, v: Any) -> Any:
        return lib.nn.functional.batch_norm(x, m.detach(), v.detach(), w, b)

    arrays = (
        double(*shape),
        double(3),
        double(3, seed=2),
        double(3, seed=4),
        np.abs(double(3, seed=5)),
    )
    compare(training, *arrays)
    compare(evaluation, *arrays)
    compare(
        lambda lib, x: lib.nn.functional.batch_norm(x, None, None, training=True), double(*shape)
    )
    if len(shape) > 2:
        compare(lambda lib, x: lib.nn.functional.instance_norm(x), double(*shape))
        groups = (double(5, 4, *shape[2:]), double(4), double(4, seed=2))
        compare(lambda lib, x, w, b: lib.nn.functional.group_norm(x, 2, w, b), *groups)


def test_batch_norm_edges() -> None:
    compare(lambda lib, x: lib.nn.functional.batch_norm(x, None, None, training=True), double(1, 3))
    compare(lambda lib, x, m: lib.nn.functional.batch_norm(x, m, m), double(2, 3), double(4))
    compare(lambda lib, x: lib.nn.functional.group_norm(x, 2), double(2, 3, 4))


CLASSES = np.array([0, 2, 1, 3, 2])


@pytest.mark.parametrize("reduction", ("mean", "sum", "none"))
@pytest.mark.parametrize("weighted", (False, True))
@pytest.mark.parametrize("smoothing", (0.0, 0.2))
@pytest.mark.parametrize("ignored", (-100, 2))
def test_cross_entropy(reduction: str, weighted: bool, smoothing: float, ignored: int) -> None:
    weights = [np.abs(double(4, seed=5))] if weighted else []

    def loss(lib: Any, x: Any, t: Any, *w: Any) -> Any:
        return lib.nn.functional.cross_entropy(
            x,
            t,
            *(i.detach() for i in w),
            reduction=reduction,
            label_smoothing=smoothing,
            ignore_index=ignored,
        )

    compare(loss, double(5, 4), CLASSES, *weights)
    compare(loss, double(2, 4, 3), np.array([[0, 1, 2], [3, ignored, 1]]), *weights)
    compare(
        lambda lib, x, t, *w: loss(lib, x, t.softmax(1), *w),
        double(5, 4),
        double(5, 4, seed=3),
        *weights,
    )
    compare(
        lambda lib, x, t, *w: lib.nn.functional.nll_loss(
            x, t, *(i.detach() for i in w), reduction=reduction, ignore_index=ignored
        ),
        double(5, 4),
        CLASSES,
        *weights,
    )


EDGES: dict[str, tuple[Any, ...]] = {
    "one example": (double(4), np.array(2)),
    "all ignored": (double(2, 4), np.array([-100, -100])),
    "class too large": (double(2, 4), np.array([0, 4])),
    "class negative": (double(2, 4), np.array([0, -1])),
    "batch": (double(2, 4), np.array([0, 1, 2])),
    "half": (make(2, 4, dtype="float16"), np.array([0, 1])),
}


@pytest.mark.parametrize("name", EDGES)
def test_cross_entropy_edges(name: str) -> None:
    compare(
        lambda lib, x, t: lib.nn.functional.cross_entropy(x, t),
        *EDGES[name],
        tolerance=5e-3 if name == "half" else None,
    )


PAIRS = (
    "mse_loss",
    "l1_loss",
    "smooth_l1_loss",
    "huber_loss",
    "kl_div",
    "binary_cross_entropy_with_logits",
    "binary_cross_entropy",
)


@pytest.mark.filterwarnings("ignore:.*reduction. 'mean' divides")
@pytest.mark.parametrize("reduction", ("mean", "sum", "none", "x"))
@pytest.mark.parametrize("name", PAIRS)
def test_loss_of_pairs(name: str, reduction: str) -> None:
    x, y = double(3, 4), double(3, 4, seed=2)
    if name == "binary_cross_entropy":
        x = np.abs(x) / 2
    if name.startswith(("binary", "kl")):
        y = np.abs(y) / 2
    compare(lambda lib, x, y: getattr(lib.nn.functional, name)(x, y, reduction=reduction), x, y)


@pytest.mark.filterwarnings("ignore:Using a target size", "ignore:.*reduction. 'mean' divides")
@pytest.mark.parametrize("name", PAIRS)
def test_loss_of_different_sizes(name: str) -> None:
    for size in (4, 5):
        compare(
            lambda lib, x, y: getattr(lib.nn.functional, name)(x, y),
            np.abs(double(3, 4)) / 2,
            np.abs(double(size)) / 2,
        )


LOSSES: dict[str, tuple[Any, ...]] = {
    "bce edges": (
        lambda f, x, y: f.binary_cross_entropy(x, y.detach(), reduction="none"),
        np.array([0.0, 1, 0, 1, 0.5]),
        np.array([0.0, 1, 1, 0, 0.5]),
    ),
    "bce logits edges": (
        lambda f, x, y: f.binary_cross_entropy_with_logits(x, y.detach(), reduction="none"),
        np.array([0.0, 1000, -1000, 1, 0.5]),
        np.array([0.0, 1, 1, 0, 0.5]),
    ),
    "pos_weight": (
        lambda f, x, y, w: f.binary_cross_entropy_with_logits(x, y.detach(), pos_weight=w.detach()),
        double(3, 4),
        np.abs(double(3, 4)),
        np.abs(double(4)),
    ),
    "bce weight": (
        lambda f, x, y: f.binary_cross_entropy(x, y.detach(), weight=y.detach()),
        np.abs(double(3, 4)) / 2,
        np.abs(double(3, 4)) / 2,
    ),
    "kl batchmean": (
        lambda f, x, y: f.kl_div(x, y, reduction="batchmean", log_target=True),
        double(3, 4),
        double(3, 4, seed=3),
    ),
    "smooth_l1 beta": (
        lambda f, x, y: f.smooth_l1_loss(x, y, beta=0.3),
        double(3, 4),
        double(3, 4, seed=3),
    ),
    "smooth_l1 0": (
        lambda f, x, y: f.smooth_l1_loss(x, y, beta=0),
        double(3, 4),
        double(3, 4, seed=3),
    ),
    "huber delta": (
        lambda f, x, y: f.huber_loss(x, y, delta=0.7),
        double(3, 4),
        double(3, 4, seed=3),
    ),
    "normalize": (lambda f, x: f.normalize(x), double(3, 4)),
    "normalize 0": (lambda f, x: f.normalize(x * 0), double(3, 4)),
    "normalize 1": (lambda f, x: f.normalize(x, p=1, dim=0), double(3, 4)),
    "cosine": (lambda f, x, y: f.cosine_similarity(x, y), double(3, 4), double(3, 4, seed=3)),
    "cosine 0": (
        lambda f, x, y: f.cosine_similarity(x * 0, y, dim=0),
        double(3, 4),
        double(3, 4, seed=3),
    ),
    "cosine broadcast": (
        lambda f, x, y: f.cosine_similarity(x, y, dim=-1),
        double(3, 4),
        double(4, seed=3),
    ),
    "pairwise": (lambda f, x, y: f.pairwise_distance(x, y), double(3, 4), double(3, 4, seed=3)),
    "triplet": (
        lambda f, x, y, z: f.triplet_margin_loss(x, y, z, swap=True),
        double(3, 4),
        double(3, 4, seed=3),
        double(3, 4, seed=4),
    ),
    "gaussian": (
        lambda f, x, y, z: f.gaussian_nll_loss(x, y, z.abs(), full=True),
        double(3, 4),
        double(3, 4, seed=3),
        double(3, 4, seed=4),
    ),
    "ranking": (
        lambda f, x, y, z: f.margin_ranking_loss(x, y, z.detach().sign(), margin=0.3),
        double(3),
        double(3, seed=3),
        double(3, seed=4),
    ),
    "cosine embedding": (
        lambda f, x, y, z: f.cosine_embedding_loss(x, y, z.detach().sign(), margin=0.1),
        double(3, 4),
        double(3, 4, seed=3),
        double(3, seed=4),
    ),
    "bilinear": (
        lambda f, x, y, w, b: f.bilinear(x, y, w, b),
        double(5, 2),
        double(5, 3),
        double(4, 2, 3),
        double(4),
    ),
}


@pytest.mark.parametrize("name", LOSSES)
def test_losses(name: str) -> None:
    function, *arrays = LOSSES[name]
    compare(lambda lib, *tensors: function(lib.nn.functional, *tensors), *arrays)


@pytest.mark.parametrize(
    "widths", ((1, 2), (1, 2, 3, 0), (0, 0, 1, 1), (-1, 1), (-1, -1), (0, 0, -2, 0), (1,), (-9, 0))
)
def test_constant_padding(widths: tuple[int, ...]) -> None:
    compare(lambda lib, x: lib.nn.functional.pad(x, widths, value=2.0), double(2, 3, 4))


@pytest.mark.parametrize("mode", ("reflect", "replicate", "circular", "odd"))
def test_other_padding(mode: str) -> None:
    compare(lambda lib, x: lib.nn.functional.pad(x, (1, 2), mode=mode), double(2, 3, 4))
    if mode != "odd":
        compare(
            lambda lib, x: lib.nn.functional.pad(x, (1, 2, 2, 1), mode=mode), double(2, 2, 3, 4)
        )


def test_dropout_scales_and_keeps_its_mask_for_the_gradient() -> None:
    weft.manual_seed(0)
    x = weft.ones(1000, requires_grad=True)
    y = F.dropout(x, 0.25)
    values = y.detach().numpy()
    assert set(np.unique(values)) == {np.float32(0), np.float32(1 / 0.75)}
    assert 0.2 < (values == 0).mean() < 0.3
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), values)
    assert F.dropout(x, 0.5, training=False) is x
    assert not F.dropout(x, 1.0).any()
    with pytest.raises(
        ValueError, match="dropout probability has to be between 0 and 1, but got 2"
    ):
        F.dropout(x, 2)
    channels = F.dropout2d(weft.ones(50, 4, 3, 3), 0.5).numpy().reshape(200, 9)
    assert ((channels == 0).all(1) | (channels == 2).all(1)).all()


@pytest.mark.parametrize("target", (2, -100, 4))
@pytest.mark.parametrize("weighted", (False, True))
def test_cross_entropy_of_one_example(target: int, weighted: bool) -> None:
    weights = [np.abs(double(4, seed=5))] if weighted else []
    for x, t in (
        (double(4), np.array(target)),
        (double(1, 4), np.array([target])),
        (double(1, 4, 1), np.array([[target]])),
    ):
        compare(
            lambda lib, x, t, *w: lib.nn.functional.cross_entropy(x, t, *(i.detach() for i in w)),
            x,
            t,
            *weights,
        )


def test_the_module_of_functions_shows_nothing_else() -> None:
    shown = {
        name for name, one in vars(F).items() if not name.startswith("_") and not ismodule(one)
    }
    assert shown <= set(vars(torch.nn.functional))
    assert all(callable(getattr(F, name)) or isinstance(getattr(F, name), dict) for name in shown)


def test_second_derivatives_of_the_logistic_loss_hold_at_zero() -> None:
    """A head that begins at zero gives logits of zero: the curvature there is 1/4."""
    x = weft.zeros(3, dtype=weft.float64, requires_grad=True)
    targets = weft.tensor([0.0, 1.0, 0.3], dtype=weft.float64)
    for loss in (
        F.binary_cross_entropy_with_logits(x, targets, reduction="sum"),
        -F.logsigmoid(x).sum(),
    ):
        (slope,) = weft.autograd.grad(loss, x, create_graph=True)
        (curvature,) = weft.autograd.grad(slope.sum(), x)
        assert curvature.tolist() == [0.25] * 3


@pytest.mark.parametrize("loss", [F.huber_loss, F.smooth_l1_loss])
def test_losses_that_grow_straight_have_slopes_at_infinity(loss: Any) -> None:
    x = weft.tensor([math.inf, -math.inf, 0.5], requires_grad=True)
    loss(x, weft.zeros(3), reduction="sum").backward()
    assert x.grad.tolist() == [1.0, -1.0, 0.5]
