"""Values as Python sees them: `item`, `tolist`, truth, indices (`values`), and tensors as text (`printing`).

A pending value is computed first. Start with `values`.
"""
