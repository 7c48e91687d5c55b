"""Kernels as any device could run them: the loop IR, with a verifier and a printer."""
