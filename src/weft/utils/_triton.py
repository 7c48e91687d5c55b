"""Questions of packages about the kernel language Triton, which is not used here."""

from __future__ import annotations


def has_triton() -> bool:
    """True if kernels can be written in Triton: no."""
    return False


has_triton_package = has_triton
