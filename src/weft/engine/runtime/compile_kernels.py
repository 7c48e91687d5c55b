"""Compile the kernels that a program needs and does not have yet, together, before it runs."""

from __future__ import annotations

from typing import Any


def compile_specs(lowering: Any) -> None:
    """Give every KernelSpec of the launches its addresses; a spec holds the library that they belong to."""
    specs = list({launch.spec: None for launch in lowering.launches if launch.spec.address == 0})
    if not specs:
        return
    from weft.engine.devices.cpu.codegen_hash import revision
    from weft.engine.devices.cpu.jit import Request, compile_batch

    text_of = revision()
    requests = [Request(spec.name, _builder(spec), spec.symbols, text_of) for spec in specs]
    for spec, library in zip(specs, compile_batch(requests), strict=True):
        spec.handle = library
        spec.address = library[spec.symbols[0]]
        if len(spec.symbols) > 1:
            spec.final_address = library[spec.symbols[1]]


def _builder(spec: Any) -> Any:
    return lambda: spec.build(spec.name)
