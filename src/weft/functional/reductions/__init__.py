"""Reductions over dimensions: sums, extrema, moments, softmax, and statistics composed of them.

The result lacks the reduced dimensions, or has them with size 1 under `keepdim`. Start with `sums_and_extrema`.
"""
