"""Lowering: from planned kernels to descriptions of their code; launches are made by the program's device.

In comes a fused kernel; out goes its spec. A loop kernel is described in words of plain memory by `kernel_encoder`,
which are its key in the table of specs (`spec_table`); `loop_kernel` and `row_kernel` find specs, and `kernel_decoder`
reads a key back into loop IR when the kernel is compiled. `lower` asks the device for the launches of a program. Start
with `loop_kernel`.
"""
