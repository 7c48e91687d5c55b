"""Functions under the names of PyTorch's kernels (ATen), which a few programs call.

They take the arguments of a kernel: modes by number, statistics in addition to the result, no defaults. Each is
composed of public functions. Start with `native`.
"""
