"""The NumPy reading of a recorded graph agrees with the kernels: one expression per family of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from oracle import torch
from weft.testing.reference import evaluate_tensor, round_bfloat16

F = weft.nn.functional


def _scattered(x: Any, y: Any) -> Any:
    z = x * 1
    z[:, ::2] = y[:, ::2]
    z[[0, 2]] += 1
    z.t()[1] *= 3
    return z


PROGRAMS: dict[str, Any] = {
    "arithmetic": lambda x, y: (x + y) * 2 - x / (y.abs() + 1) % 3,
    "functions": lambda x, y: weft.exp(x).log1p() + weft.sin(y).tanh() - weft.sigmoid(x).sqrt(),
    "comparison": lambda x, y: weft.where((x > y) & (x != 0), x, y.floor()),
    "integers": lambda x, y: (x * 10).long() // 3 % 7 + ((y * 5).int() & 3),
    "views": lambda x, y: (
        (x.t()[1:, ::2].unsqueeze(1).expand(-1, 2, -1) + y[0, 0]).reshape(-1).flip(0)
    ),
    "windows": lambda x, y: x.unfold(1, 2, 1).diagonal(0, 0, 2) + y.sum(),
    "regions": _scattered,
    "reductions": lambda x, y: (
        x.sum(0) + y.mean(0) * x.prod(0) + y.amax(0) - x.var(0) + x.max(0).values
    ),
    "places": lambda x, y: x.argmax(1) + y.argmin(1) * x.cumsum(1).gt(0).sum(1),
    "products": lambda x, y: x @ y.t() + weft.einsum("ij,kj->ik", y, x),
    "gathers": lambda x, y: (
        x.gather(1, y.argmax(1, keepdim=True)) + x[[0, 1, 1], [2, 0, 3]].unsqueeze(1)
    ),
    "scatters": lambda x, y: x.scatter_add(1, (y > 0).long(), y).index_add(
        0, weft.tensor([0, 0]), y[:2]
    ),
    "joins": lambda x, y: weft.stack([weft.cat([x, y], 1), weft.cat([y, x], 1)]).tril(),
    "softmax": lambda x, y: F.softmax(x, 1) - F.log_softmax(y, 0),
    "norms": lambda x, y: F.layer_norm(x, (4,)) + F.normalize(y),
    "half": lambda x, y: (x.half() * y.half()).float() + x.bfloat16().float(),
    "complex": lambda x, y: weft.complex(x, y) * weft.complex(y, x).conj(),
    "random": lambda x, y: weft.rand(3, 4) + weft.randn(3, 4) * x + weft.randint(0, 9, (3, 4)),
    "convolution": lambda x, y: F.conv2d(
        x.view(1, 1, 3, 4), y.view(1, 1, 3, 4)[..., :2, :2], padding=1
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_kernels_agree_with_numpy(name: str) -> None:
    source = np.random.default_rng(3)
    x, y = (weft.from_numpy(source.normal(size=(3, 4)).astype(np.float32)).clone() for _ in "xy")
    weft.realize(x, y)
    weft.manual_seed(4)
    result = PROGRAMS[name](x, y)
    expected = evaluate_tensor(result)  # before it runs: an executed node drops its inputs
    tolerance = 1e-3 if name == "half" else 2e-6
    np.testing.assert_allclose(result.numpy(), expected, rtol=tolerance, atol=tolerance)
    assert result.numpy().dtype == expected.dtype


def test_a_chain_of_a_hundred_thousand_operations_is_read_without_recursion() -> None:
    x = weft.zeros(2)
    weft.realize(x)
    previous = weft.engine.frontend.recorder.set_budget(1_000_000, 1 << 40)
    try:
        for _ in range(100_000):
            x = x + 1
        assert evaluate_tensor(x).tolist() == [100_000.0, 100_000.0]
    finally:
        weft.engine.frontend.recorder.set_budget(*previous)


def test_bfloat16_rounds_half_to_even_and_keeps_nan() -> None:
    values = np.array(
        [1.0, 1.00390625, 1.01171875, 3.3e38, -0.0, np.inf, np.nan, 1e-40], np.float32
    )
    expected = torch.from_numpy(values).bfloat16().float().numpy()
    np.testing.assert_array_equal(round_bfloat16(values), expected)
