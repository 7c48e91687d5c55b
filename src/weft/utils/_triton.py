"""What packages ask about the kernel language Triton: it is not used here."""

from __future__ import annotations


def has_triton() -> bool:
    """Whether kernels can be written in Triton: no."""
    return False


has_triton_package = has_triton
