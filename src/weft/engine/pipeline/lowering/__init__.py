"""Lowering: from planned kernels to launches and to descriptions of their code.

`lower` asks the lowering of each kind of kernel, one module per kind. A loop kernel is described in words of plain
memory by `kernel_encoder`, which are its key in the cache of specs; `kernel_decoder` reads them back into loop IR when
the kernel is compiled. Start with `lower`.
"""
