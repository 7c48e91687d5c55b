"""Tensors as something else: of another dtype or device, as NumPy arrays and DLPack capsules, as sparse tensors.

In comes a tensor or an object with an array protocol; out goes the same content in the form asked for, with the same
memory where that can be. Start with `dtype_and_device`.
"""
