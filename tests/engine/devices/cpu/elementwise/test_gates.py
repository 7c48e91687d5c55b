"""Products with a sigmoid: one sigmoid and one tanh of each value in a kernel, whichever rows ask for them."""

from __future__ import annotations

import numpy as np
import pytest

from kernel_launch import launch
from weft.engine.devices.cpu.codegen.loop_kernel import lower
from weft.engine.devices.cpu.elementwise import gated
from weft.engine.kernels.loop_ir import Instr, LoopKernel, Operand, Store
from weft.ops.registry import OPS

COUNT = 203
BACKWARD = ("sigmoid_mul_tanh_by_gate", "sigmoid_mul_tanh_by_other")


def emitter_method(name: str):
    return OPS[name].lower


def kernel(ops: tuple[str, ...], broadcast: tuple[int, ...] = ()) -> LoopKernel:
    """out_n[i] = op_n(a[i], b[i], c[i]); operands in `broadcast` are numbers."""
    loads = tuple(Instr("load", "float32", (), i) for i in range(3))
    operands = tuple(Operand("float32", ("0" if i in broadcast else "1",)) for i in range(3))
    applied = tuple(Instr(op, "float32", (0, 1, 2)) for op in ops)
    stores = tuple(Store("float32", 3 + n, ("1",)) for n in range(len(ops)))
    return LoopKernel(1, 0, operands, (*loads, *applied), stores=stores)


def divisions(*ops: str) -> int:
    """How many divisions a kernel has: sigmoid and tanh have one each."""
    return lower(kernel(ops), emitter_method, "k").count("fdiv")


def test_what_one_value_gives_is_computed_once() -> None:
    assert 0 < divisions(*BACKWARD) == divisions(BACKWARD[0]) == divisions(BACKWARD[1])


@pytest.mark.parametrize("broadcast", [(), (0,), (1,), (2,), (1, 2), (0, 1, 2)], ids=str)
def test_together_they_are_what_they_are_alone(broadcast: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    values = [rng.standard_normal(1 if i in broadcast else COUNT, "float32") for i in range(3)]

    def run(*ops: str) -> list[np.ndarray]:
        out = [np.zeros(COUNT, "float32") for _ in ops]
        launch(kernel(ops, broadcast), [COUNT], values, out)
        return out

    for together, name in zip(run(*BACKWARD), BACKWARD, strict=True):
        np.testing.assert_array_equal(together, run(name)[0])


def test_every_method_has_a_row() -> None:
    for method in gated.METHODS:
        assert OPS[method.__name__].kind == OPS["sigmoid"].kind
