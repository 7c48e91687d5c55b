"""Rows that sum products over pairs of elements: matrix products, convolution, attention, resampling.

Their operands have two or more dimensions; each row has a family of kernels of its own. Start with `matmul`:
convolution is a product over windows, resampling one with a sparse matrix.
"""
