"""Kernels other than loops over independent elements: scans, sorts, scatters, segment gathers, streaming copies.

`kernel_base` has what they share.
"""
