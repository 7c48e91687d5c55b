"""LLVM IR as text: `builder` writes functions, `simd_value` is a value in every lane, `target` knows the processor."""
