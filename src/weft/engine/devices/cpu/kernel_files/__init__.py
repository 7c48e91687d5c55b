"""Compiled kernels as files: the cache on disk, the kernels that a package brings, and what an object file says.

In: object code of the JIT, by the kernel's key. Out: the same in a later process, for `linking` to load without LLVM.
Start with `disk_cache`.
"""
