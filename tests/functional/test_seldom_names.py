"""Names of PyTorch that few programs call, against PyTorch: steps of cells, products, settings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from oracle import torch


def both(function: Any, *arrays: Any) -> None:
    """Errors: AssertionError unless values and gradients agree."""
    found = []
    for library in (weft, torch):
        given = [library.tensor(array).requires_grad_() for array in arrays]
        results = function(library, *given)
        results = results if isinstance(results, tuple) else (results,)
        sum((result * result).sum() for result in results).backward()
        found.append([x.detach().numpy() for x in (*results, *(one.grad for one in given))])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-8)


def drawn(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    ("name", "gates"),
    [("lstm_cell", 4), ("gru_cell", 3), ("rnn_tanh_cell", 1), ("rnn_relu_cell", 1)],
)
def test_steps_of_cells(name: str, gates: int, bias: bool) -> None:
    def step(library: Any, x: Any, h: Any, *rest: Any) -> Any:
        state = (h, rest[0]) if gates == 4 else h
        return getattr(library, name)(x, state, *rest[gates == 4 :])

    memory = [drawn(2, 4)] if gates == 4 else []
    biases = [drawn(4 * gates), drawn(4 * gates) + 1] if bias else []
    both(step, drawn(2, 3), drawn(2, 4), *memory, drawn(4 * gates, 3), drawn(4 * gates, 4), *biases)


def test_a_sparse_matrix_times_a_dense_one() -> None:
    both(lambda library, a, b: library.spmm(a.to_sparse(), b), drawn(3, 4), drawn(4, 2))


def test_settings_that_have_one_value() -> None:
    weft.set_num_interop_threads(4)
    assert weft.get_num_interop_threads() == 1
    assert weft.set_flush_denormal(True) is False
    assert (weft.tensor(1e-40) * 1).item() > 0
    with weft.autocast("cpu", dtype=weft.float16):
        assert weft.is_autocast_cpu_enabled() and weft.get_autocast_cpu_dtype() is weft.float16
        weft.clear_autocast_cache()
    assert not weft.is_autocast_cpu_enabled()
    assert weft.ones(2, 3)[weft.newaxis].shape == (1, 2, 3)
    assert weft.OutOfMemoryError is weft.cuda.OutOfMemoryError
    assert weft.GradScaler is weft.amp.GradScaler
