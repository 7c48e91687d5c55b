"""Derivatives of kernels whose sums are long and whose channels fill vectors: they read a copy with channels last."""

from __future__ import annotations

from typing import Any

import pytest

from functional_oracle import compare, make


def double(*shape: int, seed: int = 0) -> Any:
    return make(*shape, dtype="float64", seed=seed)


SIZES = {1: (70,), 2: (9, 10), 3: (5, 4, 6)}
OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"padding": 1},
    {"stride": 2, "padding": 2},
    {"dilation": 2, "padding": 1},
    {"groups": 2, "padding": 1},
)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("spatial", (1, 2, 3))
def test_gradients(spatial: int, options: dict[str, Any]) -> None:
    groups = options.get("groups", 1)
    compare(
        lambda lib, x, w, b: getattr(lib.nn.functional, f"conv{spatial}d")(x, w, b, **options),
        double(2, 16 * groups, *SIZES[spatial]),
        double(6, 16, *(3, 2, 3)[:spatial], seed=1),
        double(6),
        strides=False,
    )


def test_transposed() -> None:
    """Its gradients are those of the convolution whose cotangent it is."""
    compare(
        lambda lib, x, w: lib.nn.functional.conv_transpose2d(x, w, stride=2, padding=1),
        double(2, 5, 9, 8),
        double(5, 18, 3, 3, seed=1),
        strides=False,
    )


@pytest.mark.parametrize("options", OPTIONS[1:], ids=str)
def test_second_derivatives(options: dict[str, Any]) -> None:
    def second(lib: Any, x: Any, w: Any) -> Any:
        y = (lib.nn.functional.conv2d(x, w, None, **options) ** 3).sum()
        grads = lib.autograd.grad(y, (x, w), create_graph=True)
        return [*grads, sum((g**2).sum() for g in grads)]

    groups = options.get("groups", 1)
    compare(second, double(2, 16 * groups, 6, 7), double(2, 16, 3, 2, seed=1), strides=False)
