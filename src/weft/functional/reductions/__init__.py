"""Reductions over dimensions: sums, extrema, moments, softmax, and statistics composed of them.

In come a tensor and the dimensions to reduce; out goes a tensor without them, or with size 1 where `keepdim` says so.
Start with `sums_and_extrema`.
"""
