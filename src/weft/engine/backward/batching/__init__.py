"""Batches in the reverse walk: cotangents of all members at once, and sums that are put together.

In come gradient records whose nodes run in one batch, with their cotangents; out goes one record of the rule for all
of them. `merge_batches` joins batches of different rounds, `combine_accumulations` cotangents of many times of a
loop. Start with `batched_vjp`.
"""
