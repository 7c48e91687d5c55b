"""Functions under the names that PyTorch's kernels have (ATen), which a few programs call.

In come the arguments of a kernel: modes by number, statistics beside the result, no defaults. Each is composed of
public functions. Start with `native`.
"""
