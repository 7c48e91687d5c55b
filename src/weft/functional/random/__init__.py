"""Random numbers: the generator, counts of a Poisson distribution, and distributions that few programs draw from.

The numbers of a tensor depend on a generator's key and offset, a shape and parameters alone. Start with `generator`;
`weft.random` has the functions that programs call.
"""
