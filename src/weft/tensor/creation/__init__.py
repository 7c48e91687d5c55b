"""Factories: tensors from Python data, from NumPy, filled, counted, spaced, like another.

In come numbers, nested lists, arrays and sizes; out go leaf tensors. `numbers` is the short way of numbers and plain
lists, `python_data` that of everything else. Start with `factories`.
"""
