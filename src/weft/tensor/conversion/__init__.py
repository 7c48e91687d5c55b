"""Conversions of tensors: to another dtype or device, to and from NumPy arrays and DLPack capsules, to sparse tensors.

The result has the same content in the form asked for, with the same memory if possible. Start with `dtype_and_device`.
"""
