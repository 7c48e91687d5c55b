"""Elementwise rows: one output element from one element of each operand, which fuse with their neighbours.

A row is defined when its module is imported (`weft.ops`). A derivative is the linear map that one output element's
cotangent goes through; broadcasting is undone by the walk. `domain` names the domain of each operand for the tests:
real, positive, unit (inside (-1, 1)), nonzero, above_one, octave (inside (1, 2)), integer, bits (a shift), counter (of
random numbers), boolean, small (|x| < 3). `dtypes` are the operand types that have a kernel, after promotion; other
types are refused by the row's dtype rule or its function.

Start with `arithmetic`. `special_functions` and `bessel` are composed of these rows and have derivatives of their own;
`gates` and `updates` are rows that make longer expressions one operation.
"""
