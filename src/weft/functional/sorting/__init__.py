"""Orders of elements: sort and order statistics, distinct elements, searches in an order, histograms.

In comes a tensor; out go elements in order, their indices, or counts. `sort` computes in kernels and has derivatives;
`unique` and `histograms` read their values at the call. Start with `sort`.
"""
