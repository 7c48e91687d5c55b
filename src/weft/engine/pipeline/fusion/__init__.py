"""Fusion and recomputation: which nodes are one kernel, and which values are stored at all.

In come nodes in order, out go kernels in order. `fuse` makes elementwise kernels and puts `reductions` into them;
`into_reader` moves a value into its only reader, `clones` copies it into several, `rematerialization` computes it again
after the peak of memory. Start with `fuse`.
"""
