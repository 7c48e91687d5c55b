"""`weft.ops.aten`'s backward kernels beside PyTorch's: values, what a mask leaves out, derivatives of the products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft
from oracle import torch


def numbers(lib: Any, *shape: int, seed: int = 0) -> Any:
    """Numbers between -1 and 1 of a shape."""
    count = 1
    for size in shape:
        count *= size
    values = (lib.arange(count, dtype=lib.float64) * 0.7548776662 + 0.3 + seed * 0.37) % 1
    return (values * 2 - 1).reshape(shape)


def _pool(lib: Any, name: str, rank: int) -> tuple[Any, ...]:
    x = numbers(lib, 2, 3, *[6] * rank)
    result, indices = getattr(lib.nn.functional, name)(x, 3, return_indices=True)
    return numbers(lib, *result.shape, seed=1), x, indices


def _norm(lib: Any, shape: tuple[int, ...]) -> tuple[Any, ...]:
    x = numbers(lib, *shape)
    return numbers(lib, *shape, seed=1), x


def layer_norm(lib: Any) -> tuple[Any, ...]:
    g, x = _norm(lib, (2, 3, 4))
    w, b = numbers(lib, 4, seed=2), numbers(lib, 4, seed=3)
    _, mean, scale = lib.ops.aten.native_layer_norm(x, [4], w, b, 1e-5)
    return g, x, [4], mean, scale, w, b, [True, True, True]


def group_norm(lib: Any) -> tuple[Any, ...]:
    g, x = _norm(lib, (2, 6, 4))
    w, b = numbers(lib, 6, seed=2), numbers(lib, 6, seed=3)
    _, mean, scale = lib.ops.aten.native_group_norm(x, w, b, 2, 6, 4, 3, 1e-5)
    return g, x, mean, scale, w, 2, 6, 4, 3, [True, True, True]


def batch_norm(train: bool) -> Callable[[Any], tuple[Any, ...]]:
    def given(lib: Any) -> tuple[Any, ...]:
        g, x = _norm(lib, (4, 3, 2))
        w, b = numbers(lib, 3, seed=2), numbers(lib, 3, seed=3)
        mean, var = numbers(lib, 3, seed=4), numbers(lib, 3, seed=5).abs() + 0.5
        saved = lib.ops.aten.native_batch_norm(x, w, b, mean.clone(), var.clone(), train, 0.1, 1e-5)
        return g, x, w, mean, var, saved[1], saved[2], train, 1e-5, [True, True, True]

    return given


def convolution(rank: int, transposed: bool, groups: int = 1) -> Callable[[Any], tuple[Any, ...]]:
    def given(lib: Any) -> tuple[Any, ...]:
        x = numbers(lib, 2, 4, *[7] * rank)
        w = numbers(lib, 4, 6 // groups if transposed else 4 // groups, *[3] * rank, seed=1)
        options = (
            [2] * rank,
            [1] * rank,
            [1] * rank,
            transposed,
            [1 if transposed else 0] * rank,
            groups,
        )
        result = lib.ops.aten.convolution(x, w, None, *options)
        g = numbers(lib, *result.shape, seed=2)
        return g, x, w, [result.shape[1]], *options, [True, True, True]

    return given


def loss(name: str, *more: Any) -> Callable[[Any], tuple[Any, ...]]:
    def given(lib: Any) -> tuple[Any, ...]:
        x, y = numbers(lib, 3, 4), numbers(lib, 3, 4, seed=1)
        if name == "binary_cross_entropy":
            x, y = x.abs(), y.abs()
            return lib.tensor(0.7, dtype=lib.float64), x, y, None, 1
        return lib.tensor(0.7, dtype=lib.float64), x, y, *more

    return given


def resized(rank: int, *aligns: bool) -> Callable[[Any], tuple[Any, ...]]:
    return lambda lib: (
        numbers(lib, 2, 3, *[7] * rank), [7] * rank, [2, 3, *[4] * rank], *aligns, *[None] * rank
    )  # fmt: skip


def padded(rank: int) -> Callable[[Any], tuple[Any, ...]]:
    return lambda lib: (
        numbers(lib, 2, 3, *[7] * rank), numbers(lib, 2, 3, *[4] * rank, seed=1), [1, 2] * rank
    )  # fmt: skip


def shrunk(lib: Any) -> tuple[Any, ...]:
    return numbers(lib, 3, 4), numbers(lib, 3, 4, seed=1), 0.5


def nll(lib: Any) -> tuple[Any, ...]:
    target, weight = lib.tensor([0, 2, 1]), numbers(lib, 4, seed=2).abs()
    total = weight[target].sum()
    grad = lib.tensor(0.7, dtype=lib.float64)
    return grad, numbers(lib, 3, 4), target, weight, 1, -100, total


def nll2d(lib: Any) -> tuple[Any, ...]:
    target, weight = lib.tensor([[[0, 2], [1, 1]]]), numbers(lib, 4, seed=2).abs()
    total = weight[target].sum()
    return numbers(lib, 1, 2, 2), numbers(lib, 1, 4, 2, 2), target, weight, 0, -100, total


CASES: dict[str, tuple[str, Callable[[Any], tuple[Any, ...]]]] = {
    "layer norm": ("native_layer_norm_backward", layer_norm),
    "group norm": ("native_group_norm_backward", group_norm),
    "batch norm": ("native_batch_norm_backward", batch_norm(True)),
    "batch norm, evaluated": ("native_batch_norm_backward", batch_norm(False)),
    **{
        f"conv{rank}d, {transposed}, {groups}": (
            "convolution_backward",
            convolution(rank, transposed, groups),
        )
        for rank in (1, 2)
        for transposed in (False, True)
        for groups in (1, 2)
    },
    "embedding": (
        "embedding_dense_backward",
        lambda lib: (numbers(lib, 4, 3), lib.tensor([1, 0, 1, 4]), 5, 0, False),
    ),
    "embedding by frequency": (
        "embedding_dense_backward",
        lambda lib: (numbers(lib, 4, 3), lib.tensor([1, 0, 1, 4]), 5, -1, True),
    ),
    "mse_loss": ("mse_loss_backward", loss("mse_loss", 1)),
    "smooth_l1_loss": ("smooth_l1_loss_backward", loss("smooth_l1_loss", 2, 0.5)),
    "huber_loss": ("huber_loss_backward", loss("huber_loss", 1, 0.5)),
    "soft_margin_loss": ("soft_margin_loss_backward", loss("soft_margin_loss", 1)),
    "binary_cross_entropy": ("binary_cross_entropy_backward", loss("binary_cross_entropy")),
    "nll_loss": ("nll_loss_backward", nll),
    "nll_loss2d": ("nll_loss2d_backward", nll2d),
    "elu": (
        "elu_backward",
        lambda lib: (numbers(lib, 3, 4), 1.5, 1.1, 0.9, False, numbers(lib, 3, 4, seed=1)),
    ),
    "elu by its result": (
        "elu_backward",
        lambda lib: (numbers(lib, 3, 4), 1.5, 1.1, 0.9, True, numbers(lib, 3, 4, seed=1)),
    ),
    "hardshrink": ("hardshrink_backward", shrunk),
    "softshrink": ("softshrink_backward", shrunk),
    "log_sigmoid": (
        "log_sigmoid_backward",
        lambda lib: (numbers(lib, 4), numbers(lib, 4, seed=1), lib.exp(-numbers(lib, 4, seed=1).abs())),
    ),
    "logit": (
        "logit_backward",
        lambda lib: (numbers(lib, 4), numbers(lib, 4, seed=1).abs(), 1e-3),
    ),
    "avg_pool2d": (
        "avg_pool2d_backward",
        lambda lib: (
            numbers(lib, 2, 3, 3, 3), numbers(lib, 2, 3, 6, 6), [2, 2], [2, 2], [0, 0], False, True, None,
        ),
    ),
    "avg_pool3d": (
        "avg_pool3d_backward",
        lambda lib: (
            numbers(lib, 1, 2, 2, 2, 2), numbers(lib, 1, 2, 4, 4, 4), [2] * 3, [], [0] * 3, False, True, 5,
        ),
    ),
    "adaptive_avg_pool2d": (
        "_adaptive_avg_pool2d_backward",
        lambda lib: (numbers(lib, 2, 3, 2, 3), numbers(lib, 2, 3, 5, 7)),
    ),
    "adaptive_max_pool2d": (
        "adaptive_max_pool2d_backward",
        lambda lib: _pool(lib, "adaptive_max_pool2d", 2),
    ),
    "adaptive_max_pool3d": (
        "adaptive_max_pool3d_backward",
        lambda lib: _pool(lib, "adaptive_max_pool3d", 3),
    ),
    "nearest": ("upsample_nearest2d_backward", resized(2)),
    "exact": ("_upsample_nearest_exact2d_backward", resized(2)),
    "linear": ("upsample_linear1d_backward", resized(1, True)),
    "bilinear": ("upsample_bilinear2d_backward", resized(2, False)),
    "bicubic": ("upsample_bicubic2d_backward", resized(2, False)),
    "trilinear": ("upsample_trilinear3d_backward", resized(3, False)),
    **{
        f"{mode} {rank}": (f"{mode}_pad{rank}d_backward", padded(rank))
        for mode in ("reflection", "replication")
        for rank in (1, 2)
    },
    "grid_sampler": (
        "grid_sampler_2d_backward",
        lambda lib: (
            numbers(lib, 1, 2, 3, 3), numbers(lib, 1, 2, 4, 5), numbers(lib, 1, 3, 3, 2, seed=1), 0, 0,
            False, [True, True],
        ),
    ),
    "select": ("select_backward", lambda lib: (numbers(lib, 3), [3, 4], 1, 2)),
    "slice": ("slice_backward", lambda lib: (numbers(lib, 3, 2), [3, 5], 1, 1, 2**62, 2)),
    "diagonal": ("diagonal_backward", lambda lib: (numbers(lib, 2), [3, 3], 1, 0, 1)),
    "unfold": ("unfold_backward", lambda lib: (numbers(lib, 3, 3), [7], 0, 3, 2)),
    "trace": ("trace_backward", lambda lib: (numbers(lib, 1)[0], [3, 3])),
    "median": (
        "value_selecting_reduction_backward",
        lambda lib: (numbers(lib, 3), 1, lib.tensor([1, 0, 2]), [3, 4], False),
    ),
}  # fmt: skip


def results(found: Any) -> list[Any]:
    """The tensors of a result."""
    return list(found) if isinstance(found, tuple) else [found]


@pytest.mark.parametrize("case", CASES)
def test_values(case: str) -> None:
    name, given = CASES[case]
    mine = results(getattr(weft.ops.aten, name)(*given(weft)))
    theirs = results(getattr(torch.ops.aten, name)(*given(torch)))
    assert len(mine) == len(theirs)
    for one, other in zip(mine, theirs, strict=True):
        assert tuple(one.shape) == tuple(other.shape)
        weft.testing.assert_close(one, weft.from_numpy(other.numpy()), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("case", ["layer norm", "conv2d, False, 1", "mse_loss", "bilinear", "elu"])
def test_they_can_be_differentiated(case: str) -> None:
    name, given = CASES[case]
    values = list(given(weft))
    tensors = [index for index, value in enumerate(values[:3]) if isinstance(value, weft.Tensor)]

    def product(*primals: Any) -> Any:
        for index, primal in zip(tensors, primals, strict=True):
            values[index] = primal
        return tuple(results(getattr(weft.ops.aten, name)(*values)))

    points = tuple(values[index].requires_grad_() for index in tensors)
    assert weft.autograd.gradcheck(product, points)


def test_what_a_mask_leaves_out() -> None:
    values = list(CASES["layer norm"][1](weft))
    values[-1] = [True, False, True]
    found = weft.ops.aten.native_layer_norm_backward(*values)
    assert found[1] is None and found[0] is not None and found[2] is not None
