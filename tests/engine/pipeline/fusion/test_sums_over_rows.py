"""Sums over rows that a row kernel makes beside what it does along them: the same bits as from memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from weft.debug import stages
from weft.nn import functional
from weft.testing.tuned import unfused

SHAPES = [(128, 2), (130, 17), (257, 64), (8, 40, 100), (4, 5, 50, 31), (4096, 33), (128, 1024)]


def normed_loss(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> Any:
    """A step that gives the gradients of layer_norm's operands under cross_entropy."""
    made = np.random.default_rng(seed)
    x, weight, bias = (
        weft.tensor(made.standard_normal(size).astype(dtype)).requires_grad_()
        for size in (shape, shape[-1:], shape[-1:])
    )
    target = weft.tensor(made.integers(0, shape[-1], int(np.prod(shape[:-1]))))

    def step() -> list[Any]:
        x.grad = weight.grad = bias.grad = None
        normed = functional.layer_norm(x, shape[-1:], weight, bias)
        functional.cross_entropy(normed.reshape(-1, shape[-1]), target).backward()
        return [x.grad, weight.grad, bias.grad]

    return step


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", SHAPES)
def test_bits_are_those_of_separate_kernels(shape: tuple[int, ...], dtype: Any) -> None:
    step = normed_loss(shape, dtype)
    for _ in range(3):
        fused = [gradient.numpy().tobytes() for gradient in step()]
    with unfused():
        assert [gradient.numpy().tobytes() for gradient in step()] == fused


def test_bits_do_not_depend_on_threads() -> None:
    step = normed_loss((1024, 200), np.float32)
    before = weft.get_num_threads()
    found = set()
    try:
        for threads in (1, 2, 3):
            weft.set_num_threads(threads)
            for _ in range(3):
                last = tuple([gradient.numpy().tobytes() for gradient in step()])
            found.add(last)
    finally:
        weft.set_num_threads(before)
    assert len(found) == 1


@pytest.mark.parametrize("rows", [128, 4096])
def test_a_normalised_loss_goes_over_its_rows_in_one_kernel(rows: int) -> None:
    texts = stages(normed_loss((rows, 240), np.float32))
    kernels = [line for line in texts["fuse"].splitlines() if f"[{rows}, 240]" in line]
    assert len(kernels) == 1
    assert texts["plan"].count(f"[{rows}, 240]") == 1  # the gradient


@pytest.mark.parametrize("rows", [100, 4097])
def test_few_rows_and_several_blocks_are_summed_from_memory(rows: int) -> None:
    texts = stages(normed_loss((rows, 240), np.float32))
    assert texts["plan"].count(f"[{rows}, 240]") == 3


def test_a_sum_that_is_read_in_front_of_the_rows_stays_there() -> None:
    x = weft.randn(200, 30)

    def step() -> Any:
        scaled = x * 2.0
        return (scaled + scaled.sum(0)).softmax(1)

    for _ in range(3):
        fused = step().numpy()
    with unfused():
        np.testing.assert_array_equal(step().numpy(), fused)


@pytest.mark.parametrize(("dtype", "most"), [("float32", 4), ("float64", 2)])
def test_local_memory_holds_few_sums(dtype: str, most: int) -> None:
    """What does not fit on the stack is summed from memory."""
    made = np.random.default_rng(0)
    x, *others = (weft.tensor(made.standard_normal((256, 40)).astype(dtype)) for _ in range(6))

    def step(count: int) -> list[Any]:
        chances = x.softmax(1)
        pair = (chances, chances * x)
        return [(pair[i % 2] * other).sum(0) for i, other in enumerate(others[:count])]

    def kernels(count: int) -> int:
        return stages(lambda: step(count))["fuse"].count("\n") + 1

    assert [kernels(most), kernels(most + 1)] == [1, 2]
    assert all(np.isfinite(found.numpy()).all() for found in step(most + 1))
