"""float_power computes in float64 or complex128, and in place it takes no other type."""

from __future__ import annotations

from typing import Any

import pytest

import weft
from oracle import torch

TYPES = ("float32", "float64", "float16", "int64", "bool", "complex64", "complex128")


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("exponent", [2, 0.5, 1j, "float64", "complex64"])
def test_in_place_as_in_pytorch(kind: str, exponent: Any) -> None:
    def told(lib: Any) -> Any:
        power = lib.ones(2, dtype=getattr(lib, exponent)) if isinstance(exponent, str) else exponent
        x = lib.ones(2, dtype=getattr(lib, kind))
        try:
            return str(x.float_power_(power).tolist())
        except RuntimeError as error:
            return str(error).split("\n")[0].split(", called at")[0]

    assert told(weft) == told(torch)
