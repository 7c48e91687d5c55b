"""The text of a kernel of attention: from a variant's name to LLVM IR."""

from __future__ import annotations

from llvmlite import ir

from ..gemm.spec import parse
from ..target import Target
from ..text import module_text
from .backward import Backward
from .choose import tile_name
from .forward import Forward


def attention(dtype: str, name: str, variant: str, target: Target) -> str:
    """LLVM IR of kernel `name`."""
    spec = parse(dtype, tile_name(dtype, target), target)
    kind, _, masked = variant.partition("_")
    module = ir.Module(name)
    made = Forward if kind == "forward" else Backward
    builders = made(module, name, spec, masked == "masked").build()
    return module_text(module, builders, target.register_bits)
