"""Capsules: what was recorded, the values that it read and the state of random numbers, in one file without code.

`capture` writes one; `capsule` reads it and runs it again, in any process; `checks` refuses what is hostile;
`reduction` makes it smaller, `python_export` writes it as Python. Start with `records`, the form of all of these.
"""
