"""PyTorch's own databases of operators, modules and optimizers, run against Weft.

`convert` carries PyTorch's samples over, `compare` holds results against each other, `operators`, `modules` and
`optimizers` say what is checked of an entry, `guard` runs entries in processes of their own with a time limit,
`report` prints the tables and writes docs/compatibility.md.
"""
