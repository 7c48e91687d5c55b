"""Random numbers: the generator, counts of a Poisson distribution, and distributions that few programs draw from.

In come a generator's key and offset, a shape and parameters; out go tensors whose numbers depend on these alone. Start
with `generator`; `weft.random` has the functions that programs call.
"""
