"""Values as Python sees them: `item`, `tolist`, truth, indices (`values`), and tensors as text (`printing`).

In comes a tensor, whose value is computed now if it is pending; out go numbers, lists, text. Start with `values`.
"""
