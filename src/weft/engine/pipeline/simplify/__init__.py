"""Simplification passes: the nodes that have to run, in a topological order.

Passes in this order: `extract` removes dead code and orders what live values need; `decompose` replaces macros by
primitives, and `gather_matmul` products of gathered rows by gathers of products; `fold_views` gives each value its
memory reference; `cse` merges common subexpressions; `implicit_gemm` lets matrix products read through reshapes. Start
with `extract`.
"""
