"""Kernel fusion and rematerialization: which nodes are one kernel, and which values are stored at all.

The passes take ordered nodes and leave ordered kernels. `form_kernels` joins nodes (`elementwise`, `reductions`);
`into_reader` moves a value into its only reader, `rematerialization` computes it again after the peak of memory,
`column_sums` takes sums into the kernel that has the rows, `clones` copies a value into several readers, `siblings`
makes one kernel of two that read the same values: in this order. They share predicates on kernels (`regions`), the
readers of a value (`def_use`) and the price of computing it again (`costs`). Start with `form_kernels`.
"""
