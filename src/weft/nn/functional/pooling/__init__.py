"""Pooling: maxima and means over windows, and back.

In comes a tensor with channels; out goes one with fewer places. Windows are views of the input (`windows`). Start with
`windowed`.
"""
