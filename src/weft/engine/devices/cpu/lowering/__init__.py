"""Lowering on the CPU: schedules, launches and the source of kernels.

It takes a planned Program and makes its launches in order, whose kernels are known by their keys. `lowerer` is the
device's, for `engine.pipeline.lowering` and the runtime. `launches` goes through the kernels of a program and asks the
module of their kind: `loops` and `rows` those of fused kernels, `matmul`, `attention`, `copy`, `segment_gather` and
`scan_sort_scatter` the others. `emit` writes the LLVM IR of a kernel from its key, and `compile_kernels` compiles the
kernels that a program lacks. Start with `launches`.
"""
