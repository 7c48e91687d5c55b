"""Kernels that are no loop over independent elements: scans, sorts, scatters, gathers of rows, copies past the caches.

`kernel_base` is what they share.
"""
