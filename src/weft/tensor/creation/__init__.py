"""Factories: tensors from Python data, from NumPy, filled, counted, spaced, like another.

Numbers, nested lists, arrays and sizes become leaf tensors. `numbers` is the short path of numbers and plain lists,
`python_data` that of all other data. Start with `factories`.
"""
