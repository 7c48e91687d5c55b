"""Elementwise functions: of one tensor (`unary`), of several (`binary`), and choosing or comparing (`comparison`).

Each operation on tensors and numbers is one node, which fuses with its neighbours. A function that is an op of the
table is an entry in a list of names: start with `_SIMPLE` in `unary`.
"""
