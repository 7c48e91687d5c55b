"""Sorting and searching: sort and order statistics, distinct elements, searches in an order, histograms.

A function returns elements in order, their indices, or counts. `sort` and `search` compute in kernels;
`unique` and `histograms` read their values at the call. Start with `sort`.
"""
