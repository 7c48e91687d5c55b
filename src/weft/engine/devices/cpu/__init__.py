"""The CPU: machine code, memory and threads.

In comes what `engine.devices.api` asks of a device; out go launches and values. `device` registers the CPU. `lowering`
makes schedules, launches and the source of kernels; `llvm`, `elementary`, `elementwise`, `codegen`, `kernels`, `gemm`
and `attention` write that source, LLVM IR as text; `jit`, `linking`, `disk_cache` and `shipped_kernels` give its
`machine_code`; `pool` holds memory; `executor` runs `instructions` on `threads`. Start with `executor` for how a
program runs, with `lowering.launches` for how it is made, with `codegen.loop_kernel` for what a kernel is.
"""
