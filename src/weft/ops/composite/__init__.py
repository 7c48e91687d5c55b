"""Rows that stand for several primitives: with a derivative of their own, or until the graph is collected.

`own_derivatives` holds gradient records: the value is composed of primitives, the derivative is a rule (JAX's
custom_vjp). `macro` holds operations that are one node while they are recorded and batched, and are decomposed when the
graph is collected; `losses` are macros. Start with `own_derivatives`.
"""
