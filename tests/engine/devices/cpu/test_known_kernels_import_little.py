"""A process whose kernels are all on disk imports nothing that writes them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import pathlib, sys, weft
from weft.engine.devices.cpu.kernel_files import shipped_kernels
shipped_kernels.FOLDER = pathlib.Path("none")
x, w = weft.ones(20, 30), weft.ones(30, 40, requires_grad=True)
image, window = weft.ones(2, 3, 8, 8), weft.ones(4, 3, 3, 3, requires_grad=True)
heads = weft.ones(1, 2, 5, 16)
attended = weft.nn.functional.scaled_dot_product_attention(heads, heads, heads)
loss = (x @ w).relu().sum() + weft.nn.functional.conv2d(image, window).softmax(1).mean() + attended.sum()
loss.backward()
print(loss.item(), w.grad.sum().item(), window.grad.sum().item())
print([name for name in WRITERS if name in sys.modules])
"""
WRITERS = [
    "weft.engine.pipeline.lowering.kernel_decoder",
    "weft.engine.devices.cpu.elementwise.emitter",
    "weft.engine.devices.cpu.gemm.driver",
    "weft.engine.devices.cpu.gemm.implicit",
    "weft.engine.devices.cpu.attention.frame",
]


def test_a_second_process_imports_no_writer(tmp_path: Path) -> None:
    environment = dict(os.environ, WEFT_CACHE_DIR=str(tmp_path))
    command = [sys.executable, "-c", f"WRITERS = {WRITERS}\n{PROGRAM}"]
    first, second = (
        subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        for _ in range(2)
    )
    values, writers = first.stdout.splitlines()
    assert writers == str(WRITERS)
    assert second.stdout.splitlines() == [values, "[]"]
