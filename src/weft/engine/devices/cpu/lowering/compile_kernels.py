"""Compilation of the kernels of a program that have no code yet: all together before it runs, or in the background."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from weft.engine.capi.interrupts import uninterrupted
from weft.engine.devices.cpu.machine_code import MachineCode

if TYPE_CHECKING:
    from weft.engine.devices.cpu.background import KernelRequest
    from weft.engine.pipeline.launch_ir import KernelSpec


def compile_specs(specs: list[KernelSpec]) -> None:
    """Give every KernelSpec its code."""
    from weft.engine.devices.cpu.jit import compile_batch

    requests = [_request(spec) for spec in specs]
    for spec, library in zip(specs, compile_batch(requests), strict=True):
        spec.code = MachineCode(library, spec.symbols)


def specs_in_background(specs: list[KernelSpec], seconds: float) -> list[KernelSpec]:
    """Those of these kernels that are not at hand within so many seconds: they are compiled in the background. Writing
    their IR counts: what there is no time for is left to the next flush."""
    from weft.engine.devices.cpu.jit import background

    end = time.monotonic() + seconds
    waiting = []
    with uninterrupted():
        for spec in specs:
            if time.monotonic() > end or background.waits_for(_request(spec)):
                waiting.append(spec)
    unasked = {spec.name for spec in waiting} - background.asked.keys()
    left = end - time.monotonic()
    if waiting and left > 0:
        background.wait_in_step([spec.name for spec in waiting], left)
    return [s for s in waiting if s.name in background.asked or s.name in unasked]


def _request(spec: KernelSpec) -> KernelRequest:
    from weft.engine.devices.cpu.background import KernelRequest
    from weft.engine.devices.cpu.codegen_hash import revision

    return KernelRequest(spec.name, _source_of(spec), spec.symbols, revision())


def _source_of(spec: KernelSpec) -> Callable[[], str]:
    return lambda: spec.build(spec.name)
