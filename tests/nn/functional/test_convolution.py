"""Convolution, pooling, interpolation and attention against PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from functional_oracle import compare, make
from weft.debug import stages


def double(*shape: int, seed: int = 0) -> Any:
    return make(*shape, dtype="float64", seed=seed)


CONVOLUTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"stride": 2},
    {"padding": 1},
    {"padding": "same"},
    {"padding": "valid"},
    {"dilation": 2},
    {"groups": 2},
    {"stride": 2, "padding": 2, "dilation": 2, "groups": 2},
    {"padding": "same", "stride": 2},
    {"stride": 0},
    {"padding": "odd"},
    {"groups": 3},
)
DIMENSIONS = {1: (9,), 2: (7, 8), 3: (5, 6, 5)}


@pytest.mark.filterwarnings("ignore:Using padding='same'")
@pytest.mark.parametrize("options", CONVOLUTIONS, ids=str)
@pytest.mark.parametrize("spatial", (1, 2, 3))
def test_convolution(spatial: int, options: dict[str, Any]) -> None:
    groups = 2 if options.get("groups") == 2 else 1
    x, w = double(2, 4, *DIMENSIONS[spatial]), double(6, 4 // groups, *(3, 2, 2)[:spatial], seed=1)
    compare(
        lambda lib, x, w, b: getattr(lib.nn.functional, f"conv{spatial}d")(x, w, b, **options),
        x,
        w,
        double(6),
        strides=False,
    )


@pytest.mark.parametrize("options", ({}, {"stride": 2, "padding": 1}, {"groups": 4}), ids=str)
@pytest.mark.parametrize("size", (8, 40))
def test_one_example_is_a_row_of_a_batch(size: int, options: dict[str, Any]) -> None:
    """A small one may run with others of its kind, a large one has the gradient record of a batch."""
    x = make(3, 8, size, size, dtype="float32")
    w, b = make(4, 8 // options.get("groups", 1), 3, 3, dtype="float32", seed=1), make(4, seed=2)

    def convolved(lib: Any, x: Any, w: Any, b: Any) -> Any:
        return lib.nn.functional.conv2d(x, w, b.to(x.dtype), **options)

    compare(convolved, double(1, 8, size, size), w.astype("float64"), double(4), strides=False)
    x, w, b = (weft.from_numpy(array) for array in (x, w, b.astype("float32")))
    whole = convolved(weft, x, w, b)
    one = x[1:2].clone().requires_grad_()
    assert weft.equal(convolved(weft, one, w, b)[0], whole[1])
    recorded = stages(lambda: convolved(weft, one, w, b).sum().backward())["record"]
    assert ("unfold" in recorded) == (size == 40)  # backwards a convolution, too


def test_convolution_edges() -> None:
    conv = "conv2d"
    compare(
        lambda lib, x, w: getattr(lib.nn.functional, conv)(x, w),
        double(4, 7, 8),
        double(6, 4, 3, 3),
    )
    compare(
        lambda lib, x, w: getattr(lib.nn.functional, conv)(x, w),
        double(2, 4, 7, 8),
        double(6, 4, 1, 1),
    )
    compare(
        lambda lib, x, w: getattr(lib.nn.functional, conv)(x, w, stride=(2, 1), padding=(1, 0)),
        double(2, 4, 7, 8),
        double(6, 4, 3, 3),
    )
    compare(
        lambda lib, x, w: getattr(lib.nn.functional, conv)(x, w),
        double(2, 3, 7, 8),
        double(6, 4, 3, 3),
    )
    compare(
        lambda lib, x, w: getattr(lib.nn.functional, conv)(x, w),
        double(2, 4, 2, 2),
        double(6, 4, 3, 3),
    )
    compare(
        lambda lib, x, w: getattr(lib.nn.functional, conv)(x, w), double(7, 8), double(6, 4, 3, 3)
    )
    compare(
        lambda lib, x, w, b: getattr(lib.nn.functional, conv)(x, w, b),
        double(1, 4, 5, 5),
        double(6, 4, 3, 3),
        double(5),
    )
    compare(
        lambda lib, x, w: getattr(lib.nn.functional, conv)(x, w),
        make(1, 4, 5, 5),
        double(6, 4, 3, 3),
    )
    compare(
        lambda lib, x, w: getattr(lib.nn.functional, conv)(x, w),
        make(1, 4, 5, 5),
        make(6, 4, 3, 3),
        tolerance=1e-3,
    )


TRANSPOSED: tuple[dict[str, Any], ...] = (
    {},
    {"stride": 2},
    {"padding": 1},
    {"stride": 2, "output_padding": 1},
    {"dilation": 2},
    {"groups": 2},
    {"stride": 3, "padding": 1, "dilation": 2},
)


@pytest.mark.parametrize("options", TRANSPOSED, ids=str)
@pytest.mark.parametrize("spatial", (1, 2))
def test_transposed_convolution(spatial: int, options: dict[str, Any]) -> None:
    groups = options.get("groups", 1)
    x, w = double(2, 4, *(5, 4)[:spatial]), double(4, 6 // groups, *(3, 2)[:spatial], seed=1)
    compare(
        lambda lib, x, w, b: getattr(lib.nn.functional, f"conv_transpose{spatial}d")(
            x, w, b, **options
        ),
        x,
        w,
        double(6),
        strides=False,
    )


POOLS: tuple[dict[str, Any], ...] = (
    {"kernel_size": 2},
    {"kernel_size": 3, "stride": 2},
    {"kernel_size": 3, "stride": 1, "padding": 1},
    {"kernel_size": 3, "stride": 2, "ceil_mode": True},
    {"kernel_size": 2, "stride": 3, "padding": 1, "ceil_mode": True},
    {"kernel_size": 2, "padding": 2},
    {"kernel_size": 20},
)


@pytest.mark.parametrize("options", POOLS, ids=str)
@pytest.mark.parametrize(
    "name", ("max_pool1d", "max_pool2d", "max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d")
)
def test_pooling(name: str, options: dict[str, Any]) -> None:
    spatial = int(name[-2])
    x = double(2, 3, *(7, 8, 5)[:spatial])
    compare(lambda lib, x: getattr(lib.nn.functional, name)(x, **options), x, strides=False)
    compare(lambda lib, x: getattr(lib.nn.functional, name)(x, **options), x[0], strides=False)
    if name.startswith("max"):
        compare(
            lambda lib, x: getattr(lib.nn.functional, name)(x, **options, return_indices=True),
            x,
            strides=False,
        )
        compare(
            lambda lib, x: getattr(lib.nn.functional, name)(x.detach(), **options), x, strides=False
        )
        compare(
            lambda lib, x: getattr(lib.nn.functional, name)(x.round(), **options), x, strides=False
        )  # ties
    else:
        compare(
            lambda lib, x: getattr(lib.nn.functional, name)(x, **options, count_include_pad=False),
            x,
            strides=False,
        )


def test_pooling_options() -> None:
    x = double(2, 3, 7, 8)
    f: dict[str, Any] = {
        "dilated": lambda f, x: f.max_pool2d(x, 2, 1, dilation=2),
        "pair": lambda f, x: f.avg_pool2d(x, (2, 3), (1, 2)),
        "divisor": lambda f, x: f.avg_pool2d(x, 2, divisor_override=3),
        "nan": lambda f, x: f.max_pool2d((x / (x > 0)).detach(), 2),
        "unfold": lambda f, x: f.unfold(x, (2, 3), padding=1, stride=2),
    }
    for call in f.values():
        compare(lambda lib, x, call=call: call(lib.nn.functional, x), x, strides=False)


@pytest.mark.parametrize("size", (1, 2, 3, 4, 7, (2, 4), (None, 3)))
def test_adaptive_pooling(size: Any) -> None:
    x = double(2, 3, 7, 8)
    compare(lambda lib, x: lib.nn.functional.adaptive_avg_pool2d(x, size), x, strides=False)
    if isinstance(size, int):
        compare(lambda lib, x: lib.nn.functional.adaptive_avg_pool1d(x[0], size), x, strides=False)
    if size in (1, 2, 4):
        compare(
            lambda lib, x: lib.nn.functional.adaptive_max_pool2d(x[:, :, :4], size),
            x,
            strides=False,
        )


@pytest.mark.parametrize(
    "options",
    (
        {"scale_factor": 2},
        {"size": (5, 9)},
        {"scale_factor": 0.6},
        {"scale_factor": (2, 1.5)},
        {"size": (4, 9), "mode": "bilinear"},
        {"scale_factor": 2, "mode": "bilinear", "align_corners": True},
        {"scale_factor": 1.7, "mode": "bilinear", "align_corners": False},
        {"size": 3, "mode": "area"},
        {"size": (5, 9), "mode": "nearest-exact"},
        {},
        {"size": 3, "scale_factor": 2},
    ),
    ids=str,
)
def test_interpolation(options: dict[str, Any]) -> None:
    compare(
        lambda lib, x: lib.nn.functional.interpolate(x, **options),
        double(2, 3, 4, 6),
        strides=False,
    )


def test_pixel_shuffle() -> None:
    compare(lambda lib, x: lib.nn.functional.pixel_shuffle(x, 2), double(2, 8, 3, 4))
    compare(lambda lib, x: lib.nn.functional.pixel_unshuffle(x, 2), double(2, 2, 6, 4))
    compare(lambda lib, x: lib.nn.functional.pixel_shuffle(x, 2), double(2, 6, 3, 4))


MASK = np.array([[True, True, False, False, True], [False] * 5, [True] * 5])


@pytest.mark.parametrize(
    "kind", ("plain", "causal", "bool", "float", "scale", "both", "half", "types")
)
def test_attention(kind: str) -> None:
    q, k, v = double(2, 4, 3, 6), double(2, 4, 5, 6, seed=1), double(2, 4, 5, 7, seed=2)
    options: dict[str, Any] = {"causal": {"is_causal": True}, "scale": {"scale": 0.3}}.get(kind, {})

    def attend(lib: Any, q: Any, k: Any, v: Any) -> Any:
        masks = {
            "bool": lib.from_numpy(MASK),
            "float": lib.from_numpy(np.where(MASK, 0.5, -np.inf)),
        }
        more = {"attn_mask": masks[kind]} if kind in masks else {}
        if kind == "both":
            more = {"attn_mask": masks["bool"], "is_causal": True}
        return lib.nn.functional.scaled_dot_product_attention(q, k, v, **options, **more)

    if kind == "half":
        q, k, v = (x.astype(np.float16) for x in (q, k, v))
    if kind == "types":
        k = k.astype(np.float32)
    compare(attend, q, k, v, strides=False, tolerance=1e-2 if kind == "half" else 1e-8)


def test_grouped_heads_and_dropout() -> None:
    compare(
        lambda lib, q, k, v: lib.nn.functional.scaled_dot_product_attention(
            q, k, v, enable_gqa=True
        ),
        double(2, 4, 3, 6),
        double(2, 2, 5, 6, seed=1),
        double(2, 2, 5, 6, seed=2),
        strides=False,
    )
    x = weft.ones(1, 1, 8, 4)
    dropped = weft.nn.functional.scaled_dot_product_attention(x, x, x, dropout_p=0.5).numpy()
    assert len(np.unique(dropped)) > 1
    np.testing.assert_allclose(dropped * 4, np.round(dropped * 4), atol=1e-6)


@pytest.mark.parametrize("batch", (1, 2))
@pytest.mark.parametrize(
    "options", ({}, {"stride": 2, "padding": 1, "dilation": 2, "groups": 2}), ids=str
)
def test_second_derivative_of_convolution(options: dict[str, Any], batch: int) -> None:
    def second(lib: Any, x: Any, w: Any, b: Any) -> Any:
        y = (lib.nn.functional.conv2d(x, w, b, **options) ** 3).sum()
        grads = lib.autograd.grad(y, (x, w, b), create_graph=True)
        return [*grads, sum((g**2).sum() for g in grads)]

    groups = options.get("groups", 1)
    compare(
        second,
        double(batch, 4, 6, 7),
        double(4, 4 // groups, 3, 2, seed=1),
        double(4),
        strides=False,
    )
