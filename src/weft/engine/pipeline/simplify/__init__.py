"""Simplification: the nodes that have to run, in an order in which they can.

`collect` extracts what live values need: dead code goes, common subexpressions are found once, views are folded into
their readers, composed operations are decomposed. `gather_matmul` and `implicit_gemm` rewrite matrix products. Start
with `collect`.
"""
