"""Lowering: planned kernels become descriptions of their code; the program's device makes launches.

A fused kernel gets its spec. `kernel_encoder` describes a loop kernel in words of plain memory, which are its key in
the table of specs (`spec_table`); `loop_kernel` and `row_kernel` find specs, and `kernel_decoder` reads a key back
into loop IR when the kernel is compiled. `lower` asks the device for the launches of a program. Start with
`loop_kernel`.
"""
