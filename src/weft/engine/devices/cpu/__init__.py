"""The CPU: machine code, memory and threads.

`llvm`, `elementary`, `elementwise`, `codegen`, `kernels`, `gemm` and `attention` write LLVM IR as text; `jit`,
`linking` and `disk_cache` make it machine code; `pool` holds memory; `executor` runs `instructions` on `threads`. Start
with `executor` for how a program runs, with `codegen.loop_kernel` for what a kernel is.
"""
