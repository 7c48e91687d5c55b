"""The generated stubs are those that the generator writes now."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import weft

ROOT = Path(__file__).resolve().parents[1]


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("stubs", ROOT / "tools" / "generate_stubs.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_stubs_are_up_to_date() -> None:
    stale = [str(path.relative_to(ROOT)) for path in generator().stale()]
    assert not stale, "run python tools/generate_stubs.py"


def test_every_method_of_tensor_is_in_the_stub() -> None:
    text = (ROOT / "src" / "weft" / "graph" / "tensor.pyi").read_text()
    for name in ("sum", "backward", "numpy", "view", "add_", "to", "requires_grad_", "__add__"):
        assert hasattr(weft.Tensor, name)
        assert f"    def {name}(" in text
