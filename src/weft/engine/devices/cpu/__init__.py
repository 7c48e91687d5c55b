"""The CPU as a device: machine code, memory and threads.

It implements `engine.devices.api`, and `device` registers it. `lowering` makes schedules, launches and the source of
kernels; `llvm`, `elementary`, `elementwise`, `codegen`, `kernels`, `gemm` and `attention` write that source, LLVM IR
as text; `jit`, `linking` and `kernel_files` give its `machine_code`; `pool` holds memory; `executor`
runs `instructions` on `threads`. Start with `executor` for how a program runs, with `lowering.launches` for how it is
made, with `codegen.loop_kernel` for what a kernel is.
"""
