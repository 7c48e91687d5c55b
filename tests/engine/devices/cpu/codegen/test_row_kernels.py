"""Row kernels: each phase gives the bits that it gives alone, whatever the target, the rows and the cuts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kernel_jit import Function, address, element_strides
from kernel_launch import lookup
from kernel_reference import reduce_last
from weft.engine.devices.cpu.codegen import row_kernel
from weft.engine.devices.cpu.llvm.target import AVX2, AVX512, NEON, host
from weft.engine.kernels import row_ir
from weft.engine.kernels.loop_ir import Instr, KernelError, LoopKernel, Operand, Reduce, Store
from weft.engine.kernels.row_ir import Local, RowKernel

TARGETS = [target for target in (AVX512, AVX2, NEON) if host() == AVX512 or target != AVX512]
GOLDEN = Path(__file__).parent / "golden"


def load(operand: int) -> Instr:
    return Instr("load", "float32", (), operand)


# (x - max(x))**2 / sum((x - max(x))**2), and the sums
SHARES = RowKernel(
    (
        LoopKernel(
            2, 1, (Operand("float32", ("s", "1")),), (load(0),), (Reduce("max", 0, "float32"),),
            (), (Store("float32", 1, ("0", "0"), "epilogue", 0),),
        ),
        LoopKernel(
            2, 1, (Operand("float32", ("0", "0"), local=0), Operand("float32", ("s", "1"))),
            (load(0), load(1), Instr("sub", "float32", (1, 0)), Instr("mul", "float32", (2, 2))),
            (Reduce("sum", 3, "float32"),), (),
            (Store("float32", 3, ("0", "1"), "body", 1),
             Store("float32", 4, ("0", "0"), "epilogue", 2),
             Store("float32", 4, ("s", "0"), "epilogue")),
        ),
        LoopKernel(
            2, 0, (Operand("float32", ("0", "1"), local=1), Operand("float32", ("0", "0"), local=2)),
            (load(0), load(1), Instr("div", "float32", (0, 1))),
            stores=(Store("float32", 2, ("s", "1")),),
        ),
    ),
    (Local("float32", False), Local("float32", True), Local("float32", False)),
)  # fmt: skip


def expected(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    top = reduce_last(x, "max")
    squares = (x - top[:, None]) * (x - top[:, None])
    total = reduce_last(squares, "sum")
    with np.errstate(all="ignore"):
        return total, squares / total[:, None]


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_phases_run_row_by_row(target) -> None:
    function = Function(row_kernel.lower(SHARES, lookup, "kernel", target), ["kernel"], target)
    rng = np.random.default_rng(0)
    for rows, length in (
        (5, 1),
        (3, 2),
        (4, 15),
        (4, 16),
        (3, 33),
        (2, 4096),
        (2, 4097),
        (1, 16384),
    ):
        x = rng.standard_normal((rows, length + 3)).astype(np.float32)[:, :length]
        if length > 20:
            x[0, 7] = np.nan
        totals, shares = np.zeros((rows, 1), np.float32), np.zeros((rows, length), np.float32)
        arguments = [rows, length]
        for strides in (element_strides(x), [0, 0]):
            arguments += strides
        for strides in ([0, 0], element_strides(x), [0, 1], [0, 0], [1, 0]):
            arguments += strides
        for strides in ([0, 1], [0, 0], element_strides(shares)):
            arguments += strides
        pointers = [address(array) for array in (x, x, totals, shares)]
        assert len(pointers) == sum(row_kernel.pointer_counts(SHARES))
        assert len(arguments) == 2 + sum(row_kernel.argument_counts(SHARES))
        for begin, end in ((0, 1), (1, rows)):
            function("kernel", pointers, arguments, begin, end)
        for ours, theirs in zip((totals[:, 0], shares), expected(x), strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_the_printed_form_is_golden() -> None:
    assert row_ir.text(row_ir.verify(SHARES)) == (GOLDEN / "row_kernel.txt").read_text()


def with_phase(number: int, **changes: object) -> RowKernel:
    phases = list(SHARES.phases)
    phases[number] = replace(phases[number], **changes)
    return replace(SHARES, phases=tuple(phases))


FAULTS = {
    "reads local 0 before it is written": with_phase(0, stores=()),
    "is no access to Local": replace(
        SHARES, locals=(Local("float32", True), *SHARES.locals[1:])
    ),
    "phase 2 is not over rows of rank 2": with_phase(
        2,
        rank=1,
        operands=(Operand("float32", ("1",)), Operand("float32", ("0",))),
        stores=(Store("float32", 2, ("1",)),),
    ),
    "phase 0 reduces 2 axes": with_phase(0, reduced=2),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_the_verifier_names_the_fault(fault: str) -> None:
    with pytest.raises(KernelError) as caught:
        row_ir.verify(FAULTS[fault])
    assert fault in str(caught.value)


if __name__ == "__main__":
    (GOLDEN / "row_kernel.txt").write_text(row_ir.text(SHARES))
