"""Fusion and recomputation: which nodes are one kernel, and which values are stored at all.

In come nodes in order, out go kernels in order. `form_kernels` joins nodes (`elementwise`, `reductions`);
`into_reader` moves a value into its only reader, `rematerialization` computes it again after the peak of memory,
`column_sums` takes sums into the kernel that has the rows, `clones` copies a value into several readers: passes in this
order. What they ask of a kernel is in `regions`, who reads a value in `def_use`, what computing it again costs in
`costs`. Start with `form_kernels`.
"""
