"""Kernels: the loop IR, its families, and their lowering to LLVM IR text.

In come frozen records (`ir.LoopKernel` and the parameters of the other families); out goes the
text of an LLVM module with explicit vector types.  Compiling, caching and launching are the
runtime's; this package never touches memory.  `ir` imports nothing heavy; every other module
imports llvmlite, so import them when the first kernel is built.
"""
