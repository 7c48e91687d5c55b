"""Runtime: memory, threads, kernels as machine code, and launching them.

Takes LLVM IR and lists of launches from the layers above; gives back buffers and executed programs.
What a kernel computes, and which kernels a program holds, is decided elsewhere.
"""
