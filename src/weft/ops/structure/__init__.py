"""Rows that move elements, choose them or bring several together: views, joins, reductions, indexing, orders.

Shapes and strides come in and go out; which element goes where is a row's rule, written once for the kernel, its
derivative and its batch. Start with `movement`; `reductions` has sums and scans, `indexing` gathers and their
transposes.
"""
