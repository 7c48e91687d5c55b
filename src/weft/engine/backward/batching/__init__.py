"""Batched VJPs in backward: the cotangents of all members of a batch at once, and combined gradient accumulations.

Gradient records whose nodes run in one batch get one record of the rule for all of them. `merge_batches` joins batches
of different flushes, `combine_accumulations` the cotangents of many steps of a loop. Start with `batched_vjp`.
"""
