"""Compilation of the kernels that a program needs and that have no code yet, all together, before it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from weft.engine.devices.cpu.machine_code import MachineCode

if TYPE_CHECKING:
    from weft.engine.pipeline.launch_ir import KernelSpec


def compile_specs(specs: list[KernelSpec]) -> None:
    """Give every KernelSpec its code."""
    from weft.engine.devices.cpu.codegen_hash import revision
    from weft.engine.devices.cpu.jit import Request, compile_batch

    text_of = revision()
    requests = [Request(spec.name, _source_of(spec), spec.symbols, text_of) for spec in specs]
    for spec, library in zip(specs, compile_batch(requests), strict=True):
        spec.code = MachineCode(library, spec.symbols)


def _source_of(spec: KernelSpec) -> Callable[[], str]:
    return lambda: spec.build(spec.name)
