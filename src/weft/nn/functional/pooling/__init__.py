"""Pooling: maxima and means over windows, and back.

The result has the input's channels and fewer positions. Windows are views of the input (`windows`). Start with
`windowed`.
"""
