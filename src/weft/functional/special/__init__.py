"""Special functions of analysis: logarithms of sums, gamma, Bessel and zeta functions, orthogonal polynomials.

They are composed of ops of the table, or computed by SciPy at the call. Start with `special`; the other modules are
imported when one of their functions is first called.
"""
