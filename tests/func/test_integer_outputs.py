"""`jvp` of functions that also return integers or truth values: their tangents are zeros of their types."""

from __future__ import annotations

from typing import Any

import pytest

import weft
from oracle import torch

FUNCTIONS: dict[str, Any] = {
    "max": lambda x: x.max(0),
    "min": lambda x: x.min(1),
    "sort": lambda x: x.sort(),
    "topk": lambda x: x.topk(2),
    "kthvalue": lambda x: x.kthvalue(2),
    "median": lambda x: x.median(0),
    "mode": lambda x: x.mode(0),
    "cummax": lambda x: x.cummax(0),
    "argmax": lambda x: x.argmax(0),
    "a mask beside a value": lambda x: (x * 2, x > 2),
}


@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")  # within PyTorch
@pytest.mark.parametrize("name", FUNCTIONS)
def test_tangents_of_integers_are_zeros(name: str) -> None:
    def told(T: Any) -> Any:
        x, v = T.tensor([[1.0, 5.0], [3.0, 2.0]]), T.tensor([[0.5, 1.0], [2.0, 4.0]])
        made = T.func.jvp(FUNCTIONS[name], (x,), (v,))
        return [
            (part.tolist(), str(part.dtype).split(".")[1])
            for parts in made
            for part in (parts if isinstance(parts, tuple) else (parts,))
        ]

    assert told(weft) == told(torch)
