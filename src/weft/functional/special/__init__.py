"""Special functions of analysis: logarithms of sums, gamma, Bessel and zeta functions, orthogonal polynomials.

In come tensors; out go tensors composed of rows of the op table, or computed by SciPy at the call. Start with
`special`; the other modules are imported when one of their functions is first called.
"""
