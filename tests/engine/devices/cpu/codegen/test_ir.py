"""The loop IR: the verifier names each fault, the printer is canonical, golden texts stay."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from llvmlite import binding

from kernel_launch import lookup
from weft.engine.devices.cpu.codegen import schedule
from weft.engine.devices.cpu.codegen.loop_kernel import lower
from weft.engine.devices.cpu.codegen.schedule import LoopSchedule, arguments, pointers, scheduled
from weft.engine.devices.cpu.llvm.target import AVX512, NEON
from weft.engine.kernels.loop_ir import (
    Instr,
    KernelError,
    LoopKernel,
    Operand,
    Reduce,
    Store,
    text,
    verify,
)

GOLDEN = Path(__file__).parent / "golden"


def load(operand: int, dtype: str = "float32", *args: int) -> Instr:
    return Instr("load_indexed" if args else "load", dtype, args, operand)


ROW_SUM = LoopKernel(
    2, 1, (Operand("float32", ("s", "1")), Operand("float32", ("s", "0"))),
    (load(0), load(1), Instr("sub", "float32", (0, 1)), Instr("exp", "float32", (2,))),
    (Reduce("sum", 3, "float32"),), (Instr("log", "float32", (4,)),),
    (Store("float32", 3, ("s", "1")), Store("float32", 5, ("1", "0"), "epilogue")),
)  # fmt: skip
SCALE = LoopKernel(
    1, 0, (Operand("float32", ("1",)), Operand("float32", ("0",))),
    (load(0), load(1), Instr("mul", "float32", (0, 1))), stores=(Store("float32", 2, ("1",)),),
)  # fmt: skip
COLUMN_SUM = LoopKernel(
    2, 1, (Operand("bfloat16", ("1", "s")),), (load(0, "bfloat16"),),
    (Reduce("sum", 0, "bfloat16"),), (), (Store("bfloat16", 1, ("1", "0"), "epilogue"),),
)  # fmt: skip
EMBEDDING = LoopKernel(
    2, 0, (Operand("int64", ("1", "0")), Operand("float32", ("0", "1"), 1)),
    (load(0, "int64"), load(1, "float32", 0)), stores=(Store("float32", 1, ("s", "1")),),
)  # fmt: skip
DROPOUT = LoopKernel(
    1, 0,
    (Operand("int64", ("0",)), Operand("int64", ("1",), virtual=True), Operand("int64", ("0",)),
     Operand("float32", ("1",)), Operand("float32", ("0",))),
    (load(0, "int64"), Instr("offset", "int64", (), 1), Instr("philox", "int64", (0, 1)),
     load(2, "int64"), Instr("lt", "bool", (2, 3)), load(3), load(4),
     Instr("select", "float32", (4, 5, 6))),
    stores=(Store("float32", 7, ("1",)),),
)  # fmt: skip
TOTAL = LoopKernel(
    1, 1, (Operand("float32", ("1",)),), (load(0),),
    (Reduce("sum", 0, "float32"), Reduce("argmax", 0, "int64")), (),
    (Store("float32", 1, ("0",), "epilogue"), Store("int64", 2, ("0",), "epilogue")),
)  # fmt: skip
KERNELS = {
    "scale": SCALE,
    "row_sum": ROW_SUM,
    "column_sum": COLUMN_SUM,
    "embedding": EMBEDDING,
    "dropout": DROPOUT,
    "total": TOTAL,
}


@pytest.mark.parametrize("name", KERNELS)
def test_printed_kernels_are_golden(name):
    """Written anew by `python tests/engine/devices/cpu/codegen/test_ir.py`; look at the difference."""
    assert text(verify(KERNELS[name])) == (GOLDEN / f"{name}.txt").read_text()


def test_the_module_of_a_kernel_is_golden():
    assert lower(SCALE, lookup, "scale", AVX512) == (GOLDEN / "scale.ll").read_text()


def test_different_kernels_print_differently():
    variants = [
        SCALE,
        replace(SCALE, rank=2),
        replace(SCALE, operands=SCALE.operands[:1]),
        replace(SCALE, operands=(replace(SCALE.operands[0], virtual=True), SCALE.operands[1])),
        replace(SCALE, operands=(replace(SCALE.operands[0], index=1), SCALE.operands[1])),
        replace(SCALE, stores=(replace(SCALE.stores[0], value=1),)),
        replace(SCALE, stores=(replace(SCALE.stores[0], stage="epilogue"),)),
        ROW_SUM,
    ]
    assert len({text(variant) for variant in variants}) == len(variants)
    assert schedule.text(scheduled(ROW_SUM)) == schedule.text(scheduled(ROW_SUM, LoopSchedule(1)))
    assert schedule.text(scheduled(ROW_SUM)) != schedule.text(scheduled(ROW_SUM, LoopSchedule(0)))


FAULTS = {
    "reduced=3 of rank 2": replace(ROW_SUM, reduced=3),
    "must come together": replace(ROW_SUM, reduces=(), epilogue=(), stores=()),
    "an epilogue needs a reduction": replace(SCALE, epilogue=(Instr("neg", "float32", (2,)),)),
    "unknown dtype 'float8'": replace(SCALE, operands=(Operand("float8", ("1",)),) * 2),
    "not 1 of": replace(SCALE, operands=(Operand("float32", ("1", "1")),) * 2),
    "has strides ('x',)": replace(SCALE, operands=(Operand("float32", ("x",)),) * 2),
    "reads (0, 7)": replace(SCALE, body=(load(0), load(1), Instr("mul", "float32", (0, 7)))),
    "reads operand 5 of 2": replace(SCALE, body=(load(0), load(5), SCALE.body[2])),
    "= load has operand -1": replace(SCALE, body=(load(-1), *SCALE.body[1:])),
    "stores %9": replace(SCALE, stores=(Store("float32", 9, ("1",)),)),
    "not in [4, 6)": replace(ROW_SUM, stores=(Store("float32", 3, ("1", "0"), "epilogue"),)),
    "is mean float32": replace(ROW_SUM, reduces=(Reduce("mean", 3, "float32"),)),
    "which is no body value": replace(ROW_SUM, reduces=(Reduce("sum", 4, "float32"),)),
    "not all in [4, 5)": replace(ROW_SUM, epilogue=(Instr("log", "float32", (3,)),)),
    "varies along a reduced axis": replace(ROW_SUM, epilogue=(load(0),)),
    "offset reads virtual operands": replace(
        SCALE, body=(Instr("offset", "int64", (), 0), *SCALE.body[1:])
    ),
    "gives 1 of 0 index values": replace(
        SCALE, body=(load(0), Instr("load_indexed", "float32", (0,), 1), SCALE.body[2])
    ),
    "a cast is an op of its own": replace(SCALE, body=(load(0, "float64"), *SCALE.body[1:])),
}


@pytest.mark.parametrize("message", FAULTS)
def test_the_verifier_names_the_fault(message):
    with pytest.raises(KernelError) as caught:
        verify(FAULTS[message])
    assert message in str(caught.value)
    assert "kernel rank=" in str(caught.value)


def test_the_lanes_lie_along_the_last_axis_or_the_last_parallel_one():
    with pytest.raises(KernelError, match="vector_axis=0 is neither"):
        scheduled(EMBEDDING, LoopSchedule(0))


def test_the_layout_of_a_launch():
    assert pointers(scheduled(EMBEDDING)) == ("operand 0", "operand 1", "store 0", "status")
    assert pointers(scheduled(DROPOUT)) == (
        "operand 0",
        "operand 2",
        "operand 3",
        "operand 4",
        "store 0",
    )
    assert pointers(scheduled(TOTAL)) == ("operand 0", "store 0", "store 1", "scratch")
    assert arguments(scheduled(EMBEDDING)) == (
        "dim 0", "dim 1",
        "operand 0 stride 0", "operand 0 stride 1",
        "operand 1 stride 0", "operand 1 stride 1",
        "operand 1 index 0 stride", "operand 1 index 0 extent",
        "store 0 stride 0", "store 0 stride 1",
    )  # fmt: skip


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_compile_for_aarch64_without_library_calls(name):
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    target = binding.Target.from_triple("aarch64-unknown-linux-gnu")
    machine = target.create_target_machine(cpu="neoverse-n1", opt=1)
    module = binding.parse_assembly(lower(KERNELS[name], lookup, name, NEON))
    assembly = machine.emit_assembly(module)
    called = re.findall(r"\tbl\t(\S+)", assembly)
    assert f"{name}:" in assembly and not called


if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    for name, kernel in KERNELS.items():
        (GOLDEN / f"{name}.txt").write_text(text(kernel))
    (GOLDEN / "scale.ll").write_text(lower(SCALE, lookup, "scale", AVX512))
