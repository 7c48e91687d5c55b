"""The stubs that the build writes say what the package exports, and what is installed on Tensor."""

from __future__ import annotations

from pathlib import Path

import weft

SOURCES = Path(__file__).resolve().parents[2] / "src"


def test_every_method_of_tensor_is_in_the_stub() -> None:
    text = (SOURCES / "weft" / "engine" / "frontend" / "tensor.pyi").read_text()
    for name in ("sum", "backward", "numpy", "view", "add_", "to", "requires_grad_", "__add__"):
        assert hasattr(weft.Tensor, name)
        assert f"    def {name}(" in text


def test_every_function_is_in_the_stub() -> None:
    text = (SOURCES / "weft" / "__init__.pyi").read_text()
    for name in ("add", "einsum", "zeros", "manual_seed"):
        assert f"\ndef {name}(" in text
