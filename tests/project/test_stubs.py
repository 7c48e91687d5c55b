"""The generated stubs are those that the generator writes now."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import weft

ROOT = Path(__file__).resolve().parents[2]


def test_stubs_are_up_to_date() -> None:
    # In a process of its own: what other tests imported or set on `weft` is no part of its exports.
    check = subprocess.run(
        [sys.executable, ROOT / "tools" / "generate_stubs.py", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert check.returncode == 0, (
        f"run python tools/generate_stubs.py: {check.stdout}{check.stderr}"
    )


def test_every_method_of_tensor_is_in_the_stub() -> None:
    text = (ROOT / "src" / "weft" / "engine" / "frontend" / "tensor.pyi").read_text()
    for name in ("sum", "backward", "numpy", "view", "add_", "to", "requires_grad_", "__add__"):
        assert hasattr(weft.Tensor, name)
        assert f"    def {name}(" in text
