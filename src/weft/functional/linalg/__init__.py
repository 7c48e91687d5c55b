"""Linear algebra: products, einsum, norms, factorizations, and systems of equations.

The functions take vectors and matrices in the last dimensions. Products are nodes of the one `matmul` op (`products`,
and `composed_products` and `einsum` above it). Factorizations take their values from LAPACK at the call and have
derivatives of any order (`lapack_primitives`, `factorizations`); `decompositions`, `solve` and `matrix_functions` are
made of them. Start with `products` or `decompositions`.
"""
