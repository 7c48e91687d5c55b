"""Kernels over loops, as LLVM IR text: from the loop IR to nests of loops over vectors of lanes.

`loop_kernel` is one kernel, `row_kernel` several over the same rows, the `reduce_*` modules their reductions;
`evaluator` walks instructions. Start with `loop_kernel`.
"""
