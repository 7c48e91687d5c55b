"""The rows that updates are made of give the bits of the operations that they stand for, one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft.engine.devices.cpu.elementwise import optimizer_steps
from weft.ops.primitives import elementwise
from weft.ops.registry import OPS

# Row -> the operations one by one.
STEPS: dict[str, Callable[..., Any]] = {
    "blend": lambda mean, value, share: mean + (value - mean) * share,
    "add_product": lambda total, one, other, factor: total + one * factor * other,
    "add_quotient": lambda total, above, below, factor: total + above / below * factor,
}
DTYPES = (weft.float32, weft.float64, weft.bfloat16, weft.float16)


def operands(name: str, dtype: Any, last: Any) -> list[Any]:
    count = len(OPS[name].operands)
    return [*[weft.randn(3, 37, dtype=weft.float64).to(dtype) for _ in range(count - 1)], last]


def bits(tensor: Any) -> bytes:
    return np.asarray(tensor.double().tolist()).tobytes()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", STEPS)
def test_bits_of_the_operations_one_by_one(name: str, dtype: Any) -> None:
    weft.manual_seed(0)
    given = operands(name, dtype, 0.1)
    found = elementwise(name, *given)
    assert found.dtype is dtype
    apart = STEPS[name](*(x.clone() if isinstance(x, weft.Tensor) else x for x in given))
    assert bits(found) == bits(apart)


@pytest.mark.parametrize("name", STEPS)
def test_a_number_that_float16_has_not(name: str) -> None:
    """It takes part as it is: only the result has to fit."""
    given = operands(name, weft.float16, 1e-6)
    wide = [x.float() if isinstance(x, weft.Tensor) else x for x in given]
    found, expected = elementwise(name, *given), STEPS[name](*wide).half()
    assert found.dtype is weft.float16 and bits(found) == bits(expected)


def test_every_method_has_a_row() -> None:
    assert {method.__name__ for method in optimizer_steps.METHODS} == set(STEPS)
    assert all(OPS[name].kind == OPS["mul"].kind for name in STEPS)
