"""Dtypes that an operation has no kernel for: refused where PyTorch refuses them, in its words."""

from __future__ import annotations

from typing import Any

import pytest

import weft
from oracle import torch

TYPES = (
    "float32",
    "float64",
    "float16",
    "bfloat16",
    "int64",
    "int32",
    "int8",
    "uint8",
    "bool",
    "complex64",
)
CALLS: dict[str, Any] = {
    "lerp by a number": lambda lib, x: lib.lerp(x, x, 0.5),
    "lerp by a tensor": lambda lib, x: lib.lerp(x, x, x),
    "cdist": lambda lib, x: lib.cdist(x, x),
    "pdist": lambda lib, x: lib.nn.functional.pdist(x),
    "trace": lambda lib, x: lib.trace(x),
    "addcmul": lambda lib, x: lib.addcmul(x, x, x),
}


def outcome(lib: Any, call: Any, dtype: str) -> str:
    """The result's dtype, or the first line of the error."""
    try:
        return str(call(lib, lib.ones(3, 3).to(getattr(lib, dtype))).dtype).split(".")[-1]
    except (RuntimeError, NotImplementedError) as error:
        return str(error).splitlines()[0].partition(", called at")[0]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("call", CALLS)
def test_refused_as_in_pytorch(call: str, dtype: str) -> None:
    assert outcome(weft, CALLS[call], dtype) == outcome(torch, CALLS[call], dtype)
