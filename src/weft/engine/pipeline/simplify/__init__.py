"""Simplification: the nodes that have to run, in an order in which they can.

Passes in this order: `extract` orders what live values need, dead code goes; `decompose` lets primitives stand for
macros, `gather_matmul` products of tables for products of gathered rows; `fold_views` says where each value lies;
`cse` merges what is computed twice; `implicit_gemm` lets matrix products read through reshapes. Start with `extract`.
"""
