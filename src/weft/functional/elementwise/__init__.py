"""Elementwise functions: of one tensor (`unary`), of several (`binary`), and choosing or comparing (`comparison`).

In come tensors and numbers; out goes one node for each operation, which fuses with its neighbours. A function that is a
row of the op table stands in a list of names: start with `_SIMPLE` in `unary`.
"""
