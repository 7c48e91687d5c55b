"""Data parallel training: one model on every rank, each with examples of its own.

In comes a model; out go gradients that are averages over the ranks. Start with `ddp`; `join` lets ranks have loops of
different lengths, `blocks` gives sums the same bits on any number of ranks.
"""
