"""Linear algebra: products, einsum, norms, factorizations, and systems of equations.

In come vectors and matrices in the last dimensions. Products are nodes of the one `matmul` row (`products`, and
`composed_products` and `einsum` above it). Factorizations take their values from LAPACK at the call and have
derivatives of any order (`lapack_primitives`, `factorizations`); what is made of them stands in `decompositions`,
`solve` and `matrix_functions`. Start with `products` or `decompositions`.
"""
