"""Indexing: `x[index]`, assignment to it, gather, scatter, and writes to the memory of a tensor.

A tensor and an index of any kind become views, or gathers and scatters with one linear index. Start with `index`;
`advanced_index` joins several index tensors into one.
"""
